// Package background does work in the background that many may ask for at once.
package background

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Task is work in the background that many may ask for, again and again. It is done at once for
// the first request, and after a pause for all that have come by then: so the work has a bound,
// however often others cause it. The task ends with its client.
type Task struct {
	// Start calls work in a goroutine and returns true, or returns false once the client is closed.
	// Done is closed then.
	Start func(work func()) bool
	Done  <-chan struct{}
	// Work does the work. It returns the least pause before the next time, and whether the work is
	// repeated after the pause without a call of Ask.
	Work func() (pause time.Duration, again bool)

	asked atomic.Bool // the work was asked for since it last began

	mu      sync.Mutex // guards the fields below
	running bool       // the goroutine exists
}

// Ask asks for the work. It waits for nothing, and may be called with a mutex held.
func (t *Task) Ask() {
	if t.asked.Load() || t.asked.Swap(true) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		t.running = t.Start(t.run)
	}
}

func (t *Task) run() {
	for {
		t.asked.Store(false)
		pause, again := t.Work()
		timer := time.NewTimer(pause)
		select {
		case <-t.Done:
			timer.Stop()
			return
		case <-timer.C:
		}
		t.mu.Lock()
		t.running = again || t.asked.Load()
		goOn := t.running
		t.mu.Unlock()
		if !goOn {
			return
		}
	}
}
