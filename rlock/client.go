package rlock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/composite"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/monitor"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Client makes locks and holds them. A process usually has one. To each node it has one
// connection for commands and one for subscriptions, and outside of a Cluster one more for lone
// callers; it has one watchdog and a constant number of goroutines. Its methods may be called
// concurrently; the methods of a zero Client panic.
//
// A client must not run twice: close it before a snapshot of a machine or container is taken that
// may be restored several times, or two of its copies may hold one lock.
type Client struct {
	prefix  string          // the prefix of the names in Redis
	driver  *driver.Client  // the locks of one key
	groups  *composite.Home // the multi and red locks
	watcher *monitor.Watcher
	inside  // gives the packages beside this one the prefix and the driver
}

type inside = driver.Inside

// New connects to Redis and returns a client. It fails with [ErrInvalidConfig], [ErrUnsupported]
// for a server without a feature of the config, [ErrNoPermission] if the user may not log in or
// lacks a right that New needs, or the connection's error. For a server that is loading its data,
// busy with a script, or full it waits up to Config.Redis.Dialer.Timeout, 2 s by default.
func New(config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	id := wire.NewID()
	redis, err := config.connect(id)
	if err != nil {
		return nil, err
	}
	c := &Client{prefix: config.Prefix}
	if config.Observer == nil {
		c.open(config, nil, redis, id)
		return c, nil
	}
	o := &observing{hooks: config.Observer, client: c}
	c.open(config, o.events(), redis, id)
	o.log = c.driver.Config.Logger
	o.about("Opened", config.Observer.Opened)
	return c, nil
}

// connect returns the Redis of the client. It is not connected yet if the client is lazy.
func (c Config) connect(id *wire.ID) (*wire.Redis, error) {
	if c.Lazy {
		return wire.OpenLater(c.wire(), id.Prefix), nil
	}
	return wire.Open(c.wire(), id.Prefix)
}

// open makes the parts of the client.
func (c *Client) open(config Config, o *contract.Observer, redis *wire.Redis, id *wire.ID) {
	c.driver = driver.New(config.driver(o), redis, id)
	c.inside = driver.NewInside(c.driver, c.prefix)
	c.groups = homeOf(c.driver, config)
	c.watcher = monitor.New(monitor.Config{
		Source: c.driver, Redis: redis, Logger: c.driver.Config.Logger,
		LongHold: config.LongHold, LongWait: config.LongWait, ReleaseDropped: config.ReleaseDropped,
	})
	c.driver.Watch(c.watcher.WaitBegins, c.watcher.HoldBegins)
	c.driver.Connect()
}

// NewContext is [New], but tries again until ctx ends while Redis cannot be reached or does not
// serve clients yet. Then the error is ctx's with the last one of Redis. The client does not end
// with ctx.
func NewContext(ctx context.Context, config Config) (*Client, error) {
	var last error // the error of the last attempt
	for pause := wire.FirstRetry; ; pause = min(2*pause, wire.LastRetry) {
		client, err := newUntil(ctx, config)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, fmt.Errorf("rlock: connect: %w", wire.TimeUp(ctx, last))
		case err == nil || !wire.MayOpen(err):
			return client, err
		}
		last = err
		select {
		case <-time.After(wire.Jitter(pause)):
		case <-ctx.Done():
		}
	}
}

// newUntil is New, but also returns when ctx ends, with an error.
func newUntil(ctx context.Context, config Config) (*Client, error) {
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
				_ = r.client.Close() // it holds nothing
			}
		}()
		return nil, ctx.Err()
	}
}

// Close releases the locks that the client holds and ends it: the contexts of its holds end with
// cause [ErrClosed], waiting and later calls return ErrClosed, and no goroutine is left. Locks that
// were passed on stay, and a shared rueidis client stays open. Close waits for Redis to confirm the
// releases, for three seconds, or a second more than Config.Redis.ConnWriteTimeout if that is
// longer. Then it returns [ErrUnconfirmed], and the other locks end with their leases. A silent
// server, the Logger and the Observer may take up to three seconds more. A further call waits for
// the first one and returns its error; in a hook without a caller, such as a hook that Close calls,
// it returns nil.
func (c *Client) Close() error { return c.driver.Close() }

// Check returns nil if a lock could be taken now, else the error that TryLock of a free lock would
// get. Reasons are: a replica; a server that is full, loading, busy with a script, silent or too
// far from its replicas ([ErrNotReplicated] with SyncReplicas); a Cluster that is down; a missing
// right ([ErrNoPermission]); a lazy client without a connection; a closed client ([ErrClosed]).
// Check is for readiness probes, and must not be a liveness probe: docs/recipes.md.
//
// It takes a plain lock and releases it, in one round trip; in a Cluster one lock on each primary,
// all at once. With SyncReplicas the release takes one more. The lock's name is Config.Prefix,
// "rlock_check:" and a UUID; if the release fails, it expires within four seconds. Check finds no
// right that only other kinds or waiters need. It is repeated only if its connection has ended. It
// ends with ctx, at the latest when an Unlock would, and then returns ctx's error, or "no answer
// from Redis".
func (c *Client) Check(ctx context.Context) error { return c.driver.Check(ctx, c.prefix) }

// inRedis returns the key of a lock. An empty name stays empty, which no lock can have.
func (c *Client) inRedis(name string) string {
	if name == "" || c.prefix == "" {
		return name
	}
	return c.prefix + name
}

// named returns the name of the lock with that key, and the key if it has another prefix.
func (c *Client) named(key string) string { return strings.TrimPrefix(key, c.prefix) }
