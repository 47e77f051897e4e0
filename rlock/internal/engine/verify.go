package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/task"
)

// A client waits before it verifies its tenures again: at first shortly, then for longer, as
// long as there is no rest between. A network that ends connections again and again must not
// add a load of its own.
const firstVerifyPause, lastVerifyPause = time.Second / 16, time.Second

// verifies returns the task that asks Redis at once whether it still shows the tenures
// of the client, when a connection has ended and when the first command over a new one is
// answered: another server may answer now, one that took over from the primary and never had
// the grant, or one that was restarted without its data. Else the next renewal would tell, up
// to a third of the lease later, and until then there might be two holders.
func (c *Client) verifies() *task.Task {
	var paused time.Duration // the last pause
	var done time.Time       // when the work was last done
	return &task.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: func() (time.Duration, bool) {
		c.mirrorAll()
		rested := time.Since(done) > 2*lastVerifyPause
		done, paused = time.Now(), min(2*paused, lastVerifyPause)
		if rested || paused == 0 {
			paused = firstVerifyPause
		}
		return paused, false
	}}
}

// mirrorAll has the keeper mirror all tenures in its next batches.
func (c *Client) mirrorAll() {
	for s := range c.allShards {
		s.mu.Lock()
		for _, r := range s.rooms {
			if t := r.tenure; t != nil && t.kept() {
				t.mirror()
			}
		}
		s.mu.Unlock()
	}
	c.keeper.Probe()
	for _, b := range c.besides() {
		b.Verify()
	}
}

// AskAbout has Redis asked now about the lock of that name: by a mirror for what is held
// here, by a look for each waiter.
func (c *Client) AskAbout(key string) {
	now := time.Now()
	for s := range c.allShards {
		s.mu.Lock()
		for _, r := range s.rooms { // of a semaphore each owner has one
			if r.name.Key != key {
				continue
			}
			if r.tenure != nil {
				r.tenure.mirror()
			}
			r.lookNow(now)
		}
		s.mu.Unlock()
	}
	for _, b := range c.besides() {
		b.AskAbout(key)
	}
}
