package network

import (
	"sync"
	"time"
)

// A sleeper sleeps by Go's timers and can be stopped.
type sleeper struct {
	once sync.Once
	done chan struct{}
}

func newSleeper() *sleeper { return &sleeper{done: make(chan struct{})} }

// sleep returns after d, or at once when the sleeper is stopped.
func (s *sleeper) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
	}
}

// stop ends the sleep under way and every later one.
func (s *sleeper) stop() { s.once.Do(func() { close(s.done) }) }
