package engine

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
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Client is one party among those that contend for locks: its rooms, in shards, with one
// keeper for the leases and one hub for the messages. Its methods may be called concurrently.
type Client struct {
	Config Config
	Redis  *wire.Redis
	ID     *wire.ID
	hub    *pubsub.Hub
	keeper *lease.Keeper
	tick   time.Duration // of the keeper's wheel
	start  time.Time     // what renewals are counted from, to fall due together

	leaseText string // Config.Lease in milliseconds, since nearly all commands have it

	hearing   sync.Once // of tenures: see ownchannel.go
	own       atomic.Pointer[pubsub.Subscription]
	diag      Diag     // see uses.go
	notices   *notices // by which the Logger is called
	Observer  observing
	Losses    losses
	detached  detached                 // see detach.go
	beside    atomic.Pointer[[]Beside] // see beside.go
	troubleAt atomic.Int64             // after start, in nanoseconds: when trouble may be told again

	// Closed is set before Close visits the shards, under no mutex, and read
	// under a shard's: a goroutine that reads false is visited.
	Closed atomic.Bool
	// live counts the tenures that are not over, from before the acquire is sent;
	// in a closed client the goroutine that brings it to zero puts a mark on drained.
	live    atomic.Int64
	drained chan struct{}
	// waiters are used again by this client only: a waiter has a channel, which
	// must not leave its testing/synctest bubble.
	waiters sync.Pool

	spells spells

	seed   maphash.Seed
	shards [KindCount][shardCount]shard
}

// A Config says how a client behaves. It is complete: package rlock fills in the defaults,
// and says there what each field means.
type Config struct {
	Lease           time.Duration
	HandoffLimit    int // 0: no hand-offs while others wait
	HandoffTime     time.Duration
	Linger          time.Duration // 0: no lock lingers
	LongHold        time.Duration // 0: never
	LongWait        time.Duration // 0: never
	RecordPlaces    bool
	RedissonPolls   wire.RedissonPolls
	NoClientChannel bool
	NoAnswers       bool
	Logger          *slog.Logger
	Observer        *Observer // nil for none
}

// New returns a client of the Redis, with an id that no other has.
func New(config Config, redis *wire.Redis, id *wire.ID) *Client {
	c := &Client{
		Config: config,
		Redis:  redis,
		ID:     id,
		tick:   min(max(config.Lease/1024, time.Millisecond), 10*time.Millisecond),
		start:  time.Now(),
		seed:   maphash.MakeSeed(),

		leaseText: strconv.FormatInt(config.Lease.Milliseconds(), 10),

		diag: noDiag{},

		drained: make(chan struct{}, 1),
		waiters: sync.Pool{New: newWaiter},
	}
	for s := range c.allShards {
		s.rooms = make(map[string]*room)
	}
	c.Config.Logger, c.notices = newLogger(config.Logger)
	if config.Observer != nil {
		c.Observer = observing{config.Observer, newNotices(maxEvents, config.Observer.Missed)}
	}
	c.hub = pubsub.New(pubsub.Config{Client: redis.Client, Sharded: redis.Sharded, Logger: c.Config.Logger})
	c.keeper = lease.NewKeeper(lease.Config{
		Tick:       c.tick,
		Send:       c.send,
		MaxBackoff: min(config.Lease/10, time.Second),
	})
	verify := c.verifies()
	redis.OnChange(func(keys []string) { c.changed(verify, keys) })
	return c
}

// Close ends the client: see package rlock. When ctx ends it waits for no confirmation any
// more, and what is left of the client ends in the background.
func (c *Client) Close(ctx context.Context) error {
	if c.Closed.Swap(true) {
		return nil
	}
	c.Redis.Stop()
	for s := range c.allShards {
		s.close()
	}
	for _, b := range c.besides() {
		b.Close()
	}
	drained, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		drained <- c.drain() // also once the caller has left
		c.keeper.Close()
		for _, b := range c.besides() {
			b.Stop()
		}
		c.hub.Close()
		c.Redis.Close()
		c.Observer.close()
		c.notices.close()
	}()
	var err error
	select {
	case err = <-drained:
	case <-ctx.Done():
		if err = c.unconfirmed(); err != nil {
			err = fmt.Errorf("%w: %w", err, wire.Over(ctx))
		}
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return err
}

// allShards calls yield with every shard.
func (c *Client) allShards(yield func(*shard) bool) {
	for id := range c.shards {
		for i := range c.shards[id] {
			if !yield(&c.shards[id][i]) {
				return
			}
		}
	}
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
	if left := c.live.Load(); left > 0 {
		return fmt.Errorf("rlock: close: %w: number of locks that end with their leases, within %v: %d", ErrUnconfirmed, c.Config.Lease, left)
	}
	return nil
}

// over counts a tenure that has ended.
func (c *Client) over() {
	if c.live.Add(-1) == 0 && c.Closed.Load() {
		select {
		case c.drained <- struct{}{}:
		default:
		}
	}
}

// Place returns where the call comes from into rlock, nil if places are not recorded.
func (c *Client) Place() *Place {
	if !c.Config.RecordPlaces {
		return nil
	}
	return terms.Here()
}
