package engine

import (
	"sync"
	"time"
)

// verifyPause is how long a client waits before it verifies its tenures again: a network
// that ends connections again and again must not add a load of its own.
const verifyPause = time.Second

// A verifier has Redis asked at once whether it still shows the tenures of a client, when a
// connection has ended and when the first command over a new one is answered: another server
// may answer now, one that took over from the primary and never had the grant, or one that
// was restarted without its data. Else the next renewal would tell, up to a third of the
// lease later, and until then there might be two holders.
type verifier struct {
	client *Client

	mu      sync.Mutex // protects following
	running bool
	again   bool // asked for while it ran
}

// verify begins to verify the tenures, unless that goes on already. It waits for nothing.
func (v *verifier) verify() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running {
		v.again = true
		return
	}
	v.running = v.client.Redis.Start(v.run)
}

// run verifies as often as it is asked to, with a pause in between.
func (v *verifier) run() {
	pause := time.NewTimer(verifyPause)
	defer pause.Stop()
	for {
		v.client.mirrorAll()
		select {
		case <-v.client.Redis.Done():
			return
		case <-pause.C:
		}
		v.mu.Lock()
		v.running, v.again = v.again, false
		goOn := v.running
		v.mu.Unlock()
		if !goOn {
			return
		}
		pause.Reset(verifyPause)
	}
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
}

// AskAbout has Redis asked now about the lock of that name: by a mirror for what is held
// here, by a look for each waiter.
func (c *Client) AskAbout(key string) {
	now := time.Now()
	for s := range c.allShards {
		for _, n := range s.roomsOf(key) {
			r := c.enterIfAny(n)
			if r == nil {
				continue
			}
			if r.tenure != nil {
				r.tenure.mirror()
			}
			r.lookNow(now)
			r.exit()
		}
	}
}

// roomsOf returns the names of the rooms of one lock: of a semaphore each owner has one.
func (s *shard) roomsOf(key string) (names []*Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rooms {
		if r.name.Key == key {
			names = append(names, r.name)
		}
	}
	return names
}
