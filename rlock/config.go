package rlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Config says how a client connects and behaves. Only the address is required: the zero
// value of each other field means its default. A negative Lease, LongestLease or HandoffTime is
// refused with [ErrInvalidConfig].
type Config struct {
	// Redis says how to connect; only InitAddress has no default. Fields that are zero get values that suit locks: one
	// pipelined connection for commands, outside of a Cluster a second one for a lone caller, no cache, small buffers, and
	// timeouts by which a dead peer is noticed in four seconds. ConnLifetime is refused: commands fail at its end.
	Redis rueidis.ClientOption

	// Client is a rueidis client to share instead. Its settings stay as they are, and
	// [Client.Close] leaves it open: close it afterwards. docs/connecting.md has the risks.
	Client rueidis.Client

	// Lazy makes New return at once, and connect in the background: until then calls wait or fail as in
	// an outage, or with the error of New if that would be permanent, and the Logger says once why.
	Lazy bool

	// Prefix is put before each lock's name to make its key in Redis, as "billing:", or "{billing}:"
	// for locks in one slot of a Cluster: what Redisson's NameMapper does. Methods of the client,
	// its locks and its Observer take and return names without it; errors, the log and the names of
	// a multi-lock have it. Defaults to "": the name is the key.
	Prefix string

	// Lease is how long Redis keeps a lock whose holder died, and how long an outage may last
	// before a holder loses it. The watchdog renews at a third of it. At least 100 ms. Defaults to
	// 30 s, as Redisson's lockWatchdogTimeout.
	Lease time.Duration

	// LongestLease is the longest lease that any client has on a lock of this server: its Lease,
	// or that of a call. A red lock takes a lost part again only on a server that has been up for
	// as long: see [NewRedLock]. Defaults to Lease, or to 30 s if that is shorter. If it is set, it
	// must not be less than Lease.
	LongestLease time.Duration

	// HandoffLimit is how many more times a lock is handed off inside this process once another
	// client is known to wait for it. Then this client's next waiter joins the end of the queue.
	// Negative: none while others wait. A fair lock is never handed off, nor is one after
	// [Client.Resume] while another client waits. Defaults to 16.
	HandoffLimit int

	// HandoffTime limits these hand-offs as well, whichever ends first. A section that has begun
	// is not cut short. Defaults to 10 ms.
	HandoffTime time.Duration

	// SyncReplicas is how many replicas must have a grant before it counts: Redis is asked with WAIT, for a second at most
	// or a quarter of the lease. A grant that fewer have is released again and is [ErrNotReplicated]. Hand-offs and
	// renewals do not wait. An acquire takes a round trip to the replicas more, and a connection of its own meanwhile: at
	// most 32 to a node. Defaults to 0.
	SyncReplicas int

	// PubSub is the family of commands that notifies waiters of grants. All clients of a lock must
	// use the same one. Defaults to PubSubAuto, as Redisson from 3.28 on.
	PubSub PubSub

	// RedissonPolls says whether clients of Redisson contend that cannot be counted: spin locks,
	// loops of tryLock, or waits at a replica. A lock that this client wants all the time is then
	// left to them for 140 ms about every 2.4 s. Defaults to RedissonPollsAuto.
	RedissonPolls RedissonPolls

	// NoClientName leaves the connections without the name "rlock:<program>:<host>:<pid>:<id>",
	// by which package inspect finds the process of a holder or a waiter. A Redis.ClientName, or
	// that of a shared Client, is kept.
	NoClientName bool

	// NoClientChannel omits the channel on which others notify this client about its locks, as when one
	// is unlocked by force; the client then notifies no others either. Such a loss is noticed by the
	// next renewal.
	NoClientChannel bool

	// TrackedKeys is how many keys of held locks Redis watches at most, once one owner has held them
	// alone for 50 ms: it reports at once if one is deleted, overwritten or evicted (CLIENT TRACKING).
	// The next renewal notices the loss of other keys, and of all where Redis refuses to watch,
	// as before Redis 7, in RESP2, and with a shared Client. Negative: none. Defaults to 1000.
	TrackedKeys int

	// Logger gets a message for each lock that was lost (at level Debug if its fixed lease ended, else at Warn), for faults
	// of connections and subscriptions, for a goroutine that waits for its own lock, and for long holds and waits. None has a password. It is called in a
	// goroutine of its own; while 1000 messages wait for it, further ones are dropped and counted. If its handler panics,
	// the first panic is written to the standard error. Defaults to slog.Default().
	Logger *slog.Logger

	// LongHold is after how long a hold is logged, once, while it lasts, with its owner and, if
	// RecordSites is set, its site in the code. Negative: never. Defaults to 10 minutes.
	LongHold time.Duration

	// ReleaseDropped releases a [Hold] of one key that the garbage collector has found dropped by the
	// program, about a minute later, also while its Context is in use: a program that needs the lock keeps the Hold.
	// Without it such a hold is logged only.
	ReleaseDropped bool

	// LongWait is the same for a call that waits, with its site in the code and the holder in Redis. The
	// site of a holder in this client needs RecordSites. Negative: never. Defaults to 30 s.
	LongWait time.Duration

	// RecordSites records where in the code each lock is taken, for the log and for package inspect. Each call
	// for a lock then takes some microseconds more.
	RecordSites bool

	// Observer gets the events of each lock: for metrics, traces and tests. Defaults
	// to nil, which costs nothing.
	Observer *Observer
}

