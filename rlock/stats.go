package rlock

import (
	"errors"
	"sync/atomic"
	"time"
)

// Stats are figures about a client, as sql.DBStats are about a pool. All but Held and
// Waiting only grow, from 0 when the client was made: the difference of two is what has
// happened between them.
//
// A lock that is made of others is not counted, but each lock that it is made of is, by the
// client that has it.
type Stats struct {
	// Held is how many locks are held now. The levels of one owner are one, the readers of
	// one lock as many as they are.
	Held int64
	// Waiting is how many calls wait now for a lock that somebody holds or comes before
	// them, or for a Redis that does not answer.
	Waiting int64

	// How often a lock was acquired, by the way: see the constants of [Way].
	AcquiredByNesting int64
	AcquiredByJoining int64
	AcquiredByHandoff int64
	AcquiredByRedis   int64
	AcquiredByQueue   int64

	// Denied is how many calls ended with [ErrNotAcquired], or with false: a TryLock of a
	// lock that is held, a wait that was over.
	Denied int64
	// Canceled is how many calls gave up since their context ended.
	Canceled int64
	// Failed is how many calls ended with another error, except those of which the name,
	// the lease or the context was no good when they began.
	Failed int64

	// WaitTime is the sum of the times from a call for a lock to its success or its end, with
	// the round trips to Redis. Calls that take no time count nothing: those that nest, join
	// readers or are refused inside the process.
	WaitTime time.Duration

	// How many locks were lost, by the reason: see the constants of [LossReason].
	LostUnrenewed  int64
	LostLeaseEnded int64
	LostKeyGone    int64
	LostForced     int64

	// Renewals is how many renewals were sent, RenewalsFailed how many of them Redis did not
	// confirm. A change of the depth or the owner that Redis is told of is a renewal.
	Renewals       int64
	RenewalsFailed int64

	// Commands is how many commands were sent to Redis for locks: an uncontended Lock and
	// Unlock are two. Many renewals share one. Subscriptions and what [New] asks are not
	// counted, nor what rueidis sends by itself.
	Commands int64
}

// Acquired returns how often a lock was acquired, by whatever way but nesting.
func (s Stats) Acquired() int64 {
	return s.AcquiredByJoining + s.AcquiredByHandoff + s.AcquiredByRedis + s.AcquiredByQueue
}

// Lost returns how many locks were lost, for whatever reason but the end of the lease that
// their owner had asked for.
func (s Stats) Lost() int64 { return s.LostUnrenewed + s.LostKeyGone + s.LostForced }

// Stats returns figures about the client. It takes some microseconds, however many locks
// there are, and allocates nothing. Each figure is true at a moment during the call. It may
// be called after Close too.
func (c *Client) Stats() (s Stats) {
	for shard := range c.allShards {
		shard.mu.Lock()
		n := shard.counts
		shard.mu.Unlock()
		s.Held += n.held
		s.Waiting += n.waiting
		s.AcquiredByNesting += n.acquired[ByNesting]
		s.AcquiredByJoining += n.acquired[ByJoining]
		s.AcquiredByHandoff += n.acquired[ByHandoff]
		s.AcquiredByRedis += n.acquired[ByRedis]
		s.AcquiredByQueue += n.acquired[ByQueue]
		s.Denied += n.denied
		s.Canceled += n.canceled
		s.Failed += n.failed
		s.WaitTime += n.waited
		s.LostUnrenewed += n.lost[LostUnrenewed]
		s.LostLeaseEnded += n.lost[LostLeaseEnded]
		s.LostKeyGone += n.lost[LostKeyGone]
		s.LostForced += n.lost[LostForced]
	}
	s.Renewals, s.RenewalsFailed = c.traffic.renewals.Load(), c.traffic.unrenewed.Load()
	s.Commands = c.redis.Commands()
	return s
}

// counts are what a shard adds to Stats. They are in the shard since its mutex is held
// wherever they change: so they need no atomics, and goroutines that work on different
// locks do not share them.
type counts struct {
	held     int64
	waiting  int64
	acquired [ways]int64
	waited   time.Duration
	denied   int64
	canceled int64
	failed   int64
	lost     [lossReasons]int64 // last, since it is next to another shard
}

// opened counts a level.
func (n *counts) opened(w Way) {
	n.acquired[w]++
	if w != ByNesting {
		n.held++
	}
}

// closed counts a level that is over.
func (n *counts) closed(w Way) {
	if w != ByNesting {
		n.held--
	}
}

// lostOne counts a level that is over by loss.
func (n *counts) lostOne(w Way, r LossReason) {
	if w != ByNesting {
		n.held--
		n.lost[r]++
	}
}

// gaveUp counts a call that failed, of which ctx had ended or not.
func (n *counts) gaveUp(err error, canceled bool) {
	switch {
	case errors.Is(err, ErrNotAcquired):
		n.denied++
	case canceled:
		n.canceled++
	default:
		n.failed++
	}
}

// traffic is what the client has sent, in cache lines of its own.
type traffic struct {
	_         [64]byte
	renewals  atomic.Int64
	unrenewed atomic.Int64
	_         [64]byte
}
