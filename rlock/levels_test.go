package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// The section "Levels and leases" of the package comment.

func TestANestedFixedLeaseNeverShortensNorStopsTheWatchdog(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.LockFor(me, time.Second))
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			require.GreaterOrEqual(t, w.ttl(), 20*time.Second-50*time.Millisecond)
			require.Equal(t, 2, lock.HoldCount(me))
		}
		require.NoError(t, lock.Unlock(me), "a level whose own lease has ended is kept by the outer one")
		require.NoError(t, lock.Unlock(me))
	})
}

func TestANestedFixedLeaseThatIsLongerThanTheWatchdogsIsShownInRedis(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		w.settle()
		require.NoError(t, lock.LockFor(me, time.Hour))
		synctest.Wait()
		assert.Equal(t, time.Hour, w.ttl())
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Millisecond) // the pause between mirrors
		synctest.Wait()
		assert.Equal(t, 30*time.Second, w.ttl())
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAWatchdogInsideAFixedLeaseKeepsItUntilTheInnerUnlock(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		begin := time.Now()
		outer, err := lock.Acquire(me, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, lock.Lock(me))
		time.Sleep(40 * time.Second)
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, 20*time.Second, w.ttl(), float64(2*time.Millisecond), "the lease of the outer level")
		<-outer.Context().Done()
		assert.InDelta(t, time.Minute, time.Since(begin), float64(700*time.Millisecond))
		assert.Less(t, time.Since(begin), time.Minute)
		require.ErrorIs(t, outer.Release(w.ctx), rlock.ErrLost)
	})
}

func TestAFixedLeaseThatEndedInsideAWatchdogsIsLostAtTheInnerUnlock(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		outer, err := lock.Acquire(me, rlock.WithLease(time.Second))
		require.NoError(t, err)
		require.NoError(t, lock.Lock(me))
		time.Sleep(65 * time.Second) // no renewal is in flight
		assert.True(t, lock.IsHeld(me))
		assert.True(t, outer.Valid(), "the lock is kept for the longest lease of its levels")
		require.NoError(t, lock.Unlock(me))
		assert.False(t, lock.IsHeld(me))
		require.ErrorIs(t, context.Cause(outer.Context()), rlock.ErrLost)
		synctest.Wait()
		assert.Empty(t, w.keys())
		require.ErrorIs(t, outer.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, outer.Release(w.ctx), rlock.ErrNotHeld)
	})
}

func TestTheLongestOpenLevelWins(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		leases := []time.Duration{5 * time.Second, time.Hour, 10 * time.Second}
		holds := make([]*rlock.Hold, len(leases))
		for i, lease := range leases {
			var err error
			holds[i], err = lock.Acquire(me, rlock.WithLease(lease))
			require.NoError(t, err)
			w.settle()
		}
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, time.Hour, w.ttl(), float64(3*time.Millisecond))

		require.NoError(t, holds[1].Release(w.ctx), "levels may be released in any order")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, 10*time.Second, w.ttl(), float64(5*time.Millisecond))
		assert.False(t, holds[1].Valid())
		assert.True(t, holds[0].Valid())
		assert.True(t, holds[2].Valid())

		require.NoError(t, holds[0].Release(w.ctx))
		assert.Equal(t, 1, lock.HoldCount(me))
		require.NoError(t, holds[2].Release(w.ctx))
		w.drain()
		assert.Empty(t, w.keys())
		for _, h := range holds {
			require.ErrorIs(t, h.Release(w.ctx), rlock.ErrNotHeld)
			require.ErrorIs(t, context.Cause(h.Context()), rlock.ErrNotHeld)
		}
	})
}

func TestAWaiterThatIsHandedTheLockHasItsOwnLeaseFromThatMoment(t *testing.T) {
	for name, c := range map[string]struct{ former, own time.Duration }{
		"watchdog to fixed":    {0, 10 * time.Second},
		"fixed to watchdog":    {10 * time.Second, 0},
		"long to short":        {time.Hour, time.Second},
		"short to long":        {10 * time.Second, time.Hour},
		"watchdog to watchdog": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				lock, me, next := p.NewLock(key), w.caller(), w.caller()
				require.NoError(t, lock.LockFor(me, c.former))
				var hold *rlock.Hold
				result := start(func() (err error) {
					hold, err = lock.Acquire(next, rlock.WithLease(c.own))
					return err
				})
				require.True(t, pending(result))
				time.Sleep(5 * time.Second)
				handed := time.Now()
				require.NoError(t, lock.Unlock(me))
				require.NoError(t, <-result)
				assert.Empty(t, p.releases(), "the lock was not handed off")
				synctest.Wait()
				own := c.own
				if own == 0 {
					own = 30 * time.Second
				}
				assert.Equal(t, own, w.ttl(key))
				assert.False(t, hold.ValidUntil().After(handed.Add(own)))
				if c.own > 0 {
					<-hold.Context().Done()
					assert.LessOrEqual(t, time.Since(handed), own)
					assert.GreaterOrEqual(t, time.Since(handed), own-own/100-12*time.Millisecond)
					require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
					return
				}
				time.Sleep(5 * time.Minute)
				require.NoError(t, hold.Release(w.ctx))
			})
		})
	}
}

func TestAWaiterThatIsHandedTheLockTrustsOnlyWhatRedisHasConfirmed(t *testing.T) {
	eachExclusiveVirtualKind(t, func(t *testing.T, w *virtualKind) {
		if len(w.worlds)*len(w.kind.keysOf(key)) > 1 {
			return // with several parts the waiter is handed the part that it waits for
		}
		if w.kind.strict {
			return // the lock is never handed off
		}
		p := w.process()
		lock, me, first := p.lock(key), w.caller(), w.caller()
		require.NoError(t, lock.Lock(first))
		result := start(func() error { return lock.LockFor(me, 10*time.Second) })
		require.True(t, pending(result))
		begin := time.Now()
		require.NoError(t, lock.Unlock(first)) // a fenced lock has tokens for a hand-off now
		require.NoError(t, <-result)
		var hold *rlock.Hold
		result = start(func() (err error) {
			hold, err = lock.rival.Acquire(w.caller())
			return err
		})
		require.True(t, pending(result))
		time.Sleep(2 * time.Second)
		p.refuse()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-result)
		assert.True(t, hold.ValidUntil().Before(begin.Add(10*time.Second)))
		<-hold.Context().Done()
		assert.Less(t, time.Since(begin), 10*time.Second)
		p.heal()
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

func TestALevelThatIsOpenedWhileAMirrorIsTriedAgainIsMirroredToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock, me := w.client().NewLock(key), w.caller()
		require.NoError(t, lock.LockFor(me, 20*time.Second))
		w.answerScripts(passing[0])
		require.NoError(t, lock.LockFor(me, 30*time.Second))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, lock.LockFor(me, 40*time.Second))
		w.answerScripts("")
		time.Sleep(time.Second)
		assert.InDelta(t, 39*time.Second, w.ttl(key), float64(2*time.Millisecond))
		assert.Equal(t, 3, lock.HoldCount(me))
		for range 3 {
			require.NoError(t, lock.Unlock(me))
		}
	})
}