// RedissonPolls says when clients of Redisson that only poll have windows.
type RedissonPolls int

const (
	// RedissonPollsAuto is where the server knows a script by which Redisson takes its locks:
	// a client of which locks are contended for asks once a minute, and every two seconds
	// while the answer is no (SCRIPT EXISTS).
	RedissonPollsAuto RedissonPolls = RedissonPolls(wire.RedissonPollsAuto)
	// RedissonPollsNever leaves no such windows: pollers may starve beside busy clients.
	RedissonPollsNever RedissonPolls = RedissonPolls(wire.RedissonPollsNever)
	// RedissonPollsAlways is for versions of Redisson whose scripts are not known, and other
	// programs that follow its protocol.
	RedissonPollsAlways RedissonPolls = RedissonPolls(wire.RedissonPollsAlways)
)

// PubSub is a family of publish and subscribe commands.
type PubSub int

const (
	// PubSubAuto is sharded in a Cluster that knows sharded pub/sub (Redis 7,
	// Valkey), and plain everywhere else. Redisson's shardedSubscriptionMode AUTO.
	PubSubAuto PubSub = PubSub(wire.PubSubAuto)
	// PubSubSharded is SSUBSCRIBE and SPUBLISH: shardedSubscriptionMode ON. New
	// fails with ErrUnsupported where the server does not know them.
	PubSubSharded PubSub = PubSub(wire.PubSubSharded)
	// PubSubPlain is SUBSCRIBE and PUBLISH: shardedSubscriptionMode OFF, and
	// what Redisson used before 3.22. From 3.22.0 to 3.27.2 it used either of the
	// two, by which node of the Cluster it asked: see docs/redisson-versions.md.
	PubSubPlain PubSub = PubSub(wire.PubSubPlain)
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

// withDefaults returns the config with every default filled in, or
// ErrInvalidConfig.
func (c Config) withDefaults() (Config, error) {
	c.Lease = cmp.Or(c.Lease, defaultLease)
	if err := cmp.Or(c.checkAddress(), c.checkValues()); err != nil {
		return c, err
	}
	c.LongestLease = cmp.Or(c.LongestLease, max(c.Lease, defaultLease))
	c.HandoffLimit = max(cmp.Or(c.HandoffLimit, defaultHandoffLimit), 0)
	c.HandoffTime = cmp.Or(c.HandoffTime, defaultHandoffTime)
	c.TrackedKeys = max(cmp.Or(c.TrackedKeys, defaultTrackedKeys), 0)
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

// checkAddress refuses a config that does not say where Redis is.
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
	case c.RedissonPolls < RedissonPollsAuto || c.RedissonPolls > RedissonPollsAlways:
		return invalid("RedissonPolls is %d: use one of its constants", c.RedissonPolls)
	case c.PubSub < PubSubAuto || c.PubSub > PubSubPlain:
		return invalid("PubSub is %d: use one of its constants", c.PubSub)
	case c.SyncReplicas < 0 || c.SyncReplicas > wire.MaxSyncReplicas:
		return invalid("SyncReplicas is %d: use the number of replicas, at most %d, or 0 not to wait for them", c.SyncReplicas, wire.MaxSyncReplicas)
	case c.Lease < 0 || c.LongestLease < 0 || c.HandoffTime < 0:
		return invalid("Lease is %v, LongestLease %v, HandoffTime %v: none may be negative", c.Lease, c.LongestLease, c.HandoffTime)
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
		Redis: c.Redis, Client: c.Client, PubSub: wire.PubSub(c.PubSub),
		SyncReplicas: c.SyncReplicas, RedissonPolls: wire.RedissonPolls(c.RedissonPolls), NoClientName: c.NoClientName, Tracking: c.TrackedKeys > 0,
	}
}

// shared returns the settings of the locks.
func (c Config) shared(o *terms.Observer) client.Config {
	return client.Config{
		Lease: c.Lease, LongestLease: c.LongestLease, HandoffLimit: c.HandoffLimit, HandoffTime: c.HandoffTime,
		TrackedKeys: c.TrackedKeys, LongHold: c.LongHold, LongWait: c.LongWait, ReleaseDropped: c.ReleaseDropped, RecordSites: c.RecordSites, Logger: c.Logger, Observer: o,
		NoClientChannel: c.NoClientChannel, RedissonPolls: wire.RedissonPolls(c.RedissonPolls),
	}
}

// lockOptions fills in what suits locks.
func lockOptions(o rueidis.ClientOption) rueidis.ClientOption {
	// No command of ours can be cached, and the tracking that the cache needs is
	// missing from many servers.
	o.DisableCache = true
	// One connection is first in, first out: a clean-up cannot overtake the
	// acquire that it cleans up after (15 of 40 times with two connections).
	o.PipelineMultiplex = cmp.Or(o.PipelineMultiplex, -1)
	// Without it a lone command meets a connection that died idle as an error,
	// and a command whose context ends takes the connection with it. A lone caller
	// is served without the pipeline all the same: see wire/direct.go.
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
