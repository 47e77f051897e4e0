package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eachGuarding runs the test for each kind on a server of each sort.
func eachGuarding(t *testing.T, run func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string)) {
	redistest.Over(t, testbed.OneOrMany, func(t *testing.T, server *redistest.Server) {
		for name, lock := range testbed.LocksOf() {
			t.Run(name, func(t *testing.T) {
				s := testbed.At(t, server)
				l := lock(s.NewClient())
				stock := l.Key("stock")
				t.Cleanup(func() { s.Do("DEL", stock) })
				run(t, s, l, stock)
			})
		}
	})
}

func TestAGuardedWriteIsExecutedWhileItsHoldHasTheLock(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		hold := testbed.Take(t, s.Ctx, l)
		replies, err := hold.Write(s.Ctx, []string{stock}, []string{"SET", stock, "7"}, []string{"GET", stock}, nil)
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		require.Empty(t, replies)
		replies, err = hold.Write(s.Ctx, []string{stock}, []string{"SET", stock, "7"}, []string{"INCRBY", stock, "-2"}, []string{"GET", stock})
		require.NoError(t, err)
		require.Len(t, replies, 3)
		got, err := replies[2].ToString()
		require.NoError(t, err)
		assert.Equal(t, "5", got)
		reply, err := hold.Exec(s.Ctx, "#!lua\nlocal left = redis.call('incrby', KEYS[1], ARGV[1])\nreturn {left, #KEYS, #ARGV}", []string{stock}, []string{"-1"})
		if err != nil { // a server of before Redis 7
			reply, err = hold.Exec(s.Ctx, "local left = redis.call('incrby', KEYS[1], ARGV[1])\nreturn {left, #KEYS, #ARGV}", []string{stock}, []string{"-1"})
		}
		require.NoError(t, err)
		numbers, err := reply.AsIntSlice()
		require.NoError(t, err)
		assert.Equal(t, []int64{4, 1, 1}, numbers, "what the script sees")
		reply, err = hold.Exec(s.Ctx, "return nil", nil, nil)
		require.NoError(t, err)
		assert.True(t, reply.IsNil())
		require.NoError(t, hold.Release(s.Ctx))

		_, err = hold.Write(s.Ctx, []string{stock}, []string{"SET", stock, "late"})
		require.ErrorIs(t, err, rlock.ErrFenced)
		require.ErrorIs(t, err, rlock.ErrNotHeld, "it was released")
		assert.Equal(t, int64(4), s.Number("INCRBY", stock, "0"))
	})
}

// A holder that was paused past its lease, or lost the lock otherwise, writes nothing, and does no
// harm to the next one.
func TestAGuardedWriteOfALostHoldWritesNothingAndTellsTheLoss(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		const set = "return redis.call('set', KEYS[1], '7')"
		for what, write := range map[string]func(*rlock.Hold) error{
			"Write": func(h *rlock.Hold) error {
				return testbed.ErrorOf(h.Write(s.Ctx, []string{stock}, []string{"SET", stock, "7"}))
			},
			"Exec":        func(h *rlock.Hold) error { return testbed.ErrorOf(h.Exec(s.Ctx, set, []string{stock}, nil)) },
			"ReleaseWith": func(h *rlock.Hold) error { return testbed.ErrorOf(h.ReleaseWith(s.Ctx, set, []string{stock}, nil)) },
		} {
			hold := testbed.Take(t, s.Ctx, l)
			require.NoError(t, s.Do("DEL", testbed.Key).Error())
			err := write(hold)
			require.ErrorIs(t, err, rlock.ErrFenced, what)
			require.ErrorIs(t, err, rlock.ErrLost, what)
			if what != "ReleaseWith" {
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost, "at once")
				require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrLost)
			}
			hold = testbed.Take(t, s.Ctx, l) // another program's data is in the place of the lock
			require.NoError(t, s.Do("DEL", testbed.Key).Error())
			require.NoError(t, s.Do("SET", testbed.Key, "data").Error())
			require.ErrorIs(t, write(hold), rlock.ErrFenced, what)
			assert.Zero(t, s.Number("EXISTS", stock), what)
			require.NoError(t, s.Do("DEL", testbed.Key).Error())
		}
		next := testbed.Take(t, s.Ctx, l)
		require.NoError(t, testbed.ErrorOf(next.ReleaseWith(s.Ctx, set, []string{stock}, nil)))
		assert.Equal(t, int64(7), s.Number("INCRBY", stock, "0"))
	})
}

