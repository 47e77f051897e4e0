package client

import "time"

// A call that waits for a lock goes on while Redis refuses to serve it, or does not answer,
// since a failover may cure that. If it lasts, one line in the log tells a person why.

const (
	troubleTime  = 5 * time.Second // how long it lasts before it is told
	troubleEvery = time.Minute     // how often a client tells it at most
)

// TellTrouble logs that every attempt of a call for the lock has failed since then, the last one
// with err, if that lasts and was not told just now. It may be called with a mutex held.
func (c *Client) TellTrouble(lock string, since time.Time, err error) {
	now := time.Now()
	if now.Sub(since) < troubleTime {
		return
	}
	at, next := int64(now.Sub(c.Began)), c.troubleAt.Load()
	if at >= next && c.troubleAt.CompareAndSwap(next, at+int64(troubleEvery)) {
		c.Config.Logger.Warn("rlock: Redis does not serve the calls for a lock, which go on trying", "lock", lock,
			"for", now.Sub(since).Round(time.Millisecond), "error", err)
	}
}
