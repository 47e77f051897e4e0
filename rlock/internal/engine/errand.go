package engine

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// An errand is work in the background that many may ask for, again and again: it is done at
// once, and then no sooner than a pause later, for all who have asked by then. So the work
// has a bound, however often others cause it. It ends with the client.
type errand struct {
	redis *wire.Redis
	pause time.Duration
	first time.Duration      // the pause after a rest, which then doubles up to pause; 0: it is pause at once
	work  func() (more bool) // reports whether it is to be done again even if nobody asks

	asked atomic.Bool // since the work last began

	mu      sync.Mutex // protects following
	running bool

	// The work that runs has these to itself.
	paused time.Duration // the last pause
	done   time.Time     // when the work was last done
}

// ask has the work done. It waits for nothing, and may be called with a mutex held.
func (e *errand) ask() {
	if e.asked.Load() || e.asked.Swap(true) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		e.running = e.redis.Start(e.run)
	}
}

func (e *errand) run() {
	for {
		e.asked.Store(false)
		more := e.work()
		pause := time.NewTimer(e.nextPause(time.Now()))
		select {
		case <-e.redis.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		e.mu.Lock()
		e.running = more || e.asked.Load()
		goOn := e.running
		e.mu.Unlock()
		if !goOn {
			return
		}
	}
}

// nextPause returns how long to wait after the work was done now.
func (e *errand) nextPause(now time.Time) time.Duration {
	rested := now.Sub(e.done) > 2*e.pause
	e.done = now
	e.paused = min(2*e.paused, e.pause)
	if rested || e.paused == 0 {
		e.paused = cmp.Or(e.first, e.pause)
	}
	return e.paused
}
