package calls_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHoldBelongsToItsHandleAndNotToAGoroutine(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		hold, err := lock.Acquire(s.Ctx)
		require.NoError(t, err)
		assert.False(t, lock.IsHeld(s.Ctx), "the goroutine is not the owner of a Hold")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)

		second, err := lock.Rival.Acquire(s.Ctx, rlock.WithWait(0))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired, "the same goroutine must not nest in a Hold")
		assert.Nil(t, second)
		second, err = lock.Rival.Acquire(s.Ctx, rlock.WithWait(10*time.Millisecond))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Nil(t, second)

		testbed.Elsewhere(func() { assert.NoError(t, hold.Release(s.Ctx), "the handle is the right to release") })
		second, err = lock.Rival.Acquire(s.Ctx) // an abandoned ticket leaves the queue a moment later
		require.NoError(t, err)
		require.NoError(t, second.Release(s.Ctx))
	})
}

func TestAHoldIsValidUntilItIsReleased(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		const lease, drift = time.Hour, time.Hour / 50 // longer than the client's own
		lock := s.NewLock(testbed.WithLease(lease))
		before := time.Now()
		hold, err := lock.Acquire(s.Ctx)
		require.NoError(t, err)
		assert.True(t, hold.Valid())
		assert.NoError(t, context.Cause(hold.Context()))
		assert.NoError(t, hold.Context().Err())
		assert.True(t, hold.ValidUntil().After(before.Add(lease-drift)))
		assert.True(t, hold.ValidUntil().Before(time.Now().Add(lease)), "the hold must end before the lease in Redis")

		require.NoError(t, hold.Release(s.Ctx))
		<-hold.Context().Done()
		assert.False(t, hold.Valid())
		assert.Zero(t, hold.ValidUntil())
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
	})
}

func TestAHoldIsReleasedOnceOnly(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		ctx := rlock.WithOwner(s.Ctx, rlock.NewOwner())
		hold, err := lock.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, hold.Release(ctx))

		require.NoError(t, lock.Lock(ctx), "the same owner locks again")
		assert.ErrorIs(t, hold.Release(ctx), rlock.ErrNotHeld)
		assert.Equal(t, 1, lock.HoldCount(ctx))
		assert.False(t, hold.Valid())
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestAHoldsContextHasTheValuesOfTheAcquiresContextAndNotItsEnd(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		type color struct{}
		ctx, cancel := context.WithCancel(context.WithValue(s.Ctx, color{}, "red"))
		hold, err := s.NewLock().Acquire(ctx)
		require.NoError(t, err)
		cancel()
		assert.Equal(t, "red", hold.Context().Value(color{}))
		assert.NoError(t, hold.Context().Err(), "the end of the acquire's context does not end the hold")
		assert.True(t, hold.Valid())
		require.NoError(t, hold.Release(ctx))
	})
}

func TestTheHoldsOfAnOwnerNestAndAreReleasedInAnyOrder(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		ctx := rlock.WithOwner(s.Ctx, rlock.NewOwner())
		outer, err := lock.Acquire(ctx)
		require.NoError(t, err)
		inner, err := lock.Acquire(ctx, rlock.WithWait(0))
		require.NoError(t, err)
		require.NoError(t, lock.Lock(ctx))
		assert.Equal(t, 3, lock.HoldCount(ctx))

		require.NoError(t, outer.Release(ctx))
		assert.False(t, outer.Valid())
		assert.True(t, inner.Valid())
		require.NoError(t, lock.Unlock(ctx), "Unlock ends a level that was taken without a handle")
		assert.True(t, inner.Valid())
		assert.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld, "the levels that are left have handles")
		assert.False(t, s.IsFree(lock))
		require.NoError(t, inner.Release(ctx))
		assert.True(t, s.IsFree(lock))
	})
}

func TestTheContextOfAHoldEndsBeforeItsReleaseIsSent(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		hold, err := p.NewLock(testbed.Key).Acquire(me)
		require.NoError(t, err)
		w.Settle()
		p.Networks(func(n *network.Network) { n.Rule(testbed.EveryScript(network.Hold, network.Request)) })
		result := testbed.Start(func() error { return hold.Release(me) })
		require.True(t, testbed.Pending(result))
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		p.Heal()
		require.NoError(t, <-result)
	})
}
