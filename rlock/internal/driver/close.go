package driver

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
)

// Close implements [engine.Beside], as the exported methods that follow. Calls return at once, also those
// whose command is in flight, and what Redis shows is released by the keeper.
func (c *Client) Close() {
	c.eachLock(func(l *lock, now core.Now) { l.Lock.Close(now) })
}

// Stop ends the keeper. All commands have been answered by then, or are given up.
func (c *Client) Stop() { c.keeper.Close() }

// Verify asks Redis whether it still shows the tenures.
func (c *Client) Verify() {
	c.eachLock(func(l *lock, now core.Now) { l.Confirm(now) })
	c.keeper.Probe()
}

// AskAbout asks Redis about the lock and its waiters.
func (c *Client) AskAbout(key string) {
	for s := range c.shardsOf(key) {
		s.visit(s.named(key), func(l *lock, now core.Now) { l.Doubt(now) })
	}
}

// eachLock calls visit with each lock, entered.
func (c *Client) eachLock(visit func(l *lock, now core.Now)) {
	for s := range c.allShards {
		s.visit(s.all, visit)
	}
}

// longWaitTime is how long a call waits until deadlocks are searched for.
const longWaitTime = time.Second

// LongWaits reports whether calls wait for locks that are held here, and whether one of them has waited for
// long since it was asked last.
func (c *Client) LongWaits(at time.Time) (waits, long bool) {
	for s := range c.allShards {
		s.glance(func() {
			if s.counts.Waiting == 0 {
				return
			}
			for l := range s.all {
				if l.Owner() == nil {
					continue
				}
				for w := range l.Waiters {
					waits = true
					if w := w.Tag.(*waiter); !w.searched && at.Sub(c.clock.time(w.began)) >= longWaitTime {
						w.searched, long = true, true
					}
				}
			}
		})
	}
	return waits, long
}
