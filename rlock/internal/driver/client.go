package driver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/background"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// shardCount is the number of shards of a client.
const shardCount = 64

// A Client is one party that contends for locks. It has the locks of all kinds, and what they
// share: an identity, connections, losses that are not unlocked yet, and what it reports. Its
// methods may be called concurrently.
type Client struct {
	Config Config
	Redis  *wire.Redis
	ID     *wire.ID
	Hub    *pubsub.Hub   // subscriptions
	Tick   time.Duration // precision of the keeper's times

	Observer observing
	Losses   contract.Losses

	wire          carrier
	clock         clock
	keeper        *lease.Keeper
	confirmations confirmations

	tracked trackedKeys // counts the keys that Redis tracks for the client

	witness witness // asserts the rules, in tests with the build tag "invariants"; else nil

	// waiters is a pool of this client alone: a waiter has a channel, which must not leave its
	// testing/synctest bubble.
	waiters   sync.Pool
	exchanges sync.Pool // commands in flight

	shards [shardCount]shard // the shards, by the hash of the key

	waitBegins, holdBegins func() // see [Client.Watch]

	hearing  sync.Once // begins the subscription to the client's own channel: see noteGranted
	notices  *notices  // calls the Logger
	refusals struct {
		sync.Mutex
		texts []string // the errors that were logged
	}

	troubleAt atomic.Int64 // the time from which trouble may be logged again, in nanoseconds of the monotonic clock
	troubles  troubles
	away      atomic.Bool  // the log has said that Redis does not answer
	emptied   atomic.Value // the run id of the last server of which the log has said that it is empty
	redialAt  atomic.Int64 // the time from which the end of a connection may be logged again: see tellRedial
	seed      maphash.Seed

	// Closed is set, without a mutex, before Close visits the locks. If a goroutine reads false
	// under the mutex of a shard, Close has yet to visit that shard.
	Closed atomic.Bool
	closer atomic.Uint64 // the goroutine in the first Close; 0 before, and closed after
	gone   chan struct{} // closed at the end of the first Close
	last   error         // the result of the first Close, once gone is closed
	// live is the number of tenures that are not over, counted from before the acquire is sent. In
	// a closed client the goroutine that brings it to zero sends to drained.
	live    atomic.Int64
	drained chan struct{}
}

// An Inside is embedded in each rlock.Client, to give it the unexported method of a [Face].
type Inside struct {
	client *Client
	prefix string
}

// NewInside returns the Inside of a face; prefix begins the names of its locks.
func NewInside(c *Client, prefix string) Inside { return Inside{c, prefix} }

func (i *Inside) self() *Inside { return i }

// A Face is an rlock.Client.
type Face interface{ self() *Inside }

// ClientOf returns the Client behind a face, and the prefix of its names: for packages beside rlock
// that have keys of their own, or show the state of a client.
func ClientOf(face Face) (c *Client, prefix string) {
	i := face.self()
	return i.client, i.prefix
}

// A Config has the settings of a client, with all defaults filled in: package rlock documents the
// fields.
type Config struct {
	Lease           time.Duration
	HandoffLimit    int // 0 for no hand-offs while others wait
	HandoffTime     time.Duration
	TrackedKeys     int // 0 for none
	RecordSites     bool
	LogSteps        bool
	NoClientChannel bool
	Logger          *slog.Logger
	Observer        *contract.Observer // nil for none
}

// New returns a client of the Redis. No other client has the id.
func New(config Config, r *wire.Redis, id *wire.ID) *Client {
	c := newClient(config, r, id)
	c.open(&redis{r, c.Hub})
	return c
}

