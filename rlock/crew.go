package rlock

import "sync"

// A crew is the goroutines that work for a client in the background. Close waits for
// them. The zero value is ready for use.
type crew struct {
	mu      sync.Mutex // protects following
	closed  bool
	running sync.WaitGroup // only Add needs the mutex
}

// start calls work in a goroutine of its own, and reports whether it did: a crew that
// is closed starts nothing.
func (c *crew) start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(work)
	}
	return !c.closed
}

// close returns when all goroutines have ended. None is started after it was called.
func (c *crew) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}
