package driver

import "github.com/go-rlock/rlock/rlock/internal/core"

// Close implements [client.Locks], as the exported methods that follow. Calls return at once, also those
// whose command is in flight, and what Redis shows is released by the keeper.
func (c *Client) Close() {
	c.eachLock(func(l *lock, now core.Now) { l.Lock.Close(now) })
}

// Unreleased counts names, since a lock may have many tenures: each attempt without an answer has one.
func (c *Client) Unreleased() int {
	names := make(map[string]bool)
	c.eachLock(func(l *lock, _ core.Now) {
		for range l.Tenures {
			names[l.name.Key] = true
			break
		}
	})
	return len(names)
}

// Stop ends the keeper. All commands have been answered by then, or are given up.
func (c *Client) Stop() { c.keeper.Close() }

// Verify asks Redis whether it still shows the tenures.
func (c *Client) Verify() {
	c.eachLock(func(l *lock, now core.Now) { l.Confirm(now) })
	c.keeper.Probe()
}

// AskAbout asks Redis about the lock and its waiters. It is no method of [client.Locks], but for tests of users.
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
