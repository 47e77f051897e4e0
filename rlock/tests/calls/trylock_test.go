package calls_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTryLockForTakesTheLockWithinItsTime(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		require.NoError(t, here.Lock(s.Ctx))
		ctx, queued := testbed.Queueing(s.Ctx)
		waiter := testbed.Start(func() error {
			taken, err := there.Rival.TryLockFor(ctx, testbed.Hang, time.Hour)
			assert.True(t, taken)
			if err != nil {
				return err
			}
			// Redis shows the lease a moment later if the queue granted the lock, or if the
			// lock is compound.
			assert.Eventually(t, func() bool {
				ttl, err := there.Rival.TTL(s.Ctx)
				return err == nil && ttl > time.Hour-testbed.Hang
			}, testbed.Hang, time.Millisecond, "Redis shows the lease of the call")
			return there.Rival.Unlock(s.Ctx)
		})
		<-queued
		require.NoError(t, here.Unlock(s.Ctx))
		require.NoError(t, s.Await(waiter))

		taken, err := there.TryLockFor(s.Ctx, 0, 0)
		require.NoError(t, err)
		assert.True(t, taken, "a free lock is taken at once")
		require.NoError(t, there.Unlock(s.Ctx))
	})
}

// The wait bounds the waiting, not an attempt: a free lock is taken however short the wait
// is.
func TestTryLockForMakesOneAttemptHoweverShortTheWait(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock, me := s.NewLock(), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		for _, wait := range []time.Duration{-time.Second, 0, 1, time.Microsecond} {
			assert.Eventually(t, func() bool { // an abandoned ticket leaves the queue a moment later
				taken, err := testbed.Try(me, lock, wait, 0)
				return err == nil && taken
			}, testbed.Hang, time.Millisecond, wait)
			// On a busy machine a RedLock may take its servers for silent for a moment, and
			// returns another error.
			assert.Eventually(t, func() bool {
				hold, err := lock.Rival.Acquire(rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithWait(wait))
				assert.Nil(t, hold)
				return errors.Is(err, rlock.ErrNotAcquired)
			}, testbed.Hang, time.Millisecond, wait)
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestTryLockDoesNotPassWaiters(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, waiter, p, me := w.NewClient(), w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		waits := testbed.Start(func() error { return waiter.NewFairLock(testbed.Key).LockFor(w.Caller(), time.Second) })
		time.Sleep(50 * time.Millisecond)
		before := w.Queued()
		ok, err := p.NewFairLock(testbed.Key).TryLock(w.Caller())
		require.NoError(t, err)
		assert.False(t, ok)
		assert.Equal(t, before, w.Queued(), "TryLock left a ticket")

		w.Del(testbed.Key) // without a message to the waiter
		ok, err = p.NewFairLock(testbed.Key).TryLock(w.Caller())
		require.NoError(t, err)
		assert.False(t, ok, "the free lock belongs to the first waiter")
		require.False(t, testbed.Pending(waits))
		require.NoError(t, <-waits)
	})
}

func TestAcquireWaitsForTheTimeOfItsOption(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		const wait = time.Minute
		lock, holder := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(holder))

		began := time.Now()
		_, err := lock.Rival.Acquire(w.Caller(), rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Less(t, time.Since(began), time.Second, "one attempt")
		_, err = lock.Rival.Acquire(w.Caller(), rlock.WithWait(wait))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.GreaterOrEqual(t, time.Since(began), wait)

		taken := testbed.Waits(t, func() error {
			hold, err := lock.Rival.Acquire(w.Caller(), rlock.WithWait(wait))
			if err != nil {
				return err
			}
			return hold.Release(w.Ctx)
		})
		require.NoError(t, lock.Unlock(holder))
		require.NoError(t, <-taken)
	})
}
