package calls_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One step writes and releases: the waiter that it grants the lock finds the data.
func TestAReleaseWithAScriptIsOneStep(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		hold := acquired(t, s, l)
		reply, err := hold.ReleaseWith(s.Ctx, "redis.call('set', KEYS[1], ARGV[1])\nreturn {#KEYS, #ARGV, redis.call('exists', KEYS[1])}", []string{stock}, []string{"7"})
		require.NoError(t, err)
		numbers, err := reply.AsIntSlice()
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 1, 1}, numbers, "what the script sees")
		require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrNotHeld)
		locked, err := l.IsLocked(s.Ctx)
		require.NoError(t, err)
		assert.False(t, locked)

		for _, source := range []string{"return nil", "return false", "return redis.status_reply('OK')", "return 'text'"} {
			hold = acquired(t, s, l)
			_, err = hold.ReleaseWith(s.Ctx, source, nil, nil)
			require.NoError(t, err, source)
		}
		assert.Equal(t, int64(7), s.Number("INCRBY", stock, "0"))
	})
}

// An error of the script is its caller's, and the lock is released all the same.
func TestAScriptThatFailsIsReleased(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		for how, said := range map[string]string{
			"redis.call('set', KEYS[1], 'x')\nreturn redis.error_reply('SOLD out')":      "SOLD out",
			"redis.call('set', KEYS[1], 'x')\nerror('no')":                               "no",
			"redis.call('set', KEYS[1], 'x')\nreturn redis.call('lpush', KEYS[1], 'x')":  "WRONGTYPE",
			"redis.call('set', KEYS[1], 'x')\nreturn redis.error_reply('NOSCRIPT what')": "NOSCRIPT",
			"redis.call('set', KEYS[1], 'x')\nreturn redis.error_reply('RLOCK_FENCED')":  "RLOCK_FENCED",
			"a script that no server compiles":                                           "",
		} {
			s.Do("DEL", stock)
			hold := acquired(t, s, l)
			_, err := hold.ReleaseWith(s.Ctx, how, []string{stock}, nil)
			require.ErrorContains(t, err, said, how)
			_, ok := rueidis.IsRedisErr(unwrapped(err))
			assert.True(t, ok, "%s: %v", how, err)
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

// unwrapped returns the innermost error of a chain.
func unwrapped(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = inner.Unwrap()
	}
}

// A holder that was paused past its lease, or lost the lock otherwise, writes nothing, and does no harm to the next one.
func TestAReleaseWithAScriptOfALostHoldWritesNothing(t *testing.T) {
	eachGuarding(t, func(t *testing.T, s *testbed.Site, l *rlock.Lock, stock string) {
		hold := acquired(t, s, l)
		require.NoError(t, s.Do("DEL", testbed.Key).Error())
		_, err := hold.ReleaseWith(s.Ctx, "return redis.call('set', KEYS[1], '7')", []string{stock}, nil)
		require.ErrorIs(t, err, rlock.ErrFenced)
		require.ErrorIs(t, err, rlock.ErrLost)
		assert.Zero(t, s.Number("EXISTS", stock))
		next := acquired(t, s, l)
		_, err = next.ReleaseWith(s.Ctx, "return redis.call('set', KEYS[1], '8')", []string{stock}, nil)
		require.NoError(t, err)
		assert.Equal(t, int64(8), s.Number("INCRBY", stock, "0"))
	})
}
