package driver

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A kind is what one sort of lock is in Redis, and what package core has to know of it.
type kind struct {
	public terms.Kind  // what users call it; the read lock is a kind of its own to them
	layout wire.Layout // of its names
	core   core.Kind   // the number of permits comes with the name

	step    *wire.Script
	acquire func(r *redis, c *exchange) wire.Call
	resume  func(r *redis, c *exchange) wire.Call
	mirror  func(r *redis, part []*exchange) wire.Call // of locks of one slot

	acquireAll *wire.Script // of several locks of one slot: see together.go

	guard func(c *exchange) guard // of a guarded write
	asks  questions

	foreign bool // clients of Redisson may hold the lock
	readers bool // it has a read lock beside the write lock: see readwrite.go
	permits bool // each owner has a lock of its own: see permits.go
}

// kinds are all kinds of locks.
var kinds = [KindCount]*kind{
	PlainKind:  hashKind(terms.KindPlain, "", core.Kind{}, acquirePlain),
	FencedKind: hashKind(terms.KindFenced, "redisson_lock_token:", core.Kind{Fenced: true}, acquireFenced),
	FairKind:   hashKind(terms.KindFair, "", core.Kind{Strict: true}, acquirePlain),
	ReadWriteKind: {
		public: terms.KindWrite, layout: wire.Layout{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
		step: wire.ReadWriteStep, acquire: acquireReadWrite, resume: resumeReadWrite, mirror: mirrorReadWrite, guard: guardReadWrite, acquireAll: wire.ReadWriteAcquireAll,
		asks: questions{readersOrWriters, readOrWritten, keyTTL}, foreign: true, readers: true,
	},
	SemaphoreKind: {
		public: terms.KindSemaphore, layout: wire.Layout{Channel: "rlock_grants:semaphore:", Suffix: "sem"},
		core: core.Kind{Strict: true},
		step: wire.SemaphoreStep, acquire: acquirePermit, resume: resumePermit, mirror: mirrorPermits, guard: guardPermits, acquireAll: wire.SemaphoreAcquireAll,
		asks: questions{permitHolders, allPermitsHeld, firstPermitEnds}, permits: true,
	},
}

// hashKind returns a kind of locks that are a hash of one owner: see plain.go. extra begins the name of its second key, "" if it
// has none.
func hashKind(public terms.Kind, extra string, k core.Kind, acquire func(r *redis, c *exchange) wire.Call) *kind {
	return &kind{
		public: public, layout: wire.Layout{Channel: plainChannel, Fair: true, Extra: extra, HasExtra: extra != ""},
		core: k,
		step: wire.PlainStep, acquire: acquire, resume: resumePlain, mirror: mirrorPlain, guard: guardPlain, acquireAll: wire.AcquireAll,
		asks: questions{fields, keyExists, keyTTL}, foreign: true,
	}
}

// What the protocol fixes; queue.lua says the same.
const (
	claimLease = 2 * time.Second
	queueTime  = time.Minute
)

// The times of a client: see core.Config.
const (
	lookTime         = claimLease
	slack            = time.Millisecond
	firstPoll        = time.Millisecond
	lastPoll         = 128 * time.Millisecond
	patience         = 250 * time.Millisecond
	queueLeast       = 5 * time.Millisecond
	readersTime      = time.Second
	shortSection     = 50 * time.Millisecond
	windowLook       = 5 * time.Millisecond
	firstLook        = 100 * time.Millisecond
	firstSilent      = 2 * time.Millisecond
	foreignNoise     = 20 * time.Millisecond
	silentNoise      = 4 * time.Millisecond
	longForeignLease = 24 * time.Hour
)

// config is what package core is told about a client.
func (c *Client) config() core.Config {
	lease := c.Config.Lease
	return core.Config{
		Lease:     core.Span(lease),
		Claim:     core.Span(claimLease),
		QueueTime: core.Span(queueTime),
		Margin:    core.Span(2*time.Millisecond + c.Tick),

		LookTime: core.Span(lookTime), Slack: core.Span(slack),
		Retry: core.Span(wire.FirstRetry), MaxRetry: core.Span(wire.LastRetry),
		FirstPoll: core.Span(firstPoll), LastPoll: core.Span(lastPoll),
		Silence: core.Span(terms.Silence), Patience: core.Span(patience), LeastWait: core.Span(queueLeast),
		ReadersTime: core.Span(readersTime), ShortSection: core.Span(shortSection),

		HandoffLimit: c.Config.HandoffLimit, HandoffTime: core.Span(c.Config.HandoffTime),

		Foreign: core.ForeignConfig{
			WindowLook: core.Span(windowLook), Look: core.Span(firstLook), SilentLook: core.Span(firstSilent),
			Noise: core.Span(foreignNoise), SilentNoise: core.Span(silentNoise), LongLease: core.Span(longForeignLease),
		},

		Jitter: func(d core.Span) core.Span { return core.Span(wire.Jitter(time.Duration(d))) },

		Replicas: c.wire.traits().replicated,
	}
}
