package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// When a fixed lease ends by the client's clock, the client releases the lock: no waiter
// waits for the rest of the lease in Redis, or for a watchdog's lease that a mirror left
// there.
func TestTheEndOfAFixedLeaseFreesTheLock(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other := w.process(), w.process()
		lock, me := p.lock(key), w.caller()
		begin := time.Now()
		require.NoError(t, lock.LockFor(me, 12*time.Second))
		here, there := w.caller(), w.caller()
		require.NoError(t, other.lock(key).rival.Lock(there))
		assert.Less(t, time.Since(begin), 12*time.Second, "before the key expires")
		assert.Greater(t, time.Since(begin), 10*time.Second)
		require.NoError(t, other.lock(key).rival.Unlock(there))

		require.NoError(t, lock.Lock(here))
		require.NoError(t, lock.Unlock(here))
	})
}

// Redisson: testExpire.
func TestALeaseThatEndsFreesTheLockAndIsTheHoldersLoss(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.LockFor(s.ctx, 100*time.Millisecond))
		require.NoError(t, there.rival.Lock(s.ctx), "Lock waits for the end of the lease")
		assert.False(t, here.IsHeld(s.ctx))
		assert.Zero(t, here.HoldCount(s.ctx))
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld, "a loss is reported once")
		require.NoError(t, there.rival.Unlock(s.ctx))
	})
}

func TestAHoldWithALeaseIsLostWhenTheLeaseEnds(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		hold, err := lock.Acquire(s.ctx, rlock.WithLease(100*time.Millisecond))
		require.NoError(t, err)
		<-hold.Context().Done()
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, hold.Valid())
		require.NoError(t, lock.rival.Lock(s.ctx), "another owner gets the lock")
		assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrNotHeld, "a loss is reported once")
		assert.True(t, lock.rival.IsHeld(s.ctx))
		require.NoError(t, lock.rival.Unlock(s.ctx))
	})
}

func TestLeasesHaveBounds(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		lock := p.lock(key)
		before := p.scripts()
		for _, lease := range []time.Duration{-1, -time.Hour, 1, time.Microsecond, 999 * time.Microsecond, 24 * time.Millisecond} {
			require.ErrorIs(t, lock.LockFor(me, lease), rlock.ErrInvalidLease, lease)
			_, err := lock.TryLockFor(me, time.Second, lease)
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
			_, err = lock.Acquire(me, rlock.WithLease(lease))
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
		}
		assert.Equal(t, before, p.scripts(), "no command")
		require.NoError(t, lock.LockFor(me, 25*time.Millisecond), "the shortest lease that the message names")
		w.settle()
		assert.Equal(t, 25*time.Millisecond, w.ttl())
		require.NoError(t, lock.Unlock(me))
	})
}

func TestALeaseMayLastAYear(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		needsWideNumbers(t, redistest.KindEmbedded)
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.LockFor(me, 25*time.Millisecond))
		w.settle()
		require.NoError(t, lock.LockFor(me, 365*24*time.Hour))
		synctest.Wait()
		assert.Equal(t, 365*24*time.Hour, w.ttl())
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

func TestTTLIsTheLeaseWhileHeldAndZeroWhenFree(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.kind.lingers > 0 {
			t.Skip("the key of a lock that lingers stays after Unlock")
		}
		here, there := s.lock(withLease(time.Hour)), s.lock()
		ttl := func(lock locker) time.Duration {
			d, err := lock.TTL(s.ctx)
			require.NoError(t, err)
			return d
		}
		assert.Zero(t, ttl(here))
		require.NoError(t, here.Lock(s.ctx))
		for _, lock := range []locker{here, there} {
			assert.Greater(t, ttl(lock), time.Hour-hang)
			assert.LessOrEqual(t, ttl(lock), time.Hour)
		}
		require.NoError(t, here.Unlock(s.ctx))
		assert.Zero(t, ttl(there))
	})
}

func TestTTLOfAKeyThatDoesNotExpireIsNegative(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.lock()
		require.NoError(t, lock.Lock(s.ctx))
		// The first answer over a new connection has the client renew its leases, which may be after a PERSIST.
		assert.Eventually(t, func() bool {
			persisted := s.do("PERSIST", key).Error()
			ttl, err := lock.TTL(s.ctx)
			return persisted == nil && err == nil && ttl == -1
		}, hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// Redisson: testRemainTimeToLive.
func TestALeaseDoesNotLeakIntoTheNextLock(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		require.NoError(t, lock.LockFor(s.ctx, time.Hour))
		ttl, err := lock.TTL(s.ctx)
		require.NoError(t, err)
		assert.Greater(t, ttl, time.Hour-hang)
		require.NoError(t, lock.Unlock(s.ctx))

		require.NoError(t, lock.Lock(s.ctx))
		ttl, err = lock.TTL(s.ctx)
		require.NoError(t, err)
		assert.Positive(t, ttl)
		assert.LessOrEqual(t, ttl, 30*time.Second, "the default lease of the watchdog")
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// Redisson: testRemainTimeToLive2, with leases of an hour for ten seconds.
func TestNestedUnlocksLeaveTheLeaseOfTheLevelThatIsLeft(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.lock()
		for range 3 {
			require.NoError(t, lock.LockFor(s.ctx, time.Hour))
		}
		for range 2 {
			require.NoError(t, lock.Unlock(s.ctx))
		}
		require.Eventually(t, func() bool {
			count, err := s.do("HVALS", key).AsStrSlice()
			return err == nil && len(count) == 1 && count[0] == "1"
		}, hang, time.Millisecond, "the unlocks are mirrored")
		ttl, err := lock.TTL(s.ctx)
		require.NoError(t, err)
		assert.Greater(t, ttl, time.Hour-hang)
		assert.LessOrEqual(t, ttl, time.Hour)
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

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
