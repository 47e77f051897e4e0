package driver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// shardCount is how many shards a client has.
const shardCount = 64

// A Client is one party among those that contend for locks. It keeps its locks, of all kinds, and what they share: its
// identity, its connections, what it reports and what it remembers. Its methods may be called concurrently.
type Client struct {
	Config Config
	Redis  *wire.Redis
	ID     *wire.ID
	Hub    *pubsub.Hub   // its subscriptions
	Tick   time.Duration // how exactly times are kept

	Observer observing
	Losses   terms.Losses

	wire   carrier
	clock  clock
	keeper *lease.Keeper
	post   post

	tracked trackedKeys // of the keys of which Redis tells changes

	witness *witness // asserts the rules, in tests with the build tag "invariants"

	// waiters are used again by this client only: a waiter has a channel, which must not leave its
	// testing/synctest bubble.
	waiters   sync.Pool
	exchanges sync.Pool // commands on their way

	shards [shardCount]shard // by the hash of the key

	waitBegins, holdBegins func() // see [Client.Watch]

	hearing sync.Once // for the messages about tenures: see granted
	notices *notices  // by which the Logger is called
	// trace is the Logger for what package core decides, nil for none (Config.LogSteps): the messages are so many that they
	// have notices of their own, and others are not dropped for them.
	trace    *slog.Logger
	traces   *notices
	refusals struct {
		sync.Mutex
		texts []string // that were logged
	}

	troubleAt atomic.Int64 // by the clock, in nanoseconds: when trouble may be logged again
	troubles  troubles
	seed      maphash.Seed

	// Closed is set before Close visits the locks, under no mutex, and read
	// under a shard's: a goroutine that reads false is visited.
	Closed atomic.Bool
	// live counts the tenures that are not over, from before the acquire is sent;
	// in a closed client the goroutine that brings it to zero puts a mark on drained.
	live    atomic.Int64
	drained chan struct{}
}

// An Inside is embedded in an rlock.Client, which has its unexported method then, by which [Of] finds it.
type Inside struct {
	client *Client
	prefix string
}

// NewInside returns the Inside of a face with that prefix of its names.
func NewInside(c *Client, prefix string) Inside { return Inside{c, prefix} }

func (i *Inside) inside() *Inside { return i }

// A Face is an rlock.Client.
type Face interface{ inside() *Inside }

// Of returns the part of a face that is in this package, and the prefix of its names: for the packages beside rlock that have keys of
// their own, or show the state of a client.
func Of(face Face) (c *Client, prefix string) {
	i := face.inside()
	return i.client, i.prefix
}

// A Config says how a client behaves. It is complete: package rlock fills in the defaults,
// and says there what each field means.
type Config struct {
	Lease           time.Duration
	HandoffLimit    int // 0: no hand-offs while others wait
	HandoffTime     time.Duration
	TrackedKeys     int // 0: none
	RecordSites     bool
	LogSteps        bool
	NoClientChannel bool
	Logger          *slog.Logger
	Observer        *terms.Observer // nil for none
}

// New returns a client of the Redis, with an id that no other has.
func New(config Config, r *wire.Redis, id *wire.ID) *Client {
	c := newClient(config, r, id)
	w := &redis{Redis: r, hub: c.Hub}
	w.courier.line, w.courier.client = w, c
	c.open(w)
	return c
}

// newClient returns a client without a carrier, and so without locks before open.
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
		drained: make(chan struct{}, 1),
	}
	c.Config.Logger, c.notices = newLogger(config.Logger)
	if config.LogSteps {
		c.trace, c.traces = newLogger(config.Logger)
	}
	if config.Observer != nil {
		c.Observer = observing{config.Observer, newNotices(maxEvents, config.Observer.Missed)}
	}
	hub := pubsub.Config{Logger: c.Config.Logger}
	if !r.IsLate() {
		hub.Client, hub.Sharded = r.Client, r.Sharded
	}
	c.Hub = pubsub.New(hub)
	if invariants {
		c.witness = newWitness(c)
	}
	return c
}

// open gives the client its carrier. It may have locks then.
func (c *Client) open(w carrier) {
	c.wire = w
	config := c.config()
	for i := range c.shards {
		s := &c.shards[i]
		s.client, s.pools = c, make(map[string]*pool)
		s.core = core.Client{Config: config, ID: wire.ThisClient, Tenure: c.ID.Number}
		if c.trace != nil {
			s.core.Changed = c.traceChange
		}
		for id := range s.locks {
			s.locks[id] = make(map[string]*lock)
		}
	}
	if w.Tracks() {
		c.tracked.all = int64(c.Config.TrackedKeys)
	}
	c.keeper = lease.NewKeeper(lease.Config{Tick: c.Tick, Send: c.send, MaxBackoff: min(c.Config.Lease/10, time.Second)})
	verify := c.verifies()
	c.Redis.OnChange(func(keys []string) {
		if len(keys) == 0 {
			verify.Ask()
		}
		for _, key := range keys {
			c.changed(key)
		}
	})
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

		Replicas: c.Redis.SyncReplicas() > 0,
	}
}

// Connect connects a client whose Redis was made without a connection, in the background. The log says why that takes
// longer, once, and once more when the server can be reached but refuses the client; and when it is over.
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

