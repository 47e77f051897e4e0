package rlock

import (
	"context"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Client is one party among those that contend for locks, with one connection
// for commands and one for subscriptions, one watchdog for all it holds, and a
// constant number of goroutines. A process usually has one. Its methods may be
// called concurrently.
//
// A client must not run twice. If a machine or a container is restored several times
// from one snapshot, or beside the original, the copies of its clients have one identity
// in Redis, and two of them may hold one lock: they send the same owners, which a script
// takes for a command that is sent again. Close the client before such a snapshot is
// taken, and call [New] after it is restored.
type Client struct {
	config Config
	redis  *wire.Redis
	id     *wire.ID
	hub    *pubsub.Hub
	keeper *lease.Keeper
	tick   time.Duration // of the keeper's wheel
	start  time.Time     // what renewals are counted from, to fall due together

	leaseText string // Config.Lease in milliseconds, since nearly all commands have it

	notices  *notices // by which the Logger is called
	observer observing
	traffic  traffic // see Stats
	losses   losses
	taken    taken // of compound locks whose first part is this client's

	// closed is set before Close visits the shards, under no mutex, and read
	// under a shard's: a goroutine that reads false is visited.
	closed atomic.Bool
	// live counts the tenures that are not over, from before the acquire is sent;
	// in a closed client the goroutine that brings it to zero puts a mark on drained.
	live    atomic.Int64
	drained chan struct{}
	// waiters are used again by this client only: a waiter has a channel, which
	// must not leave its testing/synctest bubble.
	waiters sync.Pool

	seed   maphash.Seed
	shards [kindCount][shardCount]shard
}

// New connects to Redis and returns a client. It fails with [ErrInvalidConfig]
// for a config that cannot work, [ErrUnsupported] for a server that lacks what
// the config asks for, [ErrNoPermission] if the user may not log in or lacks a
// right that New needs, and with the connection's error if Redis cannot be
// reached; then nothing is left running. It waits up to Config.Redis.Dialer.Timeout,
// 2 s by default, for a server that is loading its data, busy with a script, or full.
func New(config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	id := wire.NewID()
	redis, err := wire.Open(wire.Options{
		Redis: config.Redis, Client: config.Client, PubSub: wire.PubSub(config.PubSub),
		SyncReplicas: config.SyncReplicas, RedissonPolls: config.RedissonPolls, NoClientName: config.NoClientName,
	}, id.Prefix)
	if err != nil {
		return nil, err
	}
	c := &Client{
		config: config,
		redis:  redis,
		id:     id,
		tick:   min(max(config.Lease/1024, time.Millisecond), 10*time.Millisecond),
		start:  time.Now(),
		seed:   maphash.MakeSeed(),

		leaseText: strconv.FormatInt(config.Lease.Milliseconds(), 10),

		drained: make(chan struct{}, 1),
		waiters: sync.Pool{New: newWaiter},
	}
	for s := range c.allShards {
		s.rooms = make(map[string]*room)
	}
	c.config.Logger, c.notices = newLogger(config.Logger)
	c.observe(config.Observer)
	c.hub = pubsub.New(pubsub.Config{Client: redis.Client, Sharded: redis.Sharded, Logger: c.config.Logger})
	c.keeper = lease.NewKeeper(lease.Config{
		Tick:       c.tick,
		Send:       c.send,
		MaxBackoff: min(config.Lease/10, time.Second),
	})
	redis.OnChange((&verifier{client: c}).verify)
	c.observer.opened(c)
	return c, nil
}

// NewContext is [New] for a caller that may leave: when ctx ends it returns ctx's error, and
// a connection that is made later is closed.
func NewContext(ctx context.Context, config Config) (*Client, error) {
	type result struct {
		client *Client
		err    error
	}
	made := make(chan result, 1)
	go func() {
		client, err := New(config)
		made <- result{client, err}
	}()
	select {
	case r := <-made:
		return r.client, r.err
	case <-ctx.Done():
		go func() {
			if r := <-made; r.err == nil {
				_ = r.client.Close()
			}
		}()
		return nil, fmt.Errorf("rlock: connect: %w", wire.Over(ctx))
	}
}

// ID returns the prefix of the UUIDs of all locks that this client holds. It leads from a
// lock's hash in Redis to the process.
func (c *Client) ID() string { return c.id.Prefix }

// Close ends the client: every waiter and every later call gets [ErrClosed], the
// contexts of what is held end with that cause, what is held is released, and no
// goroutine is left. It waits for Redis to confirm the releases, at most three
// seconds, or longer if [Config].Redis.ConnWriteTimeout is, and then returns
// [ErrUnconfirmed]: locks not released end with their leases. Connections to a server
// that is silent, and what was sent over a shared rueidis client, take up to two
// seconds more to give up. Close waits for the Logger and for the Observer too, for a second
// each at most; a call of them that takes longer is left to end by itself. A shared rueidis client stays
// open. Calls after the first return nil.
func (c *Client) Close() error { return c.CloseContext(context.Background()) }

// CloseContext is [Client.Close] for a caller that may leave. When ctx ends it waits for no
// confirmation any more, and returns [ErrUnconfirmed] and ctx's error if one is missing; what
// is left of the client ends in the background.
func (c *Client) CloseContext(ctx context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	c.redis.Stop()
	for s := range c.allShards {
		s.close()
	}
	err := c.drain(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.keeper.Close()
		c.hub.Close()
		c.redis.Close()
		c.observer.close(c)
		c.notices.close()
	}()
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

// drain waits until every tenure is over, or ctx ends.
func (c *Client) drain(ctx context.Context) error {
	timeout := time.NewTimer(c.redis.Patience())
	defer timeout.Stop()
	for {
		n := c.live.Load()
		if n == 0 {
			return nil
		}
		select {
		case <-c.drained:
		case <-ctx.Done():
			return fmt.Errorf("rlock: close: %w: %d locks end with their leases, within %v: %w", ErrUnconfirmed, n, c.config.Lease, wire.Over(ctx))
		case <-timeout.C:
			return fmt.Errorf("rlock: close: %w: %d locks end with their leases, within %v", ErrUnconfirmed, n, c.config.Lease)
		}
	}
}

// over counts a tenure that has ended.
func (c *Client) over() {
	if c.live.Add(-1) == 0 && c.closed.Load() {
		select {
		case c.drained <- struct{}{}:
		default:
		}
	}
}
