package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHoldBelongsToItsHandleAndNotToAGoroutine(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		hold, err := lock.Acquire(s.ctx)
		require.NoError(t, err)
		assert.False(t, lock.IsHeld(s.ctx), "the goroutine is not the owner of a Hold")
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrNotHeld)

		second, err := lock.rival.Acquire(s.ctx, rlock.WithWait(0))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired, "the same goroutine must not nest in a Hold")
		assert.Nil(t, second)
		second, err = lock.rival.Acquire(s.ctx, rlock.WithWait(10*time.Millisecond))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Nil(t, second)

		elsewhere(func() { assert.NoError(t, hold.Release(s.ctx), "the handle is the right to release") })
		second, err = lock.rival.Acquire(s.ctx) // an abandoned ticket leaves the queue a moment later
		require.NoError(t, err)
		require.NoError(t, second.Release(s.ctx))
	})
}

func TestAHoldIsValidUntilItIsReleased(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		const lease, drift = time.Hour, time.Hour / 50 // longer than the client's own
		lock := s.lock(withLease(lease))
		before := time.Now()
		hold, err := lock.Acquire(s.ctx)
		require.NoError(t, err)
		assert.True(t, hold.Valid())
		assert.NoError(t, context.Cause(hold.Context()))
		assert.NoError(t, hold.Context().Err())
		assert.True(t, hold.ValidUntil().After(before.Add(lease-drift)))
		assert.True(t, hold.ValidUntil().Before(time.Now().Add(lease)), "the hold must end before the lease in Redis")

		require.NoError(t, hold.Release(s.ctx))
		<-hold.Context().Done()
		assert.False(t, hold.Valid())
		assert.Zero(t, hold.ValidUntil())
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
	})
}

func TestAHoldIsReleasedOnceOnly(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
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
	eachKind(t, func(t *testing.T, s *subject) {
		type color struct{}
		ctx, cancel := context.WithCancel(context.WithValue(s.ctx, color{}, "red"))
		hold, err := s.lock().Acquire(ctx)
		require.NoError(t, err)
		cancel()
		assert.Equal(t, "red", hold.Context().Value(color{}))
		assert.NoError(t, hold.Context().Err(), "the end of the acquire's context does not end the hold")
		assert.True(t, hold.Valid())
		require.NoError(t, hold.Release(ctx))
	})
}

func TestTheHoldsOfAnOwnerNestAndAreReleasedInAnyOrder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
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
		assert.False(t, s.isFree(lock))
		require.NoError(t, inner.Release(ctx))
		assert.True(t, s.isFree(lock))
	})
}

func TestTheContextOfAHoldEndsBeforeItsReleaseIsSent(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		hold, err := p.lock(key).Acquire(me)
		require.NoError(t, err)
		w.settle()
		p.networks(func(n *network.Network) { n.Rule(everyScript(network.Hold, network.Request)) })
		result := start(func() error { return hold.Release(me) })
		require.True(t, pending(result))
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		p.heal()
		require.NoError(t, <-result)
	})
}