// newClient returns a client without a carrier, which open sets.
func newClient(config Config, r *wire.Redis, id *wire.ID) *Client {
	began := time.Now()
	c := &Client{
		Config:     config,
		Redis:      r,
		ID:         id,
		Tick:       min(max(config.Lease/1024, time.Millisecond), 10*time.Millisecond),
		clock:      clock{start: began, wall: began.UnixNano()},
		waiters:    sync.Pool{New: func() any { return &waiter{ready: make(chan wakeUp, 2)} }},
		exchanges:  sync.Pool{New: func() any { return new(exchange) }},
		waitBegins: func() {}, holdBegins: func() {},
		seed:    maphash.MakeSeed(),
		drained: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	c.Config.Logger, c.notices = newLogger(config.Logger)
	c.Observer = newObserving(config.Observer)
	hub := pubsub.Config{Logger: c.Config.Logger}
	if !r.IsLazy() {
		hub.Client, hub.Sharded = r.Client, r.Sharded
	}
	c.Hub = pubsub.New(hub)
	if invariants {
		c.witness = newWitness(c)
	}
	return c
}

// open sets the carrier of the client, which may have locks from then on.
func (c *Client) open(w carrier) {
	c.wire = w
	config := c.config()
	for i := range c.shards {
		s := &c.shards[i]
		s.client, s.pools = c, make(map[string]*pool)
		s.core = core.Client{Config: config, ID: wire.ThisClient, NewNumber: c.ID.Number}
		if c.Config.LogSteps {
			s.core.Changed = c.traceChange
		}
		for id := range s.locks {
			s.locks[id] = make(map[string]*lockState)
		}
	}
	if w.Tracks() {
		c.tracked.most = int64(c.Config.TrackedKeys)
	}
	c.keeper = lease.NewKeeper(lease.Config{Tick: c.Tick, Send: c.sendBatch, MaxBackoff: min(c.Config.Lease/10, time.Second)})
	c.Redis.OnRedial(c.tellRedial)
	c.Redis.OnOutage(c.tellAway, c.tellBack)
	verify := c.verifyTask()
	c.Redis.OnChange(func(keys []string) {
		if len(keys) == 0 {
			verify.Ask()
		}
		for _, key := range keys {
			c.noteKeyChanged(key)
		}
	})
}

// What the protocol fixes; queue.lua says the same.
const (
	claimLease = 2 * time.Second
	briefClaim = 500 * time.Millisecond
	queueTime  = time.Minute
)

// config returns the configuration of package core, which says what each time is.
func (c *Client) config() core.Config {
	const ms = core.Span(time.Millisecond)
	return core.Config{
		Lease: core.Span(c.Config.Lease), Claim: core.Span(claimLease), Brief: core.Span(briefClaim), QueueTime: core.Span(queueTime), Margin: 2*ms + core.Span(c.Tick),
		LookTime: core.Span(claimLease), Slack: ms, FirstPoll: ms, LastPoll: 128 * ms,
		Retry: core.Span(wire.FirstRetry), MaxRetry: core.Span(wire.LastRetry),
		Silence: core.Span(contract.Silence), Patience: 250 * ms, LeastWait: 5 * ms, ReadersTime: 1000 * ms, ShortSection: 50 * ms,
		HandoffLimit: c.Config.HandoffLimit, HandoffTime: core.Span(c.Config.HandoffTime),
		Foreign: core.ForeignConfig{
			WindowLook: 5 * ms, Look: 100 * ms, SilentLook: 2 * ms, Noise: 20 * ms, SilentNoise: 4 * ms, LongLease: core.Span(24 * time.Hour),
		},
		Jitter:   func(d core.Span) core.Span { return core.Span(wire.Jitter(time.Duration(d))) },
		Replicas: c.Redis.SyncReplicas() > 0,
	}
}

// Connect connects a lazy client in the background. It logs the reason of the first failure and
// the reason of the first refusal by a server that can be reached. After either it also logs the
// connection.
func (c *Client) Connect() {
	var waits, refused bool
	log := c.Config.Logger
	c.Redis.Connect(func(err error) {
		switch {
		case err == nil:
			c.Hub.Open(c.Redis.Client, c.Redis.Sharded)
			if waits || refused {
				log.Info("rlock: connected to Redis")
			}
		case wire.MayOpen(err) && !waits:
			waits = true
			log.Warn("rlock: there is no connection to Redis yet: calls wait or fail as in an outage until there is one", "error", err)
		case !wire.MayOpen(err) && !refused:
			refused = true
			log.Error("rlock: Redis cannot be used: calls fail until it can", "error", err)
		}
	})
}

// closed is the closer of a client that is closed: no goroutine has that id.
const closed = math.MaxUint64

// Close ends the client: see package rlock. All calls for a lock return at once, even if a command
// of theirs is in flight, and the keeper releases the tenures that Redis shows.
func (c *Client) Close() error {
	switch me := contract.GoroutineID(); {
	case c.closer.CompareAndSwap(0, me):
		defer close(c.gone)
		c.last = c.close()
		c.closer.Store(closed)
	case c.closer.Load() == me || c.closer.Load() != closed && c.Observer.runsHooksIn(me): // a hook must not wait for its own end
		return nil
	default:
		<-c.gone
	}
	return c.last
}

// close is the first Close.
func (c *Client) close() error {
	c.Closed.Store(true)
	c.Redis.Stop()
	c.eachLock(func(l *lockState, now core.Now) { l.Lock.Close(now) })
	err := c.drain()
	c.keeper.Close() // all commands are answered by now, or given up
	c.Hub.Close()
	c.Redis.Close()
	c.Observer.close()
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	c.notices.close(ctx)
	return err
}

// drain waits until all tenures are over, for as long as an Unlock would wait for Redis.
func (c *Client) drain() error {
	ctx, cancel := c.Redis.Within(context.Background())
	defer cancel()
	for c.live.Load() > 0 {
		select {
		case <-c.drained:
		case <-ctx.Done():
			left := make(map[string]bool) // a lock may have many tenures: one for each attempt without an answer
			c.eachLock(func(l *lockState, _ core.Now) {
				for t := range l.Tenures {
					if t.Want() != core.Parted || t.Agent != nil { // else it was passed on, and stays
						left[l.name.Key] = true
					}
				}
			})
			if len(left) > 0 {
				return fmt.Errorf("rlock: close: %w: number of locks that may be held until their leases end (Config.Lease is %v): %d", contract.ErrUnconfirmed, c.Config.Lease, len(left))
			}
			return nil
		}
	}
	return nil
}

// A client pauses before it verifies its tenures again. The pause grows if checks follow each
// other closely, so that a network that ends connections again and again causes no load.
const firstVerifyPause, lastVerifyPause = time.Second / 16, time.Second

// verifyTask returns the task that asks Redis whether it still shows the tenures of the client, and
// moves subscriptions and waits for replicas to the server of the commands. It runs when a
// connection has ended, and when the first command over a new connection is answered: another
// server may answer then, a replica that was promoted and never had the grant, or a server that was
// restarted without its data. The next renewal would notice that up to a third of the lease later,
// and until then there might be two holders.
func (c *Client) verifyTask() *background.Task {
	var paused time.Duration // the last pause
	var done time.Time       // the time at which Redis was last asked
	return &background.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: func() (time.Duration, bool) {
		c.eachLock(func(l *lockState, now core.Now) { l.Confirm(now) })
		c.keeper.Probe()
		c.Hub.CheckServer()
		c.Redis.CheckReplicated()
		rested := time.Since(done) > 2*lastVerifyPause
		done, paused = time.Now(), min(2*paused, lastVerifyPause)
		if rested || paused == 0 {
			paused = firstVerifyPause
		}
		return paused, false
	}}
}

