package rlock

import (
	"time"

	"github.com/go-rlock/rlock/internal/testhook"
)

func init() {
	testhook.Look = func(client any, lock string) { client.(*Client).askAbout(lock) }
}

// askAbout has Redis asked now about the lock of that name: by a mirror if it is held here,
// by a look for each waiter.
func (c *Client) askAbout(key string) {
	now := time.Now()
	for id := range kinds {
		r := c.visitIfAny(&name{key: key, shard: c.shardOf(kindID(id), key)})
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
