package rlock_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// Other programs may have changed the key, or publish on the channel: Redisson's other locks
// of the same name, other versions of it, operators with redis-cli.

func TestWhateverItsFieldsAForeignLockKeepsUsOutAndIsLeftAsItIs(t *testing.T) {
	const uuid = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11"
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.lock()
		for what, fields := range map[string][]string{
			"a thread":                  {uuid + ":7", "1"},
			"a thread three deep":       {uuid + ":7", "3"},
			"a transaction":             {uuid + ":7:c0ffee", "1"},
			"a write lock":              {"mode", "write", uuid + ":7:write", "2"},
			"two readers":               {"mode", "read", uuid + ":7", "1", uuid + ":8", "1"},
			"a UUID with our goroutine": {uuid + ":" + goroutineID(), "1"},
		} {
			s.number("HSET", key, fields...)
			s.number("PEXPIRE", key, fmt.Sprint(time.Hour.Milliseconds()))
			before, err := s.do("HGETALL", key).AsStrMap()
			require.NoError(t, err)

			taken, err := lock.TryLock(s.ctx)
			require.NoError(t, err, what)
			assert.False(t, taken, what)
			assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrNotHeld, what)
			assert.Zero(t, lock.HoldCount(s.ctx), what)
			locked, err := lock.IsLocked(s.ctx)
			require.NoError(t, err)
			assert.True(t, locked, what)

			after, err := s.do("HGETALL", key).AsStrMap()
			require.NoError(t, err)
			assert.Equal(t, before, after, what)
			assert.Greater(t, s.number("PTTL", key), (time.Hour - hang).Milliseconds(), what)
			s.number("DEL", key)
		}
	})
}

// The name of a lock is a key, which may belong to another program.
func TestAKeyWithOtherDataIsRefusedByEachKindAndLeftAsItIs(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client()
		rw := client.NewReadWriteLock(key)
		locks := map[string]*rlock.Lock{
			"plain": client.NewLock(key), "fenced": client.NewFencedLock(key), "fair": client.NewFairLock(key),
			"read": rw.Read(), "write": rw.Write(), "semaphore": client.NewSemaphore(key, 3),
		}
		for what, data := range map[string]struct{ write, read []string }{
			"a string":                          {[]string{"SET", "precious"}, []string{"GET"}},
			"a list":                            {[]string{"RPUSH", "precious"}, []string{"LRANGE", "0", "-1"}},
			"a hash":                            {[]string{"HSET", "status", "new"}, []string{"HGETALL"}},
			"a hash with a mode":                {[]string{"HSET", "mode", "read", "retries", "5"}, []string{"HGETALL"}},
			"a hash with another mode":          {[]string{"HSET", "retries", "5", "mode", "write"}, []string{"HGETALL"}},
			"a hash of a mode alone":            {[]string{"HSET", "mode", "read"}, []string{"HGETALL"}},
			"a sorted set, by the past":         {[]string{"ZADD", "10", "alice", "20", "bob"}, []string{"ZRANGE", "0", "-1", "WITHSCORES"}},
			"a sorted set, by the time to come": {[]string{"ZADD", "9999999999999", "alice"}, []string{"ZRANGE", "0", "-1", "WITHSCORES"}},
		} {
			require.NoError(t, s.do(data.write[0], key, data.write[1:]...).Error())
			read := func() any {
				reply, err := s.do(data.read[0], key, data.read[1:]...).ToAny()
				require.NoError(t, err)
				return reply
			}
			before := read()
			for kind, lock := range locks {
				require.ErrorIs(t, lock.Lock(s.ctx), rlock.ErrWrongType, "%s, %s", what, kind)
				_, err := lock.TryLock(s.ctx)
				require.ErrorIs(t, err, rlock.ErrWrongType, "%s, %s", what, kind)
				_, err = lock.ForceUnlock(s.ctx)
				require.ErrorIs(t, err, rlock.ErrWrongType, "%s, %s", what, kind)
				require.Equal(t, before, read(), "%s, %s", what, kind)
				require.EqualValues(t, -1, s.number("PTTL", key), "%s, %s", what, kind)
			}
			s.number("DEL", key)
		}
		require.NoError(t, client.Close(), "nothing of the locks is to be released")
	})
}

// A hash may say that a reader has the lock a hundred million times. A release does not look as
// many keys up.
func TestAReaderThatReadsTooOftenBlocksNoServer(t *testing.T) {
	const java = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		lock := s.client().NewReadWriteLock(key).Read()
		s.number("HSET", key, "mode", "read", java, "100000000")
		s.number("PEXPIRE", key, "3600000")
		require.NoError(t, lock.Lock(s.ctx))
		calls := server.CountCalls(t, func() { require.NoError(t, lock.Unlock(s.ctx)) })
		assert.Less(t, calls["pttl"]+calls["del"], int64(1100))
		assert.EqualValues(t, 1, s.number("HEXISTS", key, java), "it goes on reading")
		assert.Positive(t, s.number("PTTL", key))
		s.number("DEL", key)
	})
}

