package engine

import "time"

// A client waits before it verifies its tenures again: at first shortly, then for longer, as
// long as there is no rest between. A network that ends connections again and again must not
// add a load of its own.
const firstVerifyPause, lastVerifyPause = time.Second / 16, time.Second

// verifies returns the errand that has Redis asked at once whether it still shows the tenures
// of the client, when a connection has ended and when the first command over a new one is
// answered: another server may answer now, one that took over from the primary and never had
// the grant, or one that was restarted without its data. Else the next renewal would tell, up
// to a third of the lease later, and until then there might be two holders.
func (c *Client) verifies() *errand {
	return &errand{redis: c.Redis, first: firstVerifyPause, pause: lastVerifyPause, work: c.mirrorAll}
}

// mirrorAll has the keeper mirror all tenures in its next batches.
func (c *Client) mirrorAll() (more bool) {
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
	return false
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
