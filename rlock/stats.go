package rlock

import (
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/client"
)

// Stats returns figures about the client. It takes some microseconds, however many locks
// there are, and allocates nothing. Each figure is true at a moment during the call. It may
// be called after Close too.
func (c *Client) Stats() inspect.Stats {
	n := c.driver.Counts()
	s := inspect.Stats{
		Held:              n.Held,
		Waiting:           n.Waiting,
		AcquiredByNesting: n.Acquired[client.ByNesting],
		AcquiredByJoining: n.Acquired[client.ByJoining],
		AcquiredByHandoff: n.Acquired[client.ByHandoff],
		AcquiredByRedis:   n.Acquired[client.ByRedis] + n.Acquired[client.ByPass],
		AcquiredByQueue:   n.Acquired[client.ByQueue],
		AcquiredByLinger:  n.Acquired[client.ByLinger],
		Denied:            n.Denied,
		Canceled:          n.Canceled,
		Failed:            n.Failed,
		WaitTime:          n.Waited,
		LostUnrenewed:     n.Lost[client.LostUnrenewed],
		LostLeaseEnded:    n.Lost[client.LostLeaseEnded],
		LostKeyGone:       n.Lost[client.LostKeyGone],
		LostForced:        n.Lost[client.LostForced],
		Renewals:          n.Renewals,
		RenewalsFailed:    n.RenewalsFailed,
		Tracked:           c.driver.Tracked(),
		TrackingRefused:   c.shared.Redis.TrackingRefused(),
		Commands:          c.shared.Redis.Commands(),
	}
	s.Acquired = s.AcquiredByJoining + s.AcquiredByHandoff + s.AcquiredByRedis + s.AcquiredByQueue + s.AcquiredByLinger
	s.Lost = s.LostUnrenewed + s.LostKeyGone + s.LostForced
	return s
}
