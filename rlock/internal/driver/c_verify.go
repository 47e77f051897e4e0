package driver

import "github.com/go-rlock/rlock/rlock/internal/core"

// verify asks Redis whether it still shows the tenures.
func (c *Client) verify() {
	c.eachLock(func(l *lock, now core.Now) { l.Confirm(now) })
	c.keeper.Probe()
}

// AskAbout asks Redis about the lock and its waiters. It is for tests of users.
func (c *Client) AskAbout(key string) {
	s := c.shardOfKey(key)
	s.visit(s.named(key), func(l *lock, now core.Now) { l.Doubt(now) })
}

// eachLock calls visit for each lock of the client, with its mutex held.
func (c *Client) eachLock(visit func(l *lock, now core.Now)) {
	for s := range c.allShards {
		s.visit(s.all, visit)
	}
}
