package worker

import (
	"sync"
	"time"
)

// A gate lets goroutines go on, or stops them.
type gate struct {
	mu      sync.Mutex // protects following
	free    *sync.Cond
	shut    bool
	shuts   chan struct{} // closed when it is shut, and at the end
	over    bool          // they end
	resting int           // goroutines at the gate
	all     int           // all goroutines
	rested  chan struct{} // closed when all rest, if a caller waits for it
}

func newGate(all int) *gate {
	g := &gate{all: all, shuts: make(chan struct{})}
	g.free = sync.NewCond(&g.mu)
	return g
}

// pass waits at the gate while it is shut, and reports whether to go on.
func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resting++
	if g.resting == g.all && g.rested != nil {
		close(g.rested)
		g.rested = nil
	}
	for g.shut && !g.over {
		g.free.Wait()
	}
	g.resting--
	return !g.over
}

// closing returns a channel that is closed when the gate is shut, and at the end.
func (g *gate) closing() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shuts
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut && !g.over {
		g.shut, g.shuts = false, make(chan struct{})
	}
	g.free.Broadcast()
}

// close shuts the gate, and reports whether all came to rest within the limit.
func (g *gate) close(limit time.Duration) bool {
	g.mu.Lock()
	g.shutNow()
	if g.resting == g.all {
		g.mu.Unlock()
		return true
	}
	rested := make(chan struct{})
	g.rested = rested
	g.mu.Unlock()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-rested:
		return true
	case <-timeout.C:
		return false
	}
}

// end releases all goroutines at the gate.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	g.shutNow()
	g.free.Broadcast()
}

// shutNow shuts the gate; with the mutex.
func (g *gate) shutNow() {
	if !g.shut {
		g.shut = true
		close(g.shuts)
	}
}
