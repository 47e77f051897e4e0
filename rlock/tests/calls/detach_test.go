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
		hold := testbed.Take(t, w.Ctx, here.NewLock(testbed.Key), rlock.WithLease(time.Minute))
		require.NoError(t, hold.Detach(w.Ctx))

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
		hold := testbed.Take(t, me, lock, rlock.WithLease(10*time.Second))
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
		kept := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		require.ErrorIs(t, kept.Detach(w.Ctx), rlock.ErrDetach)
		assert.True(t, kept.Valid())
		require.NoError(t, kept.Release(w.Ctx))
		both := testbed.Take(t, w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.WithLease(time.Minute))
		require.ErrorIs(t, both.Detach(w.Ctx), rlock.ErrDetach)
		require.NoError(t, both.Release(w.Ctx))
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
			hold := testbed.Take(t, me, lock, rlock.WithLease(10*time.Second))
			p.Net.Rule(network.Silence)
			require.NoError(t, lock.Unlock(me)) // the lease of a minute is to be shortened, which Redis does not confirm
			gone, cancel := context.WithCancel(w.Ctx)
			cancel()
			require.ErrorIs(t, hold.Detach(gone), context.Canceled)
			require.True(t, hold.Valid(), "Detach ended the hold")
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