// The result or the error of a script is taken neither for an answer of the guard, nor for a
// server's answer that the script was not executed. After an error the hold goes on.
func TestAScriptIsExecutedOnceWhateverErrorItReturns(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		hold := testbed.Take(t, s.Ctx, l)
		ran := int64(0)
		for _, said := range []string{"SOLD out", "RLOCK_FENCED", "RLOCK_FENCED the lock has another holder", "ERR NOSCRIPT x", "NOSCRIPT No matching script.", "-MOVED 1 127.0.0.1:1", "MOVED 1 127.0.0.1:1",
			"ASK 1 127.0.0.1:1", "TRYAGAIN x", "CLUSTERDOWN x", "LOADING x", "REDIRECT 127.0.0.1:1"} {
			for _, how := range []string{"return redis.error_reply(ARGV[1])", "return {err = ARGV[1]}", "error(ARGV[1], 0)", "error(ARGV[1])", "error({err = ARGV[1]})"} {
				_, err := hold.Exec(s.Ctx, "redis.call('incr', KEYS[1])\n"+how, []string{stock}, []string{said})
				ran++
				require.Error(t, err, "%s: %s", said, how)
				assert.NotErrorIs(t, err, rlock.ErrFenced, "%s: %s", said, how)
				assert.NotErrorIs(t, err, rlock.ErrUnconfirmed, "%s: %s", said, how)
				require.Equal(t, ran, s.Number("INCRBY", stock, "0"), "%s: %s", said, how)
				if refused, ok := rueidis.IsRedisErr(err); ran == 1 {
					require.True(t, ok, err)
					assert.Equal(t, said, refused.Error())
				}
			}
		}
		replies, err := hold.Write(s.Ctx, []string{stock}, []string{"SET", stock, "7"}, []string{"LPUSH", stock, "x"}, []string{"SET", stock, "8"})
		require.ErrorContains(t, err, "command 2 of 3, LPUSH")
		require.ErrorContains(t, err, "WRONGTYPE")
		assert.Len(t, replies, 1)
		assert.Equal(t, int64(7), s.Number("INCRBY", stock, "0"))
		require.NoError(t, context.Cause(hold.Context()))
		require.NoError(t, hold.Release(s.Ctx))
	})
}

// A guarded write names the keys of its commands, on one server and in a Cluster, and none of them
// may be a key of a lock.
func TestTheKeysOfAGuardedWrite(t *testing.T) {
	redistest.Over(t, testbed.OneOrMany, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		l, tagged := s.NewLock(), s.NewClient().NewLock("lock:{orders:42}")
		hold, of := testbed.Take(t, s.Ctx, l), testbed.Take(t, s.Ctx, tagged)
		set := func(hold *rlock.Hold, keys []string, commands ...[]string) error {
			return testbed.ErrorOf(hold.Write(s.Ctx, keys, commands...))
		}
		for _, err := range []error{
			set(of, nil), set(of, []string{"orders:42"}), set(of, nil, []string{"SET", "orders:42", "7"}),
			set(of, []string{"orders:42"}, []string{"GET", "orders:42"}, []string{"SET", "{orders:42}:b", "7"}),
		} {
			require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		}
		require.NoError(t, set(of, nil, []string{"publish", "orders", "7"}))
		require.NoError(t, of.Release(s.Ctx))
		for _, k := range []string{testbed.Key, "rlock_queue:{" + testbed.Key + "}", "redisson_lock_queue:{" + testbed.Key + "}", ""} {
			require.ErrorIs(t, set(hold, []string{k}, []string{"SET", k, "7"}), rlock.ErrInvalidName, k)
		}
		err := set(hold, []string{"stock"}, []string{"SET", "stock", "7"})
		if server.Kind == redistest.KindCluster {
			require.ErrorIs(t, err, rlock.ErrInvalidName)
			require.ErrorContains(t, err, l.Key("stock"))
			require.ErrorContains(t, err, "lock:{stock}")
		} else {
			require.NoError(t, err)
			s.Do("DEL", "stock")
		}
		require.NoError(t, hold.Release(s.Ctx))
	})
}

