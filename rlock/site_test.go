package rlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A site is a server and the test that uses it.
type site struct {
	*redistest.Server
	t       *testing.T
	ctx     context.Context  // of a wait that should end by itself
	outside rueidis.Client   // a client that sends other commands than locks
	lingers time.Duration    // Config.Linger of the clients
	each    []rueidis.Client // the same for each data node, see nodes
}

func everywhere(t *testing.T, run func(t *testing.T, s *site)) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { run(t, at(t, server)) })
}

// needsWideNumbers skips the test on the embedded server where an int has 32 bits. The
// embedded server keeps expiry times and counters in an int; a real server, and this
// library, use 64 bits on every machine.
func needsWideNumbers(t *testing.T, kind redistest.Kind) {
	t.Helper()
	if kind == redistest.KindEmbedded && strconv.IntSize == 32 {
		t.Skip("the embedded server counts with 32 bits here")
	}
}

// at makes a site of the server. The test must leave no key behind once its clients are
// closed.
func at(t *testing.T, server *redistest.Server) *site {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	s := &site{Server: server, t: t, ctx: ctx, outside: server.Client(t)}
	t.Cleanup(func() {
		var left int64
		assert.Eventually(t, func() bool { // the primary may have changed
			var err error
			left, err = s.do("EXISTS", key).AsInt64()
			return err == nil
		}, hang, 10*time.Millisecond)
		assert.Zero(t, left, "a key is left behind")
	})
	return s
}

// patient gives a running server all the time that it may need on a busy machine. Clients
// that have to notice a silent server keep the usual time.
func patient(o rueidis.ClientOption) rueidis.ClientOption {
	o.ConnWriteTimeout, o.Dialer.Timeout = hang, hang
	return o
}

// in returns the site for a sub-test.
func (s *site) in(t *testing.T) *site {
	part := *s
	part.t = t
	return &part
}

// client returns a new client of the server, closed when the test ends.
func (s *site) client(changes ...func(*rlock.Config)) *rlock.Client {
	s.t.Helper()
	config := rlock.Config{Redis: patient(s.Options()), Logger: slog.New(slog.DiscardHandler), Linger: s.lingers}
	for _, change := range changes {
		change(&config)
	}
	client, err := rlock.New(config)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { assert.NoError(s.t, client.Close()) })
	if s.lingers > 0 { // from the first lock on the client can be called
		hold, err := client.NewLock("first of "+client.ID()).Acquire(s.ctx, rlock.WithLinger(0))
		require.NoError(s.t, err)
		s.awaitListeners(1, plain, ownChannels+client.ID())
		require.NoError(s.t, hold.Release(s.ctx))
	}
	return client
}

// lock returns the lock of that name, of a client of its own.
func (s *site) lock(changes ...func(*rlock.Config)) *rlock.Lock {
	s.t.Helper()
	return s.client(changes...).NewLock(key)
}

func withLease(lease time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Lease = lease }
}

// do sends a command from outside. The first argument after the command's name
// must be a key.
func (s *site) do(command, name string, args ...string) rueidis.RedisResult {
	return s.outside.Do(s.ctx, s.outside.B().Arbitrary(command).Keys(name).Args(args...).Build())
}

// number is do for a command that answers with a number.
func (s *site) number(command, name string, args ...string) int64 {
	s.t.Helper()
	n, err := s.do(command, name, args...).AsInt64()
	require.NoError(s.t, err, command)
	return n
}

// admin sends a command that has no key.
func (s *site) admin(command string, args ...string) {
	s.t.Helper()
	require.NoError(s.t, s.outside.Do(s.ctx, s.outside.B().Arbitrary(command).Args(args...).Build()).Error(), command)
}

// set makes another owner the holder of the lock: a dead client, or a Java service.
func (s *site) set(name, owner string, lease time.Duration) {
	s.t.Helper()
	s.number("HSET", name, owner, "1")
	s.number("PEXPIRE", name, fmt.Sprint(lease.Milliseconds()))
}

// A family is a family of pub/sub commands.
type family struct{ subscribe, publish, count string }

var (
	plain   = family{"SUBSCRIBE", "PUBLISH", "NUMSUB"}
	sharded = family{"SSUBSCRIBE", "SPUBLISH", "SHARDNUMSUB"}
)

// family returns Redisson's default for such a server.
func (s *site) family() family {
	if s.Kind == redistest.KindCluster && s.HasShardedPubSub() {
		return sharded
	}
	return plain
}

// nodes returns a client for each data node, replicas as well: rueidis has plain
// subscriptions anywhere.
func (s *site) nodes() []rueidis.Client {
	if s.each == nil {
		for _, node := range s.Nodes() {
			s.each = append(s.each, node.Client(s.t))
		}
	}
	return s.each
}

// awaitWaiters returns when n clients wait for the lock of that name.
func (s *site) awaitWaiters(n int64, name string) {
	s.t.Helper()
	queue := "rlock_queue:{" + name + "}"
	require.Eventually(s.t, func() bool {
		waiting := int64(0)
		for _, layout := range []string{"", "rw"} {
			members, err := s.do("ZRANGE", queue+layout, "0", "-1").AsStrSlice()
			if err != nil {
				return false
			}
			for _, member := range members { // without marks, and turns of foreign clients
				if member[0] != '!' && member != "?" {
					waiting++
				}
			}
		}
		return waiting == n
	}, hang, time.Millisecond)
}

// awaitListeners returns when n connections are subscribed to the channel.
func (s *site) awaitListeners(n int64, f family, channel string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var sum int64
		for _, node := range s.nodes() {
			reply, err := node.Do(s.ctx, node.B().Arbitrary("PUBSUB", f.count, channel).Build()).AsIntMap()
			if err != nil {
				return false
			}
			sum += reply[channel]
		}
		return sum == n
	}, hang, time.Millisecond)
}

// isFree reports whether another owner, in the lock's own client, gets it.
func (s *site) isFree(lock locker) (free bool) {
	s.t.Helper()
	elsewhere(func() {
		var err error
		if s.lingers > 0 { // the holder has to be called, which TryLock gives little time
			free, err = lock.TryLockFor(s.ctx, 300*time.Millisecond, 0)
		} else {
			free, err = lock.TryLock(s.ctx)
		}
		assert.NoError(s.t, err)
		if free {
			assert.NoError(s.t, lock.Unlock(s.ctx))
		}
	})
	return free
}

// available reports whether another owner gets the lock now; it releases the lock.
func (s *site) available(lock locker) bool {
	s.t.Helper()
	me := rlock.WithOwner(s.ctx, rlock.NewOwner())
	free, err := lock.TryLock(me)
	require.NoError(s.t, err)
	if free {
		require.NoError(s.t, lock.Unlock(me))
	}
	return free
}

// await returns the result of background.
func (s *site) await(result <-chan error) error {
	s.t.Helper()
	select {
	case err := <-result:
		return err
	case <-s.ctx.Done():
		require.FailNow(s.t, "the wait does not end")
		return nil
	}
}
