package rlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Config says how a client connects and behaves. Only the address is required: the zero value of
// each other field means its default.
type Config struct {
	// Redis has the options of the connections; only InitAddress has no default. Zero fields get
	// values that suit locks and notice a dead peer in four seconds. ConnLifetime is refused, and
	// so are options that send commands to replicas.
	Redis rueidis.ClientOption
	// Client is a rueidis client to share instead: see docs/connecting.md. Close leaves it open.
	Client rueidis.Client
	// Lazy makes New return at once and connect in the background. Until then calls wait or fail
	// like calls in an outage, or fail with the error of New if that would be permanent.
	Lazy bool
	// Prefix is put before each lock's name to make its key, as Redisson's NameMapper does:
	// "billing:", or "{billing}:" for one slot of a Cluster. The client, its locks and its Observer
	// take and return names without it; errors, the log and the names of multi-locks have it.
	Prefix string
	// Lease is how long Redis keeps a lock whose holder died, and how long an outage may last
	// before a holder loses it; the watchdog renews at a third of it. A holder that has waited has
	// at most two seconds until its first renewal: see docs/operations.md. At least 100 ms.
	// Defaults to 30 s.
	Lease time.Duration
	// LongestLease is the longest lease that any client or call has on a lock of this server, at
	// least Lease: see [NewRedLock]. Defaults to Lease, at least 30 s.
	LongestLease time.Duration
	// SyncReplicas is the number of replicas that must confirm a grant (WAIT) within a second or a
	// quarter of the lease; otherwise it is released: [ErrNotReplicated]. An acquire takes one more
	// round trip and a connection meanwhile. Hand-offs and renewals do not wait.
	SyncReplicas int
	// Logger gets the messages that docs/operations.md lists, in a goroutine of its own; while 1000
	// wait, further ones are dropped. Its first panic goes to the standard error. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// LongHold is the time after which a hold is logged. Negative: never. Defaults to 10 minutes.
	LongHold time.Duration
	// LongWait is the time after which a waiting call is logged. Negative: never. Defaults to 30 s.
	LongWait time.Duration
	// ReleaseDropped releases a [Hold] of one key that the program has dropped, even if its Context
	// is in use, about a minute after the garbage collector has found it. Else it is only logged.
	ReleaseDropped bool
	// RecordSites records where in the code each lock is taken, for the log and package inspect.
	RecordSites bool
	// Observer gets the events of each lock. Defaults to nil, which costs nothing.
	Observer *Observer
	Advanced Advanced // mechanisms that few programs tune
}

// Advanced is the part of a [Config] that few programs need.
type Advanced struct {
	// HandoffLimit is the number of times that a lock is handed off inside this process once
	// another client is known to wait; then this client's next waiter joins the end of the queue.
	// Negative: none. A fair lock has none, nor a lock after [Client.Resume]. Defaults to 16.
	HandoffLimit int
	// HandoffTime is the longest time in all for these hand-offs. Not negative. Defaults to 10 ms.
	HandoffTime time.Duration
	// PubSub is the family of commands that notifies waiters, the same for all clients of a lock.
	PubSub PubSub
	// RedissonPolls says whether to expect clients of Redisson that cannot be counted. A lock that
	// this client wants all the time is then left to them for 140 ms about every 2.4 s.
	RedissonPolls RedissonPolls
	// NoClientName omits the name of the connections, by which package inspect finds processes.
	NoClientName bool
	// NoClientChannel omits the channel on which clients notify each other of a ForceUnlock.
	NoClientChannel bool
	// TrackedKeys is the largest number of keys of held locks that Redis watches (CLIENT TRACKING),
	// once one owner has held them alone for 50 ms. Redis reports at once if such a key is deleted,
	// overwritten or evicted. The next renewal notices the loss of other keys, and of all keys
	// before Redis 7, in RESP2, and with a shared Client. Negative: none. Defaults to 1000.
	TrackedKeys int
	// LogSteps logs each step of a lock at level Debug: what the client wants, what Redis has.
	LogSteps bool
}

// RedissonPolls says when a lock is left to clients of Redisson that only poll: with Auto if the
// server has their scripts (SCRIPT EXISTS), Never, so that they may starve beside busy ones, or
// Always.
type RedissonPolls int

