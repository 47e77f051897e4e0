package calls_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestADetachedLockStaysUntilItsLeaseEnds(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient().NewLock(testbed.Key)
		hold, err := here.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, hold.Detach(w.Ctx))

		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Detach(w.Ctx), rlock.ErrNotHeld)
		sent := len(here.Net.Sent("EVALSHA"))
		time.Sleep(30 * time.Second)
		assert.Len(t, here.Net.Sent("EVALSHA"), sent, "commands were sent for the detached lock")
		require.NoError(t, here.Close())
		assert.Equal(t, 30*time.Second, w.Remaining(testbed.Key), "Close released it")
		testbed.Within(t, 30*time.Second, 32*time.Second, func() { require.NoError(t, there.Lock(w.Ctx)) })
		require.NoError(t, there.Unlock(w.Ctx))
	})
}

func TestADetachedLockKeepsItsOwnProcessOut(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
		hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		waiting := testbed.Start(func() error { return lock.Lock(me) }) // a nested level
		require.NoError(t, <-waiting)
		require.ErrorIs(t, hold.Detach(w.Ctx), rlock.ErrDetach, "a nested hold")
		require.NoError(t, lock.Unlock(me))
		waiting = testbed.Start(func() error { return lock.Lock(w.Ctx) })
		synctest.Wait()
		require.NoError(t, hold.Detach(w.Ctx))
		assert.False(t, w.IsFree(lock))
		assert.Zero(t, lock.HoldCount(me))
		testbed.Within(t, 9*time.Second, 12*time.Second, func() { require.NoError(t, <-waiting) })
	})
}

func TestOnlyAHoldWithALeaseOfOneLockCanBeDetached(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		kept, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		require.ErrorIs(t, kept.Detach(w.Ctx), rlock.ErrDetach)
		assert.True(t, kept.Valid())
		require.NoError(t, kept.Release(w.Ctx))
		both, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.ErrorIs(t, both.Detach(w.Ctx), rlock.ErrDetach)
		require.NoError(t, both.Release(w.Ctx))
	})
}

// A lock that was granted by the queue has a short lease in Redis at first.
func TestDetachWaitsUntilRedisHasTheLease(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p := w.NewClient().NewLock(testbed.Key), w.NewClient()
		require.NoError(t, holder.Lock(w.Ctx))
		lock, them := p.NewLock(testbed.Key), w.Caller()
		var hold *rlock.Hold
		waiting := testbed.Start(func() (err error) {
			hold, err = lock.Acquire(them, rlock.WithLease(time.Minute))
			return err
		})
		require.True(t, testbed.Pending(waiting))
		p.Net.SetRoundTrip(100 * time.Millisecond)
		require.NoError(t, holder.Unlock(w.Ctx))
		require.NoError(t, <-waiting)
		require.Less(t, w.Remaining(testbed.Key), time.Minute, "a claim")

		gone, cancel := context.WithCancel(w.Ctx)
		cancel()
		require.ErrorIs(t, hold.Detach(gone), context.Canceled)
		require.True(t, hold.Valid(), "Detach ended the hold")
		require.NoError(t, hold.Detach(w.Ctx))
		assert.InDelta(t, time.Minute, w.Remaining(testbed.Key), float64(time.Second))
	})
}

// Else Detach could go on until the lease ends: each time that a mirror landed, the next one
// would be in flight.
func TestDetachAsksForNoMirrorWhileOneThatSaysAllIsInFlight(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(time.Second) // the server has the script of the mirrors now
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Second)
		sent := len(p.Mirrors())

		p.Net.SetRoundTrip(40 * time.Millisecond)
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, lock.Unlock(me))
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, sent+2, len(p.Mirrors()), "of the nested level, and of its end, which is in flight")
		testbed.Within(t, 0, 40*time.Millisecond, func() { require.NoError(t, hold.Detach(w.Ctx)) })
		assert.Equal(t, sent+2, len(p.Mirrors()))
	})
}

func TestDetachReturnsWhenTheHoldEndsWhileRedisIsSilent(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		for name, end := range map[string]func(p *testbed.Client, hold *rlock.Hold){
			"lost":   func(*testbed.Client, *rlock.Hold) {},
			"closed": func(p *testbed.Client, _ *rlock.Hold) { _ = p.Close() },
		} {
			p := w.NewClient()
			lock, me := p.NewLock(testbed.Key), w.Caller()
			require.NoError(t, lock.LockFor(me, time.Minute))
			hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
			require.NoError(t, err)
			p.Net.Rule(network.Silence)
			require.NoError(t, lock.Unlock(me)) // the lease of a minute is to be shortened, which Redis does not confirm
			detached := testbed.Start(func() error { return hold.Detach(w.Ctx) })
			require.True(t, testbed.Pending(detached), name)
			end(p, hold)
			testbed.Within(t, 0, 10*time.Second, func() { require.Error(t, <-detached, name) })
			require.Error(t, context.Cause(hold.Context()), name)
			p.Net.Heal()
			time.Sleep(2 * time.Minute)
		}
	})
}

// The waiter learns of its grant from the answer to a look, and detaches the lock. Its client
// goes on listening, since another waits.
func TestAMessageOfAGrantThatComesAfterDetachReleasesNothing(t *testing.T) {
	for name, other := range map[string]func([]*rlock.Client, string) testbed.Locker{"the same lock": testbed.PlainLock, "a lock of another kind": testbed.FairLock} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, holder, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
				require.NoError(t, holder.NewLock(testbed.Key).Lock(them))
				var hold *rlock.Hold
				got := testbed.Start(func() (err error) {
					hold, err = p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(time.Minute))
					return err
				})
				require.True(t, testbed.Pending(got))
				waits := testbed.Start(func() error { return other([]*rlock.Client{p.Client}, testbed.Key).Lock(me) })
				require.True(t, testbed.Pending(waits))
				time.Sleep(1500 * time.Millisecond) // it looks every two seconds
				p.Net.Rule(network.All(network.Hold, network.Push, "message"))
				require.NoError(t, holder.NewLock(testbed.Key).Unlock(them))
				require.NoError(t, <-got)
				require.NoError(t, hold.Detach(w.Ctx))
				shown := w.Fields(testbed.Key)
				p.Net.Heal()
				time.Sleep(55 * time.Second)
				assert.Equal(t, shown, w.Fields(testbed.Key), "the detached lock was released")
				require.True(t, testbed.Pending(waits))
				require.NoError(t, <-waits)
			})
		})
	}
}

// Redis drops the tickets of a client whose tenure ended without a release.
func TestADetachedLockKeepsTheOtherTicketsOfItsClient(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p, l, me := w.NewClient(), w.NewClient(testbed.Strict), &testbed.Line{World: w}, w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		var hold *rlock.Hold
		got := testbed.Start(func() (err error) {
			hold, err = p.NewFairLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(3*time.Second))
			return err
		})
		time.Sleep(50 * time.Millisecond)
		l.Join(w.NewClient(testbed.Strict))
		l.Join(p)
		l.Join(w.NewClient(testbed.Strict))
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		require.NoError(t, <-got)
		require.NoError(t, hold.Detach(w.Ctx))
		l.InOrder()
	})
}

func TestHoldsThatAreDetachedAreHeldNoLonger(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, h.Detach(w.Ctx))
		assert.Zero(t, p.Stats().Held)
	})
}