// One step writes and releases: the waiter that it grants the lock finds the data.
func TestAReleaseWithAScriptIsOneStep(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		hold := testbed.Take(t, s.Ctx, l)
		reply, err := hold.ReleaseWith(s.Ctx, "redis.call('set', KEYS[1], ARGV[1])\nreturn {#KEYS, #ARGV, redis.call('exists', KEYS[1])}", []string{stock}, []string{"7"})
		require.NoError(t, err)
		numbers, err := reply.AsIntSlice()
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 1, 1}, numbers, "what the script sees")
		require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrNotHeld)
		assert.False(t, testbed.IsLocked(t, s.Ctx, l))

		for _, source := range []string{"return nil", "return false", "return redis.status_reply('OK')", "return 'text'"} {
			hold = testbed.Take(t, s.Ctx, l)
			require.NoError(t, testbed.ErrorOf(hold.ReleaseWith(s.Ctx, source, nil, nil)), source)
		}
		assert.Equal(t, int64(7), s.Number("INCRBY", stock, "0"))
	})
}

// An error of the script is its caller's, and the lock is released all the same.
func TestAScriptThatFailsIsReleased(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		for _, c := range [][2]string{
			{"redis.call('set', KEYS[1], 'x')\nreturn redis.error_reply('SOLD out')", "SOLD out"},
			{"redis.call('set', KEYS[1], 'x')\nerror('no')", "no"},
			{"redis.call('set', KEYS[1], 'x')\nreturn redis.call('lpush', KEYS[1], 'x')", "WRONGTYPE"},
			{"redis.call('set', KEYS[1], 'x')\nreturn redis.error_reply('NOSCRIPT what')", "NOSCRIPT"},
			{"redis.call('set', KEYS[1], 'x')\nreturn redis.error_reply('RLOCK_FENCED')", "RLOCK_FENCED"},
			// The next hold waits for the release by the keeper, and after it this client's holds begin
			// with a claim of half a second, which ends on a busy machine.
			{"a script that no server compiles", ""},
		} {
			how, said := c[0], c[1]
			s.Do("DEL", stock)
			hold := testbed.Take(t, s.Ctx, l)
			_, err := hold.ReleaseWith(s.Ctx, how, []string{stock}, nil)
			require.ErrorContains(t, err, said, how)
			assert.ErrorAs(t, err, new(*rueidis.RedisError), how)
			require.NotErrorIs(t, err, rlock.ErrFenced, how)
			if said != "" {
				require.NotErrorIs(t, err, rlock.ErrUnconfirmed, how)
				assert.Equal(t, int64(1), s.Number("EXISTS", stock), how)
			}
			next, err := l.Acquire(s.Ctx, rlock.WithWait(10*time.Second))
			require.NoError(t, err, how)
			require.NoError(t, next.Release(s.Ctx))
		}
	})
}

func TestKindsWithoutAnswers(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient()
		for name, l := range map[string]*rlock.Lock{
			"read": c.NewReadWriteLock("a").Read(), "write": c.NewReadWriteLock("a").Write(), "semaphore": c.NewSemaphore("b", 2),
			"multi": rlock.NewMultiLock(c.NewLock("d"), c.NewLock("e")),
		} {
			_, err := l.Acquire(w.Ctx, contract.WithAnswer(new(contract.Answer)))
			assert.ErrorIs(t, err, errors.ErrUnsupported, name)
		}
		of := contract.Answer{Unless: "return 1", Keys: []string{testbed.Key}}
		require.ErrorIs(t, testbed.ErrorOf(c.NewLock(testbed.Key).Acquire(w.Ctx, contract.WithAnswer(&of))), rlock.ErrInvalidName, "a condition may not have the keys of locks")
	})
}
