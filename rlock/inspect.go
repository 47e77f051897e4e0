package rlock

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/survey"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Inspect returns the state in Redis of the lock of that name, of any kind. It only reads, in
// one round trip, and one more for the processes of holders and waiters, which may be a second
// old. It is no transaction: a lock that is handed over meanwhile may be shown with its last
// holder and the queue of the next moment.
//
// It fails with [ErrWrongType] if the name's key, or that of its queue, is something other
// than a lock, and with [ErrNoPermission] without the rights in docs/operations.md. A failure
// to find out processes, foreign clients or tokens is no error.
func (c *Client) Inspect(ctx context.Context, name string) (inspect.Lock, error) {
	var keys [survey.Forms]*wire.Keys
	for i, id := range [survey.Forms]driver.KindID{driver.FencedKind, driver.ReadWriteKind, driver.SemaphoreKind} {
		n := c.driver.NewName(id, c.inRedis(name))
		if n.Err != nil && i == 0 {
			return inspect.Lock{}, n.Err
		}
		keys[i] = &n.Keys
	}
	found, err := survey.Inspect(ctx, c.driver.Redis, keys)
	if err != nil {
		return inspect.Lock{}, fmt.Errorf("rlock: inspect %q: %w", name, err)
	}
	found.Name = name
	return found, nil
}

// Locks iterates over the names of the locks that are held, of any kind and by any client,
// Redisson's included. The names match a pattern of Redis' KEYS ("orders:*"); "" matches all. It
// reads the keyspace in pages (SCAN), of all primaries of a Cluster. A lock that is held all the
// time is among the names, unless its slot migrates meanwhile; a name may come twice. An error is
// the last that it yields, beside an empty name: [ErrUnsupported] is that of a server older than
// Redis 6.2.
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[string, error] {
	if pattern == "" {
		pattern = "*"
	}
	inRedis := literal.Replace(c.prefix) + pattern
	return func(yield func(string, error) bool) {
		for name, err := range survey.Locks(ctx, c.driver.Redis, inRedis) {
			if err != nil {
				err = fmt.Errorf("rlock: list locks %q: %w", pattern, err)
			}
			if !yield(c.named(name), err) {
				return
			}
		}
	}
}

// Held returns the locks that this client holds, those that it has held the longest first,
// and by name where the times are equal: one for each owner of each lock. Of a lock over
// several these are the locks that it is made of. It is for people and tests: it asks
// Redis nothing, but looks at every lock.
func (c *Client) Held() []inspect.Held {
	held := c.diag.Held()
	for i := range held {
		held[i].Name = c.named(held[i].Name)
	}
	return held
}

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
		AcquiredByRedis:   n.Acquired[terms.ByRedis],
		AcquiredByPass:    n.Acquired[terms.ByPass],
		AcquiredByQueue:   n.Acquired[terms.ByQueue],
		Denied:            n.Denied,
		Canceled:          n.Canceled,
		Failed:            n.Failed,
		WaitTime:          n.Waited,
		LostUnrenewed:     n.Lost[terms.LostUnrenewed],
		LostLeaseEnded:    n.Lost[terms.LostLeaseEnded],
		LostHeldTooLong:   n.Lost[terms.LostHeldTooLong],
		LostKeyGone:       n.Lost[terms.LostKeyGone],
		LostForced:        n.Lost[terms.LostForced],
		Renewals:          n.Renewals,
		RenewalsFailed:    n.RenewalsFailed,
		Tracked:           c.driver.Tracked(),
		TrackingRefused:   c.driver.Redis.TrackingRefused(),
		Commands:          c.driver.Redis.Commands(),
	}
	s.Acquired = s.AcquiredByJoining + s.AcquiredByHandoff + s.AcquiredByRedis + s.AcquiredByQueue + s.AcquiredByPass
	s.Lost = s.LostUnrenewed + s.LostHeldTooLong + s.LostKeyGone + s.LostForced
	return s
}
