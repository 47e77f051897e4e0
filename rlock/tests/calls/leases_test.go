package calls_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// When a fixed lease ends by the client's clock, the client releases the lock: no waiter
// waits for the rest of the lease in Redis, or for a watchdog's lease that a mirror left
// there.
func TestTheEndOfAFixedLeaseFreesTheLock(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other := w.NewProcess(), w.NewProcess()
		lock, me := p.NewLock(testbed.Key), w.Caller()
		begin := time.Now()
		require.NoError(t, lock.LockFor(me, 12*time.Second))
		here, there := w.Caller(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Rival.Lock(there))
		assert.Less(t, time.Since(begin), 12*time.Second, "before the key expires")
		assert.Greater(t, time.Since(begin), 10*time.Second)
		require.NoError(t, other.NewLock(testbed.Key).Rival.Unlock(there))

		require.NoError(t, lock.Lock(here))
		require.NoError(t, lock.Unlock(here))
	})
}

// Redisson: testExpire.
func TestALeaseThatEndsFreesTheLockAndIsTheHoldersLoss(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		require.NoError(t, here.LockFor(s.Ctx, 100*time.Millisecond))
		require.NoError(t, there.Rival.Lock(s.Ctx), "Lock waits for the end of the lease")
		assert.False(t, here.IsHeld(s.Ctx))
		assert.Zero(t, here.HoldCount(s.Ctx))
		assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrLost)
		assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld, "a loss is reported once")
		require.NoError(t, there.Rival.Unlock(s.Ctx))
	})
}

func TestAHoldWithALeaseIsLostWhenTheLeaseEnds(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		hold, err := lock.Acquire(s.Ctx, rlock.WithLease(100*time.Millisecond))
		require.NoError(t, err)
		<-hold.Context().Done()
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, hold.Valid())
		require.NoError(t, lock.Rival.Lock(s.Ctx), "another owner gets the lock")
		assert.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrLost)
		assert.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrNotHeld, "a loss is reported once")
		assert.True(t, lock.Rival.IsHeld(s.Ctx))
		require.NoError(t, lock.Rival.Unlock(s.Ctx))
	})
}

func TestLeasesHaveBounds(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		before := p.Scripts()
		for _, lease := range []time.Duration{-1, -time.Hour, 1, time.Microsecond, 999 * time.Microsecond, 24 * time.Millisecond} {
			require.ErrorIs(t, lock.LockFor(me, lease), rlock.ErrInvalidLease, lease)
			_, err := lock.TryLockFor(me, time.Second, lease)
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
			_, err = lock.Acquire(me, rlock.WithLease(lease))
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
		}
		assert.Equal(t, before, p.Scripts(), "no command")
		require.NoError(t, lock.LockFor(me, 25*time.Millisecond), "the shortest lease that the message names")
		w.Settle()
		assert.Equal(t, 25*time.Millisecond, w.Remaining())
		require.NoError(t, lock.Unlock(me))
	})
}

func TestALeaseMayLastAYear(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		testbed.NeedsWideNumbers(t, redistest.KindEmbedded)
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.LockFor(me, 25*time.Millisecond))
		w.Settle()
		require.NoError(t, lock.LockFor(me, 365*24*time.Hour))
		synctest.Wait()
		assert.Equal(t, 365*24*time.Hour, w.Remaining())
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

func TestTTLIsTheLeaseWhileHeldAndZeroWhenFree(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		if s.KindOfLock.Lingers > 0 {
			t.Skip("the key of a lock that lingers stays after Unlock")
		}
		here, there := s.NewLock(testbed.WithLease(time.Hour)), s.NewLock()
		ttl := func(lock testbed.Locker) time.Duration {
			d, err := lock.TTL(s.Ctx)
			require.NoError(t, err)
			return d
		}
		assert.Zero(t, ttl(here))
		require.NoError(t, here.Lock(s.Ctx))
		for _, lock := range []testbed.Locker{here, there} {
			assert.Greater(t, ttl(lock), time.Hour-testbed.Hang)
			assert.LessOrEqual(t, ttl(lock), time.Hour)
		}
		require.NoError(t, here.Unlock(s.Ctx))
		assert.Zero(t, ttl(there))
	})
}

