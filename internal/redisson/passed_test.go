package redisson_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// A lock that Go has passed on belongs to no thread of Java: Redisson sees a lock of another client with a lease.

func TestALockThatIsPassedOnIsHeldToRedisson(t *testing.T) {
	withBoth(t, setting{lease: 3 * time.Second}, func(s *scene) {
		java := s.thread("one")
		passed := func(within time.Duration) (lock, pass string) {
			lock = s.fresh()
			hold, err := s.client.NewLock(lock).Acquire(s.ctx)
			require.NoError(s.t, err)
			pass, err = hold.Pass(s.ctx, within)
			require.NoError(s.t, err)
			return lock, pass
		}
		refused := func(lock string, within time.Duration) {
			s.t.Helper()
			gives(s.t, true)(java.IsLocked(lock))
			gives(s.t, false)(java.IsHeld(lock))
			left, err := java.TTL(lock)
			require.NoError(s.t, err)
			assert.Positive(s.t, left)
			assert.LessOrEqual(s.t, left, within)
			gives(s.t, false)(java.TryLock(lock, 0, 0))
			assert.True(s.t, notHeld(java.Unlock(lock)))
		}

		lock, pass := passed(time.Minute)
		refused(lock, time.Minute)
		left, err := java.TTL(lock)
		require.NoError(s.t, err)
		assert.Greater(s.t, left, 3*time.Second, "the time of the pass, and not the lease of before")
		hold, err := s.client.Resume(s.ctx, pass)
		require.NoError(s.t, err)
		refused(lock, 3*time.Second)
		gives(s.t, true)(java.ForceUnlock(lock))
		select {
		case <-hold.Context().Done(): // with the next renewal
			require.ErrorIs(s.t, context.Cause(hold.Context()), rlock.ErrLost)
		case <-s.ctx.Done():
			require.NoError(s.t, s.ctx.Err())
		}
		require.ErrorIs(s.t, hold.Release(s.ctx), rlock.ErrLost)

		lock, pass = passed(time.Minute)
		waiter := s.start(func() error { return java.Lock(lock, 0) })
		s.awaitAsleep(java, lock)
		gives(s.t, true)(s.thread("two").ForceUnlock(lock))
		waiter.succeeds()
		_, err = s.client.Resume(s.ctx, pass)
		require.ErrorIs(s.t, err, rlock.ErrNotPassed)
		require.NoError(s.t, java.Unlock(lock))

		lock, pass = passed(time.Second)
		require.NoError(s.t, java.Lock(lock, 0), "its time is over")
		_, err = s.client.Resume(s.ctx, pass)
		require.ErrorIs(s.t, err, rlock.ErrNotPassed)
		require.NoError(s.t, java.Unlock(lock))
	})
}

// A thread that waits has read a lease of 30 s. It is told that the lock is left to a shorter one.
func TestAThreadHasALockThatIsPassedOnAndNotResumedInTime(t *testing.T) {
	withNewest(t, setting{}, func(s *scene) {
		lock, java := s.fresh(), s.thread("one")
		hold, err := s.client.NewLock(lock).Acquire(s.ctx)
		require.NoError(s.t, err)
		waits := s.start(func() error { return java.Lock(lock, 0) })
		s.awaitAsleep(java, lock)
		passed := time.Now()
		_, err = hold.Pass(s.ctx, 2*time.Second)
		require.NoError(s.t, err)
		took := waits.succeeds().Sub(passed)
		s.t.Logf("after %v", took)
		assert.Less(s.t, took, 20*time.Second)
		require.NoError(s.t, java.Unlock(lock))
	})
}