// Close ends the client: see package rlock. Calls return at once, also those whose command is in flight, and what Redis
// shows is released by the keeper.
func (c *Client) Close() error {
	if c.Closed.Swap(true) {
		return nil
	}
	c.Redis.Stop()
	c.eachLock(func(l *lock, now core.Now) { l.Lock.Close(now) })
	err := c.drain()
	c.keeper.Close() // all commands have been answered by now, or are given up
	c.Hub.Close()
	c.Redis.Close()
	c.Observer.close()
	if c.traces != nil {
		c.traces.close()
	}
	c.notices.close()
	return err
}

// drain waits until every tenure is over, for as long as an Unlock would wait for Redis.
func (c *Client) drain() error {
	ctx, cancel := c.Redis.Within(context.Background())
	defer cancel()
	for c.live.Load() > 0 {
		select {
		case <-c.drained:
		case <-ctx.Done():
			if left := c.unreleased(); left > 0 {
				return fmt.Errorf("rlock: close: %w: number of locks that may be held until their leases end, within %v: %d", terms.ErrUnconfirmed, c.Config.Lease, left)
			}
			return nil
		}
	}
	return nil
}

// unreleased returns how many names the locks have whose tenures are not over: names, since a lock may have many tenures: each attempt without an answer has one.
func (c *Client) unreleased() int {
	names := make(map[string]bool)
	c.eachLock(func(l *lock, _ core.Now) {
		for range l.Tenures {
			names[l.name.Key] = true
			break
		}
	})
	return len(names)
}

// tenureOver counts a tenure that has ended: Close waits for each.
func (c *Client) tenureOver() {
	if c.live.Add(-1) == 0 && c.Closed.Load() {
		select {
		case c.drained <- struct{}{}:
		default:
		}
	}
}

// A client waits before it verifies its tenures again: at first shortly, then for longer, as
// long as there is no rest between. A network that ends connections again and again must not
// add a load of its own.
const firstVerifyPause, lastVerifyPause = time.Second / 16, time.Second

// verifies returns the task that asks Redis at once whether it still shows the tenures
// of the client, when a connection has ended and when the first command over a new one is
// answered: another server may answer now, one that took over from the primary and never had
// the grant, or one that was restarted without its data. Else the next renewal would find it, up
// to a third of the lease later, and until then there might be two holders.
func (c *Client) verifies() *task.Task {
	var paused time.Duration // the last pause
	var done time.Time       // when the work was last done
	return &task.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: func() (time.Duration, bool) {
		c.verify()
		rested := time.Since(done) > 2*lastVerifyPause
		done, paused = time.Now(), min(2*paused, lastVerifyPause)
		if rested || paused == 0 {
			paused = firstVerifyPause
		}
		return paused, false
	}}
}

// verify asks Redis whether it still shows the tenures.
func (c *Client) verify() {
	c.eachLock(func(l *lock, now core.Now) { l.Confirm(now) })
	c.keeper.Probe()
}

// AskAbout asks Redis about the lock and its waiters. It is for tests of users.
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

// Watch has waits called when a call begins to wait, and holds when a lock is held, before the client has locks: see package diag.
// Both wait for nothing, and may be called with a mutex held.
func (c *Client) Watch(waits, holds func()) { c.waitBegins, c.holdBegins = waits, holds }

// Site returns where the call comes from into rlock, nil if sites are not recorded.
func (c *Client) Site() *terms.Site {
	if !c.Config.RecordSites {
		return nil
	}
	return terms.Here()
}

// Counts are what a shard adds to the figures about a client. They are in the shard since its
// mutex is held wherever they change: so they need no atomics, and goroutines that work on
// different locks do not share them.
type Counts struct {
	Held     int64
	Waiting  int64
	Acquired [terms.WayCount]int64
	Waited   time.Duration
	Denied   int64
	Canceled int64
	Failed   int64

	Renewals, RenewalsFailed int64 // sent, and of these not confirmed by Redis

	Lost [terms.LossReasonCount]int64 // last, since it is next to another shard
}

// Add adds the other ones.
func (n *Counts) Add(other *Counts) {
	n.Held += other.Held
	n.Waiting += other.Waiting
	for way := range n.Acquired {
		n.Acquired[way] += other.Acquired[way]
	}
	n.Waited += other.Waited
	n.Denied += other.Denied
	n.Canceled += other.Canceled
	n.Failed += other.Failed
	n.Renewals += other.Renewals
	n.RenewalsFailed += other.RenewalsFailed
	for reason := range n.Lost {
		n.Lost[reason] += other.Lost[reason]
	}
}

// Opened counts a level.
func (n *Counts) Opened(w terms.Way) {
	n.Acquired[w]++
	if w != terms.ByNesting {
		n.Held++
	}
}

// Closed counts a level that is over, which was the first of its owner's by then or not.
func (n *Counts) Closed(first bool) {
	if first {
		n.Held--
	}
}

// undone takes back the counts of a level that was closed before its caller had it, and that was the
// first of its owner's by then or not.
func (n *Counts) undone(w terms.Way, first bool) {
	n.Acquired[w]--
	n.Closed(first)
}

// lostOne is Closed for a loss.
func (n *Counts) lostOne(first bool, r terms.LossReason) {
	if first {
		n.Held--
		n.Lost[r]++
	}
}

// GaveUp counts a call that failed, whose context had ended or not.
func (n *Counts) GaveUp(err error, canceled bool) {
	switch {
	case errors.Is(err, terms.ErrNotAcquired):
		n.Denied++
	case canceled:
		n.Canceled++
	default:
		n.Failed++
	}
}
