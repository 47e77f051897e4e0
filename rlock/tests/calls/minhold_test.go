package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Holds whose lock stays for a time at least: WithMinHold.

func TestALockStaysForItsMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		lock, began := p.NewLock(testbed.Key), time.Now()
		h, err := lock.Acquire(w.Ctx, rlock.WithMinHold(time.Minute), rlock.WithLinger(time.Hour))
		require.NoError(t, err)
		here := testbed.Start(func() error { return lock.Do(w.Ctx, testbed.Nothing) })
		time.Sleep(10 * time.Second)
		require.NoError(t, h.Release(w.Ctx))
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrNotHeld)
		assert.Equal(t, 50*time.Second, w.Remaining(testbed.Key))
		_, err = other.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		there := testbed.Start(func() error { return other.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing) })
		require.True(t, testbed.Pending(here))
		require.NoError(t, <-here)
		require.NoError(t, <-there)
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		assert.Less(t, time.Since(began), time.Minute+3*time.Second)
		assert.EqualValues(t, 0, p.Stats().Held)
	})
}

func TestAHoldWithAMinimumTakesTwoCommands(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsNever }) // it does not ask for them
		for i := range 2 {
			time.Sleep(2 * time.Minute)
			sent := p.Stats().Commands
			require.NoError(t, p.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing, rlock.WithMinHold(time.Minute)))
			if i > 0 { // the first time Redis is sent the scripts
				assert.Equal(t, sent+2, p.Stats().Commands)
			}
		}
	})
}

func TestAHoldThatHasLastedForItsMinimumIsReleased(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		require.NoError(t, p.NewLock(testbed.Key).Do(w.Ctx, func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		}, rlock.WithMinHold(time.Minute)))
		assert.Empty(t, w.Fields(testbed.Key))
	})
}

// The lock stays after its last level, whichever that is.
func TestANestedHoldHasAMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(w.Ctx, func(ctx context.Context) error {
			return lock.Do(ctx, testbed.Nothing, rlock.WithMinHold(time.Minute))
		}))
		assert.Equal(t, time.Minute, w.Remaining(testbed.Key))
		time.Sleep(time.Minute)
		require.NoError(t, lock.Do(w.Ctx, testbed.Nothing), "a later hold has no minimum")
		assert.Empty(t, w.Fields(testbed.Key))
	})
}

func TestEachKindHasAMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		for _, lock := range []func(*rlock.Client) *rlock.Lock{
			func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock("fenced") },
			func(c *rlock.Client) *rlock.Lock { return c.NewFairLock("fair") },
			func(c *rlock.Client) *rlock.Lock { return c.NewSemaphore("permit", 1) },
			func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock("rw").Write() },
		} {
			began := time.Now()
			require.NoError(t, lock(p.Client).Do(w.Ctx, testbed.Nothing, rlock.WithMinHold(time.Minute)))
			_, err := lock(other.Client).Acquire(w.Ctx, rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired, lock(p.Client).Name())
			require.NoError(t, lock(other.Client).Do(w.Ctx, testbed.Nothing))
			assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		}
		rw := p.NewReadWriteLock("readers")
		require.NoError(t, rw.Read().Do(w.Ctx, testbed.Nothing, rlock.WithMinHold(time.Minute)))
		_, err := other.NewReadWriteLock("readers").Write().Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.NoError(t, other.NewReadWriteLock("readers").Read().Do(w.Ctx, testbed.Nothing), "readers may come")
	})
}

// A stay that Redis does not confirm becomes a release, and the caller learns that the minimum is not sure.
func TestAMinimumThatRedisDoesNotConfirmIsReleased(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithMinHold(time.Hour))
		require.NoError(t, err)
		p.Net.Rule(network.Silence)
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrUnconfirmed)
		p.Net.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.Fields(testbed.Key))
	})
}

func TestALockOverSeveralHasNoMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		_, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.Ctx, rlock.WithMinHold(time.Minute))
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

func TestAReleaseWithAWriteKeepsTheMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithMinHold(time.Minute))
		require.NoError(t, err)
		_, err = h.ReleaseWith(w.Ctx, "return redis.call('set', KEYS[1], 'x')", []string{"data"}, nil)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, w.Remaining(testbed.Key))
		assert.True(t, w.Exists("data"))
	})
}