// AskAbout asks Redis about the lock and its waiters, for package rlocktest.
func (c *Client) AskAbout(key string) {
	s := c.shardOfKey(key)
	s.enterEach(s.named(key), func(l *lockState, now core.Now) {
		l.Confirm(now)
		l.Hear(core.Message{Kind: core.ForeignNews, Ours: true}, now)
	})
}

// eachLock calls visit for each lock of the client, with its mutex held.
func (c *Client) eachLock(visit func(l *lockState, now core.Now)) {
	for s := range c.allShards {
		s.enterEach(s.all, visit)
	}
}

// Watch sets functions that are called when a call begins to wait and when a hold begins: see
// package monitor. It is called before the client has locks. Both functions must return at once,
// since they are called with a mutex held.
func (c *Client) Watch(waits, holds func()) { c.waitBegins, c.holdBegins = waits, holds }

// Site returns the place in the program that calls rlock, or nil if sites are not recorded.
func (c *Client) Site() *contract.Site {
	if !c.Config.RecordSites {
		return nil
	}
	return contract.Here()
}

// Counts are the counters of a shard. They change under the mutex of the shard. So they need no
// atomics, and goroutines that use different locks do not share them.
type Counts struct {
	Held     int64
	Waiting  int64
	Acquired [contract.WayCount]int64
	Waited   time.Duration
	Answered int64
	Denied   int64
	Canceled int64
	Failed   int64

	Renewals, RenewalsFailed int64 // renewals that were sent, and those of them that Redis did not confirm

	Lost [contract.LossReasonCount]int64
}

// Add adds other to n.
func (n *Counts) Add(other *Counts) {
	n.Held += other.Held
	n.Waiting += other.Waiting
	for way := range n.Acquired {
		n.Acquired[way] += other.Acquired[way]
	}
	n.Waited += other.Waited
	n.Answered += other.Answered
	n.Denied += other.Denied
	n.Canceled += other.Canceled
	n.Failed += other.Failed
	n.Renewals += other.Renewals
	n.RenewalsFailed += other.RenewalsFailed
	for reason := range n.Lost {
		n.Lost[reason] += other.Lost[reason]
	}
}

// CountClosed counts the end of a level; first says whether it was the first of its owner.
func (n *Counts) CountClosed(first bool) {
	if first {
		n.Held--
	}
}

// countUndone reverts the count of a level that was closed before its caller had it; first says
// whether it was the first of its owner.
func (n *Counts) countUndone(w contract.Way, first bool) {
	n.Acquired[w]--
	n.CountClosed(first)
}

// CountWithout counts a call that returns err in place of the lock; canceled says whether its
// context had ended.
func (n *Counts) CountWithout(err error, canceled bool) {
	switch {
	case errors.Is(err, contract.ErrAnswered):
		n.Answered++
	case errors.Is(err, contract.ErrNotAcquired):
		n.Denied++
	case canceled:
		n.Canceled++
	default:
		n.Failed++
	}
}