// Redisson waits for such a key without bound.
func TestAForeignKeyWithoutALeaseIsLookedAtEveryTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		w.HSet(key, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", "1")
		waiter := start(func() error { return lock.Lock(me) })
		require.True(t, pending(waiter))
		time.Sleep(time.Minute)
		w.Del(key)
		// Clients of Redisson that cannot be counted may have a turn first.
		within(t, 0, 2200*time.Millisecond, func() { require.NoError(t, <-waiter) })
		require.NoError(t, lock.Unlock(me))
	})
}

// Redisson's write lock publishes a 1, and Java waiters fail on a message that is not a
// number.
func TestAMessageThatIsNoReleaseIsHarmless(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		w.HSet(key, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", "1")
		w.SetTTL(key, time.Hour)
		waiter := start(func() error { return lock.Lock(me) })
		require.True(t, pending(waiter))
		for _, message := range []string{"1", "0", "-7", "", "no number"} {
			w.Publish(channel, message)
			require.True(t, pending(waiter))
		}
		w.Del(key)
		w.Publish(channel, "0")
		within(t, 0, 0, func() { require.NoError(t, <-waiter) })
		require.NoError(t, lock.Unlock(me))
	})
}

// Redisson's AUTO mode asks with SHARDNUMSUB. The answer is that of Redis 6.
func TestInAClusterThatHasNoShardedPubSubItIsPlain(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	old := network.All(network.Replace("-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP.\r\n"), network.Reply, "PUBSUB")
	option := s.Options()
	option.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		n := network.New(func() (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
		n.Rule(old)
		t.Cleanup(n.Close)
		return n.Dial(ctx, addr, dialer, nil)
	}
	oldServer := func(c *rlock.Config) { c.Redis = option }
	s.wakes(s.client(oldServer), s.client(oldServer), plain)
	_, err := rlock.New(rlock.Config{Redis: option, PubSub: rlock.PubSubSharded})
	assert.ErrorIs(t, err, rlock.ErrUnsupported)
}

// In Redisson the UUID stands for a process, and another thread of it may hold the lock by
// now.
func TestAForceUnlockThatArrivesTooLateLeavesALaterHolderOfTheSameRedisson(t *testing.T) {
	const process, mine = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11", "4ea0a2a4-6f6f-8f7c-9d5c-2d8a3f9f1b11"
	holds := map[string]func(owner string) []string{
		"":      func(owner string) []string { return []string{owner, "3"} },
		"read":  func(owner string) []string { return []string{"mode", "read", owner, "2"} },
		"write": func(owner string) []string { return []string{"mode", "write", owner + ":write", "1", owner, "1"} },
	}
	for name, test := range map[string]struct {
		lock func(c *rlock.Client) locker
		mode string
	}{
		"plain": {func(c *rlock.Client) locker { return c.NewLock(key) }, ""},
		"fair":  {func(c *rlock.Client) locker { return c.NewFairLock(key) }, ""},
		"read":  {func(c *rlock.Client) locker { return c.NewReadWriteLock(key).Read() }, "read"},
		"write": {func(c *rlock.Client) locker { return c.NewReadWriteLock(key).Write() }, "write"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				lock := test.lock(p.Client)
				set := func(owner string) {
					w.Del(key)
					w.HSet(key, holds[test.mode](owner)...)
					w.SetTTL(key, time.Hour)
				}
				force := func(then string) bool {
					p.net.Rule(network.All(network.Hold, network.Request, "EVALSHA"))
					freed := false
					result := start(func() (err error) { freed, err = lock.ForceUnlock(w.ctx); return err })
					require.True(t, pending(result))
					set(then)
					p.net.Heal()
					require.NoError(t, <-result)
					return freed
				}
				set(process + ":7") // the server learns the script
				freed, err := lock.ForceUnlock(w.ctx)
				require.NoError(t, err)
				require.True(t, freed)
				require.Empty(t, w.fields(key))

				set(process + ":7")
				assert.False(t, force(process+":8"))
				assert.Len(t, w.fields(key), len(holds[test.mode](""))/2)
				assert.True(t, force(process+":8"), "the owner is the holder that was found")
				assert.Empty(t, w.fields(key))

				set(mine + ":7")
				assert.True(t, force(mine+":8"), "a tenure of rlock stays the same after a hand-off")
				assert.Empty(t, w.fields(key))
			})
		})
	}
}

// A subscriber has come before the ticket. The next turn would come at once only if this one was used, for
// which a busy machine may be too slow.
func TestALockIsLeftToASubscriberOfRedissonBeforeATicketThatCameLater(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client().NewLock(key), s.client().NewLock(key)
		require.NoError(t, here.Lock(s.ctx))
		l := s.listen(s.family(), channel)
		waiter := background(func() error { return there.Do(s.ctx, nothing) })
		s.awaitWaiters(1, key)
		require.Empty(t, l.heard())
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, s.await(waiter))
		require.Equal(t, []string{"00", "00"}, l.heard(), "that their turn begins, and that the lock is free again")
	})
}
