package driver

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/losses"
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
	Losses   losses.Losses

	wire   carrier
	clock  clock
	keeper *lease.Keeper
	post   post

	tracked trackedKeys // of the keys of which Redis tells changes

	witness *witness // asserts the rules, in tests with the build tag "invariants"

	leaseText string // Config.Lease in milliseconds, since nearly all commands have it

	// waiters are used again by this client only: a waiter has a channel, which must not leave its
	// testing/synctest bubble.
	waiters   sync.Pool
	exchanges sync.Pool // commands on their way

	shards [shardCount]shard // by the hash of the key

	diag     Diag      // see [Client.Watch]
	hearing  sync.Once // for the messages about tenures: see hearOfTenures
	notices  *notices  // by which the Logger is called
	refusals struct {
		sync.Mutex
		texts []string // that were logged
	}

	troubleAt atomic.Int64 // by the clock, in nanoseconds: when trouble may be logged again
	spells    spells
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

// Of returns the part of a client of package rlock that is here, and the prefix of its names. Package rlock sets it, for
// the packages beside it that have keys of their own.
var Of func(face any) (c *Client, prefix string)

// A Config says how a client behaves. It is complete: package rlock fills in the defaults,
// and says there what each field means.
type Config struct {
	Lease           time.Duration
	LongestLease    time.Duration
	HandoffLimit    int // 0: no hand-offs while others wait
	HandoffTime     time.Duration
	TrackedKeys     int           // 0: none
	LongHold        time.Duration // 0: never
	LongWait        time.Duration // 0: never
	ReleaseDropped  bool
	RecordSites     bool
	RedissonPolls   wire.RedissonPolls
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
		Config:    config,
		Redis:     r,
		ID:        id,
		Tick:      min(max(config.Lease/1024, time.Millisecond), 10*time.Millisecond),
		clock:     clock{start: began, wall: began.UnixNano()},
		leaseText: strconv.FormatInt(config.Lease.Milliseconds(), 10),
		waiters:   sync.Pool{New: newWaiter},
		exchanges: sync.Pool{New: func() any { return new(exchange) }},
		diag:      noDiag{},
		seed:      maphash.MakeSeed(),
		drained:   make(chan struct{}, 1),
	}
	c.Config.Logger, c.notices = newLogger(config.Logger)
	if config.Observer != nil {
		c.Observer = observing{config.Observer, newNotices(maxEvents, config.Observer.Missed)}
	}
	hub := pubsub.Config{Logger: c.Config.Logger}
	if !r.IsLate() {
		hub.Client, hub.Sharded = r.Client, r.Sharded
	}
	c.Hub = pubsub.New(hub)
	c.witness = newWitness(c)
	return c
}

// open gives the client its carrier. It may have locks then.
func (c *Client) open(w carrier) {
	c.wire = w
	config := c.config()
	for i := range c.shards {
		s := &c.shards[i]
		s.client, s.pools = c, make(map[string]*pool)
		s.core = core.Client{Config: config, ID: thisClient, Tenure: c.ID.Number}
		for id := range s.locks {
			s.locks[id] = make(map[string]*lock)
		}
	}
	if w.traits().tracks {
		c.tracked.all = int64(c.Config.TrackedKeys)
	}
	c.keeper = lease.NewKeeper(c.keeperConfig())
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
			return c.unconfirmed()
		}
	}
	return nil
}

// unconfirmed returns the error of Close if tenures are not over, nil if all are.
func (c *Client) unconfirmed() error {
	if left := c.unreleased(); left > 0 {
		return fmt.Errorf("rlock: close: %w: number of locks that may be held until their leases end, within %v: %d", terms.ErrUnconfirmed, c.Config.Lease, left)
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

// tenureBegan counts a tenure that is not over, before its first command is sent. Each ends with
// tenureOver: Close waits for that.
func (c *Client) tenureBegan() { c.live.Add(1) }

// tenureOver counts a tenure that has ended.
func (c *Client) tenureOver() {
	if c.live.Add(-1) == 0 && c.Closed.Load() {
		select {
		case c.drained <- struct{}{}:
		default:
		}
	}
}

// Site returns where the call comes from into rlock, nil if sites are not recorded.
func (c *Client) Site() *terms.Site {
	if !c.Config.RecordSites {
		return nil
	}
	return terms.Here()
}
