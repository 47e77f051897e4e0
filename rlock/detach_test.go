package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestADetachedLockStaysUntilItsLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client().NewLock(key)
		hold, err := here.NewLock(key).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, hold.Detach(w.ctx))

		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Detach(w.ctx), rlock.ErrNotHeld)
		sent := len(here.net.Sent("EVALSHA"))
		time.Sleep(30 * time.Second)
		assert.Len(t, here.net.Sent("EVALSHA"), sent, "commands were sent for the detached lock")
		require.NoError(t, here.Close())
		assert.Equal(t, 30*time.Second, w.ttl(key), "Close released it")
		within(t, 30*time.Second, 32*time.Second, func() { require.NoError(t, there.Lock(w.ctx)) })
		require.NoError(t, there.Unlock(w.ctx))
	})
}

func TestADetachedLockKeepsItsOwnProcessOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock, me := w.client().NewLock(key), w.caller()
		hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		waiting := start(func() error { return lock.Lock(me) }) // a nested level
		require.NoError(t, <-waiting)
		require.ErrorIs(t, hold.Detach(w.ctx), rlock.ErrDetach, "a nested hold")
		require.NoError(t, lock.Unlock(me))
		waiting = start(func() error { return lock.Lock(w.ctx) })
		synctest.Wait()
		require.NoError(t, hold.Detach(w.ctx))
		assert.False(t, w.try(lock))
		assert.Zero(t, lock.HoldCount(me))
		within(t, 9*time.Second, 12*time.Second, func() { require.NoError(t, <-waiting) })
	})
}

func TestOnlyAHoldWithALeaseOfOneLockCanBeDetached(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		kept, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		require.ErrorIs(t, kept.Detach(w.ctx), rlock.ErrDetach)
		assert.True(t, kept.Valid())
		require.NoError(t, kept.Release(w.ctx))
		both, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.ErrorIs(t, both.Detach(w.ctx), rlock.ErrDetach)
		require.NoError(t, both.Release(w.ctx))
	})
}

// A lock that was granted by the queue has a short lease in Redis at first.
func TestDetachWaitsUntilRedisHasTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p := w.client().NewLock(key), w.client()
		require.NoError(t, holder.Lock(w.ctx))
		lock, them := p.NewLock(key), w.caller()
		var hold *rlock.Hold
		waiting := start(func() (err error) {
			hold, err = lock.Acquire(them, rlock.WithLease(time.Minute))
			return err
		})
		require.True(t, pending(waiting))
		p.net.SetRoundTrip(100 * time.Millisecond)
		require.NoError(t, holder.Unlock(w.ctx))
		require.NoError(t, <-waiting)
		require.Less(t, w.ttl(key), time.Minute, "a claim")

		gone, cancel := context.WithCancel(w.ctx)
		cancel()
		require.ErrorIs(t, hold.Detach(gone), context.Canceled)
		require.True(t, hold.Valid(), "Detach ended the hold")
		require.NoError(t, hold.Detach(w.ctx))
		assert.InDelta(t, time.Minute, w.ttl(key), float64(time.Second))
	})
}

// Else Detach could go on until the lease ends: each time that a mirror landed, the next one
// would be in flight.
func TestDetachAsksForNoMirrorWhileOneThatSaysAllIsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(time.Second) // the server has the script of the mirrors now
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Second)
		sent := len(p.mirrors())

		p.net.SetRoundTrip(40 * time.Millisecond)
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, lock.Unlock(me))
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, sent+2, len(p.mirrors()), "of the nested level, and of its end, which is in flight")
		within(t, 0, 40*time.Millisecond, func() { require.NoError(t, hold.Detach(w.ctx)) })
		assert.Equal(t, sent+2, len(p.mirrors()))
	})
}

func TestDetachReturnsWhenTheHoldEndsWhileRedisIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for name, end := range map[string]func(p *testClient, hold *rlock.Hold){
			"lost":   func(*testClient, *rlock.Hold) {},
			"closed": func(p *testClient, _ *rlock.Hold) { _ = p.Close() },
		} {
			p := w.client()
			lock, me := p.NewLock(key), w.caller()
			require.NoError(t, lock.LockFor(me, time.Minute))
			hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
			require.NoError(t, err)
			p.net.Rule(network.Silence)
			require.NoError(t, lock.Unlock(me)) // the lease of a minute is to be shortened, which Redis does not confirm
			detached := start(func() error { return hold.Detach(w.ctx) })
			require.True(t, pending(detached), name)
			end(p, hold)
			within(t, 0, 10*time.Second, func() { require.Error(t, <-detached, name) })
			require.Error(t, context.Cause(hold.Context()), name)
			p.net.Heal()
			time.Sleep(2 * time.Minute)
		}
	})
}

// The waiter learns of its grant from the answer to a look, and detaches the lock. Its client
// goes on listening, since another waits.
func TestAMessageOfAGrantThatComesAfterDetachReleasesNothing(t *testing.T) {
	for name, other := range map[string]func([]*rlock.Client, string) locker{"the same lock": plainLock, "a lock of another kind": fairLock} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, holder, me, them := w.client(), w.client(), w.caller(), w.caller()
				require.NoError(t, holder.NewLock(key).Lock(them))
				var hold *rlock.Hold
				got := start(func() (err error) {
					hold, err = p.NewLock(key).Acquire(w.ctx, rlock.WithLease(time.Minute))
					return err
				})
				require.True(t, pending(got))
				waits := start(func() error { return other([]*rlock.Client{p.Client}, key).Lock(me) })
				require.True(t, pending(waits))
				time.Sleep(1500 * time.Millisecond) // it looks every two seconds
				p.net.Rule(network.All(network.Hold, network.Push, "message"))
				require.NoError(t, holder.NewLock(key).Unlock(them))
				require.NoError(t, <-got)
				require.NoError(t, hold.Detach(w.ctx))
				shown := w.fields(key)
				p.net.Heal()
				time.Sleep(55 * time.Second)
				assert.Equal(t, shown, w.fields(key), "the detached lock was released")
				require.True(t, pending(waits))
				require.NoError(t, <-waits)
			})
		})
	}
}

// Redis drops the tickets of a client whose tenure ended without a release.
func TestADetachedLockKeepsTheOtherTicketsOfItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, l, me := w.client(), w.client(strict), &line{world: w}, w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		var hold *rlock.Hold
		got := start(func() (err error) {
			hold, err = p.NewFairLock(key).Acquire(w.ctx, rlock.WithLease(3*time.Second))
			return err
		})
		time.Sleep(50 * time.Millisecond)
		l.join(w.client(strict))
		l.join(p)
		l.join(w.client(strict))
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		require.NoError(t, <-got)
		require.NoError(t, hold.Detach(w.ctx))
		l.inOrder()
	})
}

func TestHoldsThatAreDetachedAreHeldNoLonger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		h, err := p.NewLock(key).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, h.Detach(w.ctx))
		assert.Zero(t, p.Stats().Held)
	})
}
