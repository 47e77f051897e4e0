package rlock

import (
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// Stats returns figures about the client. It takes some microseconds, however many locks
// there are, and allocates nothing. Each figure is true at a moment during the call. It may
// be called after Close too.
func (c *Client) Stats() inspect.Stats {
	n := c.driver.Counts()
	s := inspect.Stats{
		Held:              n.Held,
		Waiting:           n.Waiting,
		AcquiredByNesting: n.Acquired[terms.ByNesting],
		AcquiredByJoining: n.Acquired[terms.ByJoining],
		AcquiredByHandoff: n.Acquired[terms.ByHandoff],
		AcquiredByRedis:   n.Acquired[terms.ByRedis] + n.Acquired[terms.ByPass],
		AcquiredByQueue:   n.Acquired[terms.ByQueue],
		AcquiredByLinger:  n.Acquired[terms.ByLinger],
		Denied:            n.Denied,
		Canceled:          n.Canceled,
		Failed:            n.Failed,
		WaitTime:          n.Waited,
		LostUnrenewed:     n.Lost[terms.LostUnrenewed],
		LostLeaseEnded:    n.Lost[terms.LostLeaseEnded],
		LostKeyGone:       n.Lost[terms.LostKeyGone],
		LostForced:        n.Lost[terms.LostForced],
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
