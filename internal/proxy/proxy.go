package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy stands in front of one server. All its methods may be called
// concurrently.
type Proxy struct {
	listener net.Listener
	target   string
	oneWay   atomic.Int64 // nanoseconds
	running  sync.WaitGroup

	mu     sync.Mutex // protects following
	closed bool
	held   chan struct{} // closed when nothing is held back
	conns  map[net.Conn]struct{}
}

// Listen starts a proxy on a free port of the loopback, in front of the server
// at target, with the given round-trip time (0: as fast as it can). It does not
// connect to the server before a client connects to it.
func Listen(target string, roundTrip time.Duration) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{
		listener: listener,
		target:   target,
		held:     make(chan struct{}),
		conns:    make(map[net.Conn]struct{}),
	}
	close(p.held)
	p.SetRoundTrip(roundTrip)
	p.running.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns the address to connect to instead of the server's.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetRoundTrip changes the delay of what is sent from now on. What is under way
// keeps its time, and nothing overtakes it.
func (p *Proxy) SetRoundTrip(d time.Duration) { p.oneWay.Store(int64(d) / 2) }

// Hold keeps everything back, in both directions, with all connections open: a
// network that has stopped. New connections are accepted and held too. What was
// due is delivered in order after Resume.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.held:
		p.held = make(chan struct{})
	default:
	}
}

// Resume ends Hold.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumeLocked()
}

// resumeLocked needs mu.
func (p *Proxy) resumeLocked() {
	select {
	case <-p.held:
	default:
		close(p.held)
	}
}

// passing returns a channel that is closed while nothing is held back.
func (p *Proxy) passing() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Cut closes all connections at once, with what is under way in them. New ones
// are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Close cuts all connections, stops listening, and returns when no goroutine of
// the proxy is left. Calls after the first return net.ErrClosed.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.resumeLocked()
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

func (p *Proxy) accept() {
	defer p.running.Done()
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client went away before it was accepted
		}
		p.running.Add(1)
		go p.serve(client)
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.running.Done()
	defer p.forget(client)
	if !p.remember(client) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.forget(server)
	if !p.remember(server) {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		p.carry(client, server)
	}()
	p.carry(server, client)
	<-back
}

// remember has Cut and Close end the connection; it reports false if the proxy
// is closed already.
func (p *Proxy) remember(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = struct{}{}
	return !p.closed
}

func (p *Proxy) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}