func TestTTLOfAKeyThatDoesNotExpireIsNegative(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		require.NoError(t, lock.Lock(s.Ctx))
		// The first answer over a new connection has the client renew its leases, which may be after a PERSIST.
		assert.Eventually(t, func() bool {
			persisted := s.Do("PERSIST", testbed.Key).Error()
			ttl, err := lock.TTL(s.Ctx)
			return persisted == nil && err == nil && ttl == -1
		}, testbed.Hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}

// Redisson: testRemainTimeToLive.
func TestALeaseDoesNotLeakIntoTheNextLock(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		require.NoError(t, lock.LockFor(s.Ctx, time.Hour))
		ttl, err := lock.TTL(s.Ctx)
		require.NoError(t, err)
		assert.Greater(t, ttl, time.Hour-testbed.Hang)
		require.NoError(t, lock.Unlock(s.Ctx))

		require.NoError(t, lock.Lock(s.Ctx))
		ttl, err = lock.TTL(s.Ctx)
		require.NoError(t, err)
		assert.Positive(t, ttl)
		assert.LessOrEqual(t, ttl, 30*time.Second, "the default lease of the watchdog")
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}

// Redisson: testRemainTimeToLive2, with leases of an hour for ten seconds.
func TestNestedUnlocksLeaveTheLeaseOfTheLevelThatIsLeft(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		for range 3 {
			require.NoError(t, lock.LockFor(s.Ctx, time.Hour))
		}
		for range 2 {
			require.NoError(t, lock.Unlock(s.Ctx))
		}
		require.Eventually(t, func() bool {
			count, err := s.Do("HVALS", testbed.Key).AsStrSlice()
			return err == nil && len(count) == 1 && count[0] == "1"
		}, testbed.Hang, time.Millisecond, "the unlocks are mirrored")
		ttl, err := lock.TTL(s.Ctx)
		require.NoError(t, err)
		assert.Greater(t, ttl, time.Hour-testbed.Hang)
		assert.LessOrEqual(t, ttl, time.Hour)
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}

// The section "Levels and leases" of the package comment.

func TestANestedFixedLeaseNeverShortensNorStopsTheWatchdog(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.LockFor(me, time.Second))
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			require.GreaterOrEqual(t, w.Remaining(), 20*time.Second-50*time.Millisecond)
			require.Equal(t, 2, lock.HoldCount(me))
		}
		require.NoError(t, lock.Unlock(me), "a level whose own lease has ended is kept by the outer one")
		require.NoError(t, lock.Unlock(me))
	})
}

func TestANestedFixedLeaseThatIsLongerThanTheWatchdogsIsShownInRedis(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		w.Settle()
		require.NoError(t, lock.LockFor(me, time.Hour))
		synctest.Wait()
		assert.Equal(t, time.Hour, w.Remaining())
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Millisecond) // the pause between mirrors
		synctest.Wait()
		assert.Equal(t, 30*time.Second, w.Remaining())
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAWatchdogInsideAFixedLeaseKeepsItUntilTheInnerUnlock(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		begin := time.Now()
		outer, err := lock.Acquire(me, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, lock.Lock(me))
		time.Sleep(40 * time.Second)
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, 20*time.Second, w.Remaining(), float64(2*time.Millisecond), "the lease of the outer level")
		<-outer.Context().Done()
		assert.InDelta(t, time.Minute, time.Since(begin), float64(700*time.Millisecond))
		assert.Less(t, time.Since(begin), time.Minute)
		require.ErrorIs(t, outer.Release(w.Ctx), rlock.ErrLost)
	})
}

func TestAFixedLeaseThatEndedInsideAWatchdogsIsLostAtTheInnerUnlock(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
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
		assert.Empty(t, w.KeysLeft())
		require.ErrorIs(t, outer.Release(w.Ctx), rlock.ErrLost)
		require.ErrorIs(t, outer.Release(w.Ctx), rlock.ErrNotHeld)
	})
}

func TestTheLongestOpenLevelWins(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		leases := []time.Duration{5 * time.Second, time.Hour, 10 * time.Second}
		holds := make([]*rlock.Hold, len(leases))
		for i, lease := range leases {
			var err error
			holds[i], err = lock.Acquire(me, rlock.WithLease(lease))
			require.NoError(t, err)
			w.Settle()
		}
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, time.Hour, w.Remaining(), float64(3*time.Millisecond))

		require.NoError(t, holds[1].Release(w.Ctx), "levels may be released in any order")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, 10*time.Second, w.Remaining(), float64(5*time.Millisecond))
		assert.False(t, holds[1].Valid())
		assert.True(t, holds[0].Valid())
		assert.True(t, holds[2].Valid())

		require.NoError(t, holds[0].Release(w.Ctx))
		assert.Equal(t, 1, lock.HoldCount(me))
		require.NoError(t, holds[2].Release(w.Ctx))
		w.Drain()
		assert.Empty(t, w.KeysLeft())
		for _, h := range holds {
			require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrNotHeld)
			require.ErrorIs(t, context.Cause(h.Context()), rlock.ErrNotHeld)
		}
	})
}
