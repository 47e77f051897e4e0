package rlock

import (
	"time"

	"github.com/go-rlock/rlock/internal/testhook"
)

func init() {
	testhook.Look = func(client any, lock string) { client.(*Client).askAbout(lock) }
}

// askAbout has Redis asked now about the lock of that name: by a mirror for what is held
// here, by a look for each waiter.
func (c *Client) askAbout(key string) {
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
func (s *shard) roomsOf(key string) (names []*name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rooms {
		if r.name.Key == key {
			names = append(names, r.name)
		}
	}
	return names
}
