package engine

import (
	"sync"
	"time"
)

// A client waits before it verifies its tenures again: at first shortly, then for longer and
// longer, while there is no rest between. A network that ends connections again and again must
// not add a load of its own.
const firstVerifyPause, lastVerifyPause = time.Second / 16, time.Second

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

	// What runs has these to itself.
	pause time.Duration // the last one
	last  time.Time     // when it verified last
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
	for {
		v.client.mirrorAll()
		pause := time.NewTimer(v.nextPause(time.Now()))
		select {
		case <-v.client.Redis.Done():
			pause.Stop()
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
	}
}

// nextPause returns how long to wait after it was verified now.
func (v *verifier) nextPause(now time.Time) time.Duration {
	if v.pause = min(2*v.pause, lastVerifyPause); v.pause == 0 || now.Sub(v.last) > 2*lastVerifyPause {
		v.pause = firstVerifyPause
	}
	v.last = now
	return v.pause
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
