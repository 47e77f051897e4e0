package calls_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
		assert.False(t, lock.IsHeld(me))
		assert.Zero(t, lock.HoldCount(me))
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld, "a loss is reported once")

		require.NoError(t, lock.Do(here, testbed.Nothing))
	})
}

func TestLeasesHaveBounds(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		before := p.Scripts()
		for _, lease := range []time.Duration{-1, -time.Hour, 1, time.Microsecond, 999 * time.Microsecond, 24 * time.Millisecond} {
			require.ErrorIs(t, lock.LockFor(me, lease), rlock.ErrInvalidLease, lease)
			require.ErrorIs(t, testbed.ErrorOf(lock.TryLockFor(me, time.Second, lease)), rlock.ErrInvalidLease)
			require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(me, rlock.WithLease(lease))), rlock.ErrInvalidLease)
		}
		assert.Equal(t, before, p.Scripts(), "no command")
		require.NoError(t, lock.LockFor(me, 25*time.Millisecond), "the shortest lease that the message names")
		w.Settle()
		assert.Equal(t, 25*time.Millisecond, w.Remaining())
		require.NoError(t, lock.Unlock(me))
	})
}

// Redisson: testRemainTimeToLive.
func TestTTLIsTheLeaseWhileHeldAndZeroWhenFree(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		ttl := func(lock testbed.Locker) time.Duration {
			d, err := lock.TTL(s.Ctx)
			require.NoError(t, err)
			return d
		}
		assert.Zero(t, ttl(here))
		require.NoError(t, here.LockFor(s.Ctx, time.Hour))
		for _, lock := range []testbed.Locker{here, there} {
			assert.Greater(t, ttl(lock), time.Hour-testbed.Hang)
			assert.LessOrEqual(t, ttl(lock), time.Hour)
		}
		require.NoError(t, here.Unlock(s.Ctx))
		assert.Zero(t, ttl(there))
		require.NoError(t, here.Lock(s.Ctx))
		assert.Positive(t, ttl(there))
		assert.LessOrEqual(t, ttl(there), 30*time.Second, "the default lease of the watchdog: no lease leaks into the next lock")
		require.NoError(t, here.Unlock(s.Ctx))
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

// The section "Levels and leases" of the package comment.

func TestANestedFixedLeaseNeverShortensNorStopsTheWatchdog(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.LockFor(me, time.Second))
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			require.GreaterOrEqual(t, w.Remaining(), 20*time.Second-50*time.Millisecond)
			require.Equal(t, 2, lock.HoldCount(me))
		}
		require.NoError(t, lock.Unlock(me), "a level whose own lease has ended is kept by the outer one")
		require.NoError(t, lock.Unlock(me))
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
