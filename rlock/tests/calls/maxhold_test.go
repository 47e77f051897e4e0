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

// Holds with an end: WithMaxHold and Extend.

func TestAHungHolderLosesTheLockAfterItsMaximum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lost := make(chan rlock.LostInfo, 1)
		p, other := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Lost: func(_ context.Context, i rlock.LostInfo) { lost <- i }}
		}), w.NewClient()
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithMaxHold(time.Minute))
		require.NoError(t, err)
		assert.LessOrEqual(t, w.Remaining(testbed.Key), 30*time.Second, "if the process dies others wait for a lease only")
		began := time.Now()
		next := testbed.Start(func() error { return other.NewLock(testbed.Key).Lock(w.Caller()) })
		require.True(t, testbed.Pending(next))
		testbed.Within(t, time.Minute, time.Minute, func() { <-h.Context().Done() })
		cause := context.Cause(h.Context())
		require.ErrorIs(t, cause, rlock.ErrHeldTooLong)
		require.ErrorIs(t, cause, rlock.ErrLost)
		assert.False(t, h.Valid())
		testbed.Within(t, 0, 0, func() { require.NoError(t, <-next) })
		assert.Equal(t, time.Minute, time.Since(began))

		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), rlock.ErrHeldTooLong)
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrHeldTooLong)
		assert.Equal(t, rlock.LostHeldTooLong, (<-lost).Reason)
		assert.EqualValues(t, 1, p.Stats().LostHeldTooLong)
		assert.EqualValues(t, 1, p.Stats().Lost)
		assert.Equal(t, 1, p.Logged("level=WARN msg=\"rlock: lock lost\""))
	})
}

func TestDoEndsItsContextAfterItsMaximum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		err := p.NewLock(testbed.Key).Do(w.Ctx, func(ctx context.Context) error {
			return p.NewLock(testbed.Key).Do(ctx, func(ctx context.Context) error { // the first end counts
				<-ctx.Done()
				return context.Cause(ctx)
			}, rlock.WithMaxHold(time.Hour))
		}, rlock.WithMaxHold(time.Second))
		require.ErrorIs(t, err, rlock.ErrHeldTooLong)
		require.NoError(t, p.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing, rlock.WithMaxHold(time.Second)))
	})
}

// A dead man's switch: the hold lasts for as long as somebody says so, at no command.
func TestExtendMovesAMaximumWithoutACommand(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.Lease, c.RedissonPolls = time.Hour, rlock.RedissonPollsNever })
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithMaxHold(10*time.Second))
		require.NoError(t, err)
		sent := p.Stats().Commands
		for range 5 {
			time.Sleep(9 * time.Second)
			require.NoError(t, h.Extend(w.Ctx, 10*time.Second))
		}
		assert.Equal(t, sent, p.Stats().Commands)
		require.NoError(t, h.Extend(w.Ctx, time.Second), "sooner")
		testbed.Within(t, time.Second, time.Second, func() { <-h.Context().Done() })
		require.ErrorIs(t, context.Cause(h.Context()), rlock.ErrHeldTooLong)
	})
}

func TestExtendAsksRedisForALeaseOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsNever })
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, h.Extend(w.Ctx, 10*time.Second)) // Redis knows the script from now on
		for _, d := range []time.Duration{time.Minute, 5 * time.Second} {
			time.Sleep(time.Second)
			sent := p.Stats().Commands
			require.NoError(t, h.Extend(w.Ctx, d))
			assert.Equal(t, sent+1, p.Stats().Commands)
			assert.Equal(t, d, w.Remaining(testbed.Key))
			assert.InDelta(t, float64(d), float64(time.Until(h.ValidUntil())), float64(d)/50)
		}
		testbed.Within(t, 4*time.Second, 5*time.Second, func() { <-h.Context().Done() })
		cause := context.Cause(h.Context())
		require.ErrorIs(t, cause, rlock.ErrLost)
		require.NotErrorIs(t, cause, rlock.ErrHeldTooLong)
	})
}

func TestExtendWaitsForItsContextWhileRedisIsSilent(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		p.Net.Rule(network.Silence)
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		testbed.Within(t, time.Second, time.Second, func() { require.ErrorIs(t, h.Extend(ctx, time.Minute), context.DeadlineExceeded) })
		p.Net.Heal()
		time.Sleep(5 * time.Second)
		assert.Greater(t, w.Remaining(testbed.Key), 50*time.Second, "it is asked again")

		p.Net.Rule(network.Silence)
		testbed.Within(t, 45*time.Second, time.Minute, func() { require.ErrorIs(t, h.Extend(w.Ctx, time.Hour), rlock.ErrLost) })
	})
}

func TestAHoldWithoutAnEndIsNotExtended(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		h, err := lock.Acquire(w.Ctx)
		require.NoError(t, err)
		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), rlock.ErrInvalidLease)
		require.NoError(t, h.Release(w.Ctx))
		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), rlock.ErrNotHeld)
		for _, options := range [][]rlock.AcquireOption{
			{rlock.WithMaxHold(-time.Second)}, {rlock.WithMaxHold(time.Millisecond)},
			{rlock.WithMaxHold(time.Second), rlock.WithLease(time.Second)}, {rlock.WithLease(time.Second), rlock.WithMaxHold(time.Second)},
		} {
			_, err = lock.Acquire(w.Ctx, options...)
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
		}
		h, err = lock.Acquire(w.Ctx, rlock.WithMaxHold(time.Minute))
		require.NoError(t, err)
		for _, d := range []time.Duration{0, -time.Second, time.Millisecond} {
			require.ErrorIs(t, h.Extend(w.Ctx, d), rlock.ErrInvalidLease)
		}
		require.ErrorIs(t, h.Detach(w.Ctx), rlock.ErrDetach)
	})
}

func TestALockOverSeveralHasNoMaximum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		multi := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b"))
		_, err := multi.Acquire(w.Ctx, rlock.WithMaxHold(time.Minute))
		require.ErrorIs(t, err, errors.ErrUnsupported)
		h, err := multi.Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), errors.ErrUnsupported)
	})
}

// Each kind of one key: a maximum ends its own hold.
func TestEachKindHasAMaximum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		rw := p.NewReadWriteLock("rw")
		other, err := rw.Read().Acquire(w.Ctx)
		require.NoError(t, err)
		for _, lock := range []*rlock.Lock{p.NewFencedLock("fenced"), p.NewFairLock("fair"), p.NewSemaphore("permits", 2), rw.Read(), p.NewReadWriteLock("w").Write()} {
			h, err := lock.Acquire(w.Ctx, rlock.WithMaxHold(time.Minute), rlock.WithLinger(time.Hour))
			require.NoError(t, err)
			testbed.Within(t, time.Minute, time.Minute, func() { <-h.Context().Done() })
			require.ErrorIs(t, context.Cause(h.Context()), rlock.ErrHeldTooLong, lock.Name())
		}
		assert.True(t, other.Valid(), "another reader goes on")
	})
}

// Who resumes a lock that was passed on says for how long it is held.
func TestAMaximumIsNotPassedOn(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithMaxHold(time.Minute))
		require.NoError(t, err)
		pass, err := h.Pass(w.Ctx, time.Minute)
		require.NoError(t, err)
		h, err = other.Resume(w.Ctx, pass)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.True(t, h.Valid())
		pass, err = h.Pass(w.Ctx, time.Minute)
		require.NoError(t, err)
		h, err = p.Resume(w.Ctx, pass, rlock.WithMaxHold(time.Minute))
		require.NoError(t, err)
		testbed.Within(t, time.Minute, time.Minute, func() { <-h.Context().Done() })
	})
}
