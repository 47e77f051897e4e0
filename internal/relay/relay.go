package relay

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Network is all connections of some clients to one server. Make one with
// [New]. Its methods may be called concurrently.
type Network struct {
	dial func() (net.Conn, error)
	wg   sync.WaitGroup // the goroutines of all connections

	mu      sync.Mutex // protects following, and every conn and lane
	changed sync.Cond  // told after each change of them
	rule    Rule
	refuse  bool // no connection may be opened
	tickets int  // counts the calls of Deliver
	conns   map[*conn]struct{}
	sent    []Frame
}

// A conn is one connection: two lanes, and the commands that await a reply.
type conn struct {
	client, server net.Conn
	asked          [][]string
	cut            bool
	lanes          int // those that may have something to send yet
}

// A lane is one direction of a connection.
type lane struct {
	conn  *conn
	up    bool
	queue []message
	eof   bool // the sender has closed its end
}

// errCut is what a dial gets while the network is cut.
var errCut = errors.New("relay: the network is cut")

// New returns a network whose connections are opened with dial. Without a rule it
// lets everything through. Close it at the end.
func New(dial func() (net.Conn, error)) *Network {
	n := &Network{dial: dial, conns: make(map[*conn]struct{})}
	n.changed.L = &n.mu
	return n
}

// Dial opens a connection; it is made for DialCtxFn of rueidis. It fails at once
// while the network is cut.
func (n *Network) Dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	n.mu.Lock()
	refuse := n.refuse
	n.mu.Unlock()
	if refuse {
		return nil, errCut
	}
	server, err := n.dial()
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	c := &conn{client: ours, server: server, lanes: 2}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[c] = struct{}{}
	if n.refuse {
		n.cutLocked(c)
	}
	up, down := &lane{conn: c, up: true}, &lane{conn: c}
	n.wg.Add(4)
	go n.receive(up, c.client)
	go n.receive(down, c.server)
	go n.send(up, c.server)
	go n.send(down, c.client)
	return theirs, nil
}

// Rule replaces the rule for whatever has not had its turn yet; nil lets
// everything through. What is held stays held.
func (n *Network) Rule(rule Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule = rule
}

// Deliver sends what is held on its way. What stands behind it has its turn then.
func (n *Network) Deliver() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tickets++
	n.changed.Broadcast()
}

// Cut ends all connections, with what is on its way in them, and refuses new ones
// until [Network.Heal].
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = true
	for c := range n.conns {
		n.cutLocked(c)
	}
}

// Heal takes the rule away, delivers what is held, and lets connections be opened
// again.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule, n.refuse = nil, false
	n.tickets++
	n.changed.Broadcast()
}

// Close cuts the network for good and returns when its goroutines have ended.
func (n *Network) Close() {
	n.Cut()
	n.wg.Wait()
}

// Sent returns the commands of that name that were let through to the server so
// far, in order; all of them if the name is empty.
func (n *Network) Sent(name string) []Frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.sent), func(f Frame) bool { return name != "" && !f.Is(name) })
}

func (n *Network) cutLocked(c *conn) {
	c.cut = true
	c.client.Close()
	c.server.Close()
	delete(n.conns, c)
	n.changed.Broadcast()
}

// receive reads one end for as long as it lives.
func (n *Network) receive(l *lane, from net.Conn) {
	defer n.wg.Done()
	r := bufio.NewReader(from)
	for {
		m, err := read(r)
		n.mu.Lock()
		if err == nil {
			l.queue = append(l.queue, m)
		}
		l.eof = err != nil
		n.changed.Broadcast()
		n.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// send lets through what one end has sent, as the rule says.
func (n *Network) send(l *lane, to net.Conn) {
	defer n.wg.Done()
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for len(l.queue) == 0 && !l.eof && !l.conn.cut {
			n.changed.Wait()
		}
		if l.conn.cut || len(l.queue) == 0 {
			break
		}
		m := l.queue[0]
		l.queue = l.queue[1:]
		f := l.frame(m)
		fate := Pass
		if n.rule != nil {
			fate = n.rule(f)
		}
		switch fate {
		case Drop:
			continue
		case Cut:
			n.cutLocked(l.conn)
			continue
		case Hold:
			for ticket := n.tickets; ticket == n.tickets && !l.conn.cut; {
				n.changed.Wait()
			}
			if l.conn.cut {
				continue
			}
		}
		if l.up {
			f.Time = time.Now()
			n.sent = append(n.sent, f)
			if !subscribes(f) {
				l.conn.asked = append(l.conn.asked, f.Args)
			}
		}
		n.mu.Unlock()
		// An error says that this end is closed; its lane reads the same.
		_, _ = to.Write(m.raw)
		n.mu.Lock()
	}
	to.Close()
	if l.conn.lanes--; l.conn.lanes == 0 {
		delete(n.conns, l.conn)
	}
}

// frame tells what a message is about; of a reply, which command it answers.
func (l *lane) frame(m message) Frame {
	switch {
	case l.up:
		return Frame{Stage: Request, Args: m.args}
	case m.kind == '>':
		return Frame{Stage: Push, Args: m.args}
	case len(l.conn.asked) == 0:
		return Frame{Stage: Reply} // of an error, say, that nobody asked for
	}
	f := Frame{Stage: Reply, Args: l.conn.asked[0]}
	l.conn.asked = l.conn.asked[1:]
	return f
}

// subscribes reports whether a command is answered by pushes, as in RESP3 those
// are that subscribe and unsubscribe.
func subscribes(f Frame) bool {
	return len(f.Args) > 0 && strings.HasSuffix(strings.ToUpper(f.Args[0]), "SUBSCRIBE")
}
