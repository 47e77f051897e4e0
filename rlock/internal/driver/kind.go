package driver

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A kind is what one sort of lock is in Redis, and what package core has to know of it.
type kind struct {
	core core.Kind // the number of permits comes with the name

	step    *wire.Script
	acquire func(r *redis, c *call) wire.Call
	resume  func(r *redis, c *call) wire.Call
	mirror  func(r *redis, part []call) wire.Call // of locks of one slot

	guard func(c *call) wire.Call // of a guarded write

	foreign bool // clients of Redisson may hold the lock
	readers bool // it has a read lock beside the write lock: see readwrite.go
	permits bool // each owner has a lock of its own: see permits.go
}

// kinds are all kinds of locks. Package client has what a look at Redis needs to know of them.
var kinds = [client.KindCount]*kind{
	client.PlainKind: {
		step: wire.PlainStep, acquire: acquirePlain, resume: resumePlain, mirror: mirrorPlain, guard: guardPlain, foreign: true,
	},
	client.FencedKind: {
		core: core.Kind{Fenced: true},
		step: wire.PlainStep, acquire: acquireFenced, resume: resumePlain, mirror: mirrorPlain, guard: guardPlain, foreign: true,
	},
	client.FairKind: {
		core: core.Kind{Strict: true},
		step: wire.PlainStep, acquire: acquirePlain, resume: resumePlain, mirror: mirrorPlain, guard: guardPlain, foreign: true,
	},
	client.ReadWriteKind: {
		step: wire.ReadWriteStep, acquire: acquireReadWrite, resume: resumeReadWrite, mirror: mirrorReadWrite, guard: guardReadWrite, foreign: true, readers: true,
	},
	client.SemaphoreKind: {
		core: core.Kind{Strict: true},
		step: wire.SemaphoreStep, acquire: acquirePermit, resume: resumePermit, mirror: mirrorPermits, guard: guardPermits, permits: true,
	},
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
	turnLook         = 5 * time.Millisecond
	firstLook        = 100 * time.Millisecond
	firstSilent      = 2 * time.Millisecond
	foreignNoise     = 20 * time.Millisecond
	silentNoise      = 4 * time.Millisecond
	longForeignLease = 24 * time.Hour
)

// config is what package core is told about a client.
func (c *Client) config() core.Config {
	lease := c.shared.Config.Lease
	return core.Config{
		Lease:     core.Span(lease),
		Claim:     core.Span(claimLease),
		QueueTime: core.Span(queueTime),
		Margin:    core.Span(2*time.Millisecond + c.shared.Tick),

		LookTime: core.Span(lookTime), Slack: core.Span(slack),
		Retry: core.Span(wire.FirstRetry), MaxRetry: core.Span(wire.LastRetry),
		FirstPoll: core.Span(firstPoll), LastPoll: core.Span(lastPoll),
		Silence: core.Span(terms.Silence), Patience: core.Span(patience), LeastWait: core.Span(queueLeast),
		ReadersTime: core.Span(readersTime), ShortSection: core.Span(shortSection),

		HandoffLimit: c.shared.Config.HandoffLimit, HandoffTime: core.Span(c.shared.Config.HandoffTime),

		Foreign: core.ForeignConfig{
			TurnLook: core.Span(turnLook), Look: core.Span(firstLook), SilentLook: core.Span(firstSilent),
			Noise: core.Span(foreignNoise), SilentNoise: core.Span(silentNoise), LongLease: core.Span(longForeignLease),
		},

		Jitter: func(d core.Span) core.Span { return core.Span(wire.Jitter(time.Duration(d))) },

		Ordered:  c.wire.Ordered(),
		Replicas: c.wire.replicated(),
	}
}
