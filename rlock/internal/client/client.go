package client

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/losses"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Client is one party among those that contend for locks: what all of its locks share. Its methods may be called
// concurrently.
type Client struct {
	Config Config
	Redis  *wire.Redis
	ID     *wire.ID
	Hub    *pubsub.Hub   // its subscriptions
	Tick   time.Duration // how exactly times are kept
	Began  time.Time     // what its times are counted from

	Observer observing
	Losses   losses.Losses

	locks    Locks     // see [Client.Keep]
	diag     Diag      // see [Client.Watch]
	hearing  sync.Once // for the messages about tenures: see HearOfTenures
	notices  *notices  // by which the Logger is called
	refusals struct {
		sync.Mutex
		texts []string // that were logged
	}

	troubleAt atomic.Int64 // after Began, in nanoseconds: when trouble may be logged again
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

// New returns a client of the Redis, with an id that no other has. It has no locks before [Client.Keep].
func New(config Config, redis *wire.Redis, id *wire.ID) *Client {
	c := &Client{
		Config:  config,
		Redis:   redis,
		ID:      id,
		Tick:    min(max(config.Lease/1024, time.Millisecond), 10*time.Millisecond),
		Began:   time.Now(),
		diag:    noDiag{},
		seed:    maphash.MakeSeed(),
		drained: make(chan struct{}, 1),
	}
	c.Config.Logger, c.notices = newLogger(config.Logger)
	if config.Observer != nil {
		c.Observer = observing{config.Observer, newNotices(maxEvents, config.Observer.Missed)}
	}
	hub := pubsub.Config{Logger: c.Config.Logger}
	if !redis.IsLate() {
		hub.Client, hub.Sharded = redis.Client, redis.Sharded
	}
	c.Hub = pubsub.New(hub)
	return c
}

// Close ends the client: see package rlock.
func (c *Client) Close() error {
	if c.Closed.Swap(true) {
		return nil
	}
	c.Redis.Stop()
	c.locks.Close()
	err := c.drain()
	c.locks.Stop()
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
	if left := c.locks.Unreleased(); left > 0 {
		return fmt.Errorf("rlock: close: %w: number of locks that may be held until their leases end, within %v: %d", terms.ErrUnconfirmed, c.Config.Lease, left)
	}
	return nil
}

// TenureBegan counts a tenure that is not over, before its first command is sent. Each ends with
// TenureOver: Close waits for that.
func (c *Client) TenureBegan() { c.live.Add(1) }

// TenureOver counts a tenure that has ended.
func (c *Client) TenureOver() {
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
