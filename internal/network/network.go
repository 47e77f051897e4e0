package network

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// A Network is all connections of some clients to one server. Make one with [New]
// or [Listen]; without a rule it lets everything through. Its methods may be
// called concurrently.
type Network struct {
	dial     func() (net.Conn, error)
	listener net.Listener   // nil if it does not listen
	running  sync.WaitGroup // the goroutines of all connections

	mu        sync.Mutex // guards the fields below, and every conn and lane
	rule      Rule
	oneWay    time.Duration
	slice     int  // the most bytes of one write, 0 for no limit
	refuse    bool // no connection may be opened
	closed    bool
	tickets   int // counts the calls of Deliver
	moves     int // counts the calls of Move
	conns     map[*conn]struct{}
	recording bool
	sent      []Frame
}

// errRefused is the error of a dial while the network refuses.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("network: connections are refused")}

// New returns a network whose connections are opened with dial. Close it at the
// end.
func New(dial func() (net.Conn, error)) *Network {
	return &Network{dial: dial, conns: make(map[*conn]struct{})}
}

// Listen returns a network on a free port of the loopback, in front of the server
// at target. It does not connect to the server before a client connects to it.
// Close it at the end.
func Listen(target string) (*Network, error) {
	n := New(func() (net.Conn, error) { return net.Dial("tcp", target) })
	return n, n.Listen()
}

// Listen gives the network a free port of the loopback. Call it before any other method.
func (n *Network) Listen() (err error) {
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	n.running.Go(n.accept)
	return nil
}

// Addr returns the address of a network that listens, to connect to instead of
// the server's.
func (n *Network) Addr() string { return n.listener.Addr().String() }

// Dial opens a connection; it is made for DialCtxFn of rueidis. It fails at once
// while the network refuses.
func (n *Network) Dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	ours, theirs := net.Pipe()
	if err := n.connect(ours); err != nil {
		return nil, err
	}
	return theirs, nil
}

func (n *Network) accept() {
	for {
		client, err := n.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client went away before it was accepted
		}
		n.running.Go(func() {
			_ = n.connect(client) // an error closes the client's connection, which is all that the client learns
		})
	}
}

// connect leads a client to the server, or closes its connection.
func (n *Network) connect(client net.Conn) error {
	n.mu.Lock()
	refuse := n.refuse
	n.mu.Unlock()
	if refuse {
		client.Close()
		return errRefused
	}
	server, err := n.dial()
	if err != nil {
		client.Close()
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse {
		client.Close()
		server.Close()
		return errRefused
	}
	n.carryLocked(client, server)
	return nil
}

// Rule replaces the rule for all frames that have not been decided yet; nil lets everything
// through. Held frames stay held.
func (n *Network) Rule(rule Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule = rule
}

// SetRoundTrip changes the delay of bytes that are sent from now on. Bytes under way keep
// their time, and nothing overtakes them.
func (n *Network) SetRoundTrip(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.oneWay = d / 2
}

// SetSlice splits everything into writes of at most so many bytes, so that reads end
// anywhere; 0 turns it off.
func (n *Network) SetSlice(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slice = bytes
}

// Deliver sends the held frames on their way. The frames behind them are decided then.
func (n *Network) Deliver() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deliverLocked()
}

func (n *Network) deliverLocked() {
	n.tickets++
	for c := range n.conns {
		c.wake()
	}
}

// Move lets connections that are opened from now on lead to another server, as an address that
// leads to a new primary after a failover does, as far as their client can tell: it has the same
// data, and another run id in INFO. Open connections stay where they are: there scripts are refused
// with READONLY, as by a primary that is a replica now, HELLO without arguments says so, and no
// message comes. Heal does not end that.
func (n *Network) Move() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moves++
}

// Cut ends all connections, with the bytes on their way in them. New ones may be opened at
// once.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		n.cutLocked(c)
	}
}

// Refuse is Cut, and lets no connection be opened until [Network.Heal].
func (n *Network) Refuse() {
	n.mu.Lock()
	n.refuse = true
	n.mu.Unlock()
	n.Cut()
}

// Heal removes the rule, delivers held frames, and lets connections be opened again.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule, n.refuse = nil, n.closed
	n.deliverLocked()
}

// Close cuts the network for good and returns when its goroutines have ended.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	if n.listener != nil {
		n.listener.Close()
	}
	n.Refuse()
	n.running.Wait()
}

// Record keeps the commands that are let through to the server from now on, for
// [Network.Sent].
func (n *Network) Record() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recording = true
}

// Sent returns the recorded commands of that name in order; all of them if the
// name is empty.
func (n *Network) Sent(name string) []Frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.sent), func(f Frame) bool { return name != "" && !f.Is(name) })
}
