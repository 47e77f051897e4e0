package driver

import "time"

// The log says, within some two seconds, that Redis does not answer. Later it says that Redis
// answers again and, if Redis was restarted meanwhile without its data, that all locks are
// forgotten. In a Cluster one node of many may be away: there the lines about subscriptions, and
// about calls that are not served, name the node.

// awayTime is the time for which all commands fail before the log says so: a connection that is
// opened again at once is no outage.
const awayTime = 500 * time.Millisecond

// tellAway notes that commands fail, and that none was answered for the time lasted.
func (c *Client) tellAway(err error, lasted time.Duration) {
	if lasted < awayTime || c.Closed.Load() || c.away.Swap(true) {
		return
	}
	c.Config.Logger.Warn("rlock: Redis does not answer: calls wait or fail, and a lock that is held is lost when its lease ends",
		"for", lasted.Round(time.Millisecond), "error", err)
}

// tellBack notes that Redis answers after the time lasted.
func (c *Client) tellBack(lasted time.Duration) {
	told := c.away.Swap(false)
	c.Redis.Start(func() {
		switch server := c.Redis.EmptySince(lasted); {
		case server != "" && c.emptied.Swap(server) != server:
			c.Config.Logger.Warn("rlock: Redis was restarted without its data: it has forgotten all locks, and those that were held are lost",
				"after", lasted.Round(time.Millisecond))
		case told:
			c.Config.Logger.Info("rlock: Redis answers again", "after", lasted.Round(time.Millisecond))
		}
	})
}