const (
	RedissonPollsAuto   RedissonPolls = RedissonPolls(wire.RedissonPollsAuto)
	RedissonPollsNever  RedissonPolls = RedissonPolls(wire.RedissonPollsNever)
	RedissonPollsAlways RedissonPolls = RedissonPolls(wire.RedissonPollsAlways)
)

// PubSub is a family of commands, as Redisson's shardedSubscriptionMode: docs/redisson-versions.md.
type PubSub int

const (
	PubSubAuto    PubSub = PubSub(wire.PubSubAuto)    // sharded if a Cluster can, else plain: AUTO
	PubSubSharded PubSub = PubSub(wire.PubSubSharded) // SSUBSCRIBE, SPUBLISH, or ErrUnsupported: ON
	PubSubPlain   PubSub = PubSub(wire.PubSubPlain)   // SUBSCRIBE and PUBLISH: OFF
)

const (
	defaultLease        = 30 * time.Second
	shortestConfigLease = 100 * time.Millisecond
	defaultHandoffLimit = 16
	defaultHandoffTime  = 10 * time.Millisecond
	defaultTrackedKeys  = 1000
	defaultLongWait     = 30 * time.Second
	defaultLongHold     = 10 * time.Minute
)

// withDefaults returns the config with every default filled in, or ErrInvalidConfig.
func (c Config) withDefaults() (Config, error) {
	c.Lease = cmp.Or(c.Lease, defaultLease)
	if err := cmp.Or(c.checkAddress(), c.checkValues()); err != nil {
		return c, err
	}
	c.LongestLease = cmp.Or(c.LongestLease, max(c.Lease, defaultLease))
	c.Advanced.HandoffLimit = max(cmp.Or(c.Advanced.HandoffLimit, defaultHandoffLimit), 0)
	c.Advanced.HandoffTime = cmp.Or(c.Advanced.HandoffTime, defaultHandoffTime)
	c.Advanced.TrackedKeys = max(cmp.Or(c.Advanced.TrackedKeys, defaultTrackedKeys), 0)
	c.LongHold = max(cmp.Or(c.LongHold, defaultLongHold), 0)
	c.LongWait = max(cmp.Or(c.LongWait, defaultLongWait), 0)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Redis = lockOptions(c.Redis)
	if c.SyncReplicas > 0 {
		c.Redis.BlockingPoolSize = cmp.Or(c.Redis.BlockingPoolSize, wire.SyncConnections)
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("rlock: %w: "+format, append([]any{ErrInvalidConfig}, args...)...)
}

// checkAddress refuses a config without the address of Redis, or with two.
func (c Config) checkAddress() error {
	switch given := len(c.Redis.InitAddress) > 0; {
	case c.Client == nil && !given:
		return invalid("set Redis.InitAddress, for example to \"127.0.0.1:6379\", or Client")
	case c.Client != nil && given:
		return invalid("both Redis.InitAddress and Client are set: choose one")
	}
	for _, addr := range c.Redis.InitAddress {
		if strings.Contains(addr, "@") || strings.Contains(addr, "://") { // and is not repeated here, nor in the errors of a dial
			return invalid("an address in Redis.InitAddress is a URL, or has a user or a password in it: use \"host:port\", or rueidis.ParseURL for a URL")
		}
		if _, _, err := net.SplitHostPort(addr); err != nil && c.Redis.DialCtxFn == nil && c.Redis.DialFn == nil {
			return invalid("Redis.InitAddress: %v: use \"host:port\"", err)
		}
	}
	return nil
}

// checkValues refuses values that cannot work.
func (c Config) checkValues() error {
	switch {
	case c.Redis.ConnLifetime > 0:
		return invalid("Redis.ConnLifetime is %v: leave it 0, since commands fail when a connection reaches its end", c.Redis.ConnLifetime)
	case c.Redis.Dialer.Timeout < 0 || c.Redis.ConnWriteTimeout < 0:
		return invalid("Redis.Dialer.Timeout is %v, Redis.ConnWriteTimeout %v: neither may be negative", c.Redis.Dialer.Timeout, c.Redis.ConnWriteTimeout)
	case c.Redis.ReplicaOnly || c.Redis.SendToReplicas != nil || len(c.Redis.Standalone.ReplicaAddress) > 0:
		return invalid("Redis.ReplicaOnly, Redis.SendToReplicas or Redis.Standalone.ReplicaAddress is set: leave them out, since replicas have no locks")
	case c.Advanced.RedissonPolls < RedissonPollsAuto || c.Advanced.RedissonPolls > RedissonPollsAlways:
		return invalid("Advanced.RedissonPolls is %d: use one of its constants", c.Advanced.RedissonPolls)
	case c.Advanced.PubSub < PubSubAuto || c.Advanced.PubSub > PubSubPlain:
		return invalid("Advanced.PubSub is %d: use one of its constants", c.Advanced.PubSub)
	case len(c.Prefix) >= wire.MaxName:
		return invalid("Prefix has %d bytes, and leaves none for a name: a name with its prefix has at most %d", len(c.Prefix), wire.MaxName)
	case c.SyncReplicas < 0 || c.SyncReplicas > wire.MaxSyncReplicas:
		return invalid("SyncReplicas is %d: use the number of replicas, at most %d, or 0 not to wait for them", c.SyncReplicas, wire.MaxSyncReplicas)
	case c.Lease < 0 || c.LongestLease < 0 || c.Advanced.HandoffTime < 0:
		return invalid("Lease is %v, LongestLease %v, Advanced.HandoffTime %v: none may be negative", c.Lease, c.LongestLease, c.Advanced.HandoffTime)
	case c.Lease < shortestConfigLease:
		return invalid("Lease is %v, which is too short to renew: at least %v", c.Lease, shortestConfigLease)
	case c.LongestLease > 0 && c.LongestLease < c.Lease:
		return invalid("LongestLease is %v, which is shorter than Lease, %v", c.LongestLease, c.Lease)
	}
	return nil
}

// wire returns the settings of the connection to Redis.
func (c Config) wire() wire.Options {
	return wire.Options{
		Redis: c.Redis, Client: c.Client, PubSub: wire.PubSub(c.Advanced.PubSub),
		SyncReplicas: c.SyncReplicas, RedissonPolls: wire.RedissonPolls(c.Advanced.RedissonPolls), NoClientName: c.Advanced.NoClientName, Tracking: c.Advanced.TrackedKeys > 0,
		Lease: c.Lease, NoClientChannel: c.Advanced.NoClientChannel,
	}
}

// driver returns the settings of the locks.
func (c Config) driver(o *contract.Observer) driver.Config {
	return driver.Config{
		Lease: c.Lease, HandoffLimit: c.Advanced.HandoffLimit, HandoffTime: c.Advanced.HandoffTime,
		TrackedKeys: c.Advanced.TrackedKeys, RecordSites: c.RecordSites, Logger: c.Logger, LogSteps: c.Advanced.LogSteps, Observer: o,
		NoClientChannel: c.Advanced.NoClientChannel,
	}
}

// lockOptions fills in the options that suit locks.
func lockOptions(o rueidis.ClientOption) rueidis.ClientOption {
	// No command of a lock can be cached, and many servers do not have the tracking that the cache
	// needs.
	o.DisableCache = true
	// One connection is first in, first out: a release cannot overtake the acquire that it undoes
	// (15 of 40 times with two connections).
	o.PipelineMultiplex = cmp.Or(o.PipelineMultiplex, -1)
	// Without AlwaysPipelining a lone command fails if its connection died while it was idle, and a
	// command whose context ends takes the connection with it. A lone caller has a direct
	// connection all the same: see wire/direct.go.
	o.AlwaysPipelining = true
	o.ReadBufferEachConn = cmp.Or(o.ReadBufferEachConn, 64<<10)
	o.WriteBufferEachConn = cmp.Or(o.WriteBufferEachConn, 64<<10)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, 2*time.Second)
	o.Dialer.Timeout = cmp.Or(o.Dialer.Timeout, 2*time.Second)
	o.Dialer.KeepAlive = cmp.Or(o.Dialer.KeepAlive, time.Second)
	o.BlockingPoolCleanup = cmp.Or(o.BlockingPoolCleanup, wire.SyncIdle)
	if o.RetryDelay == nil {
		o.RetryDelay = func(attempt int, _ rueidis.Completed, _ error) time.Duration {
			return min(time.Millisecond<<min(attempt, 7), 100*time.Millisecond)
		}
	}
	o.ClusterOption.ShardsRefreshInterval = cmp.Or(o.ClusterOption.ShardsRefreshInterval, time.Second)
	o.Sentinel.TopologyRefreshInterval = cmp.Or(o.Sentinel.TopologyRefreshInterval, time.Second)
	return o
}
