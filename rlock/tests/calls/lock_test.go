package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson: testGetHoldCount, testReentrancy.
func TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		for range 2 {
			assert.Zero(t, here.HoldCount(s.Ctx))
			require.NoError(t, here.Lock(s.Ctx))
			assert.True(t, testbed.Tries(t, s.Ctx, here), "its owner locks again without waiting, and unlocks as often")
			for depth := 2; depth > 0; depth-- {
				assert.Equal(t, depth, here.HoldCount(s.Ctx))
				assert.False(t, s.IsFree(here), "another goroutine of the client")
				assert.False(t, s.IsFree(there), "another client")
				assert.False(t, testbed.Tries(t, s.Ctx, there.Rival), "the same goroutine by another client")
				require.NoError(t, here.Unlock(s.Ctx))
			}
			assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld)
			assert.True(t, s.IsFree(here))
			assert.True(t, s.IsFree(there))
		}
	})
}

func TestTwoLocksOfOneNameAreTheSameLockAndOtherNamesAreNot(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		p := s.NewProcess()
		one, same, other := p.NewLock(testbed.Key), p.NewLock(testbed.Key), p.NewLock("orders:43")
		assert.Equal(t, one.Name(), same.Name())
		assert.NotEqual(t, one.Name(), other.Name())
		require.NoError(t, one.Lock(s.Ctx))
		assert.Equal(t, 1, same.HoldCount(s.Ctx))
		assert.True(t, s.IsFree(other))
		require.NoError(t, same.Unlock(s.Ctx))
		assert.True(t, s.IsFree(one))
	})
}

// Redisson: testIsLocked, testIsHeldByCurrentThread, both also OtherThread.
func TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		look := func(lock testbed.Locker) (locked, held bool) {
			locked, err := lock.IsLocked(s.Ctx)
			assert.NoError(t, err)
			return locked, lock.IsHeld(s.Ctx)
		}
		expect := func(lock testbed.Locker, locked, held bool) {
			t.Helper()
			isLocked, isHeld := look(lock)
			assert.Equal(t, locked, isLocked)
			assert.Equal(t, held, isHeld)
		}
		expect(here, false, false)
		require.NoError(t, here.Lock(s.Ctx))
		expect(here, true, true)
		expect(there, true, false)
		testbed.Elsewhere(func() { expect(here, true, false) })
		require.NoError(t, here.Unlock(s.Ctx))
		expect(here, false, false)
		expect(there, false, false)
	})
}

// Redisson: testUnlockFail.
func TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld, "no owner holds the lock")

		require.NoError(t, here.Lock(s.Ctx))
		testbed.Elsewhere(func() { assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld) })
		assert.ErrorIs(t, there.Unlock(s.Ctx), rlock.ErrNotHeld)
		assert.Equal(t, 1, here.HoldCount(s.Ctx))
		assert.False(t, s.IsFree(there))
		require.NoError(t, here.Unlock(s.Ctx))
	})
}

func TestAnUnlockWorksWithAContextThatHasEnded(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		type color struct{}
		here, there := s.NewLock(), s.NewLock()
		ctx, cancel := context.WithCancel(context.WithValue(rlock.WithOwner(s.Ctx, rlock.NewOwner()), color{}, "red"))
		require.NoError(t, here.Lock(ctx))
		hold := testbed.Take(t, ctx, here)
		cancel()
		assert.Equal(t, 2, here.HoldCount(ctx), "the hold does not depend on the context")
		assert.True(t, hold.Valid())
		assert.NoError(t, hold.Context().Err(), "the time to wait is not the time to hold")
		assert.Equal(t, "red", hold.Context().Value(color{}))
		require.NoError(t, hold.Release(ctx))
		require.NoError(t, here.Unlock(ctx))
		assert.True(t, s.IsFree(there))
	})
}

// Errors name the holder of the lock, as far as the client knows it.

func TestAnUnlockInAnotherGoroutineSaysWhereToUnlock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		require.NoError(t, lock.Lock(w.Ctx))
		err := <-testbed.Start(func() error { return lock.Unlock(w.Ctx) })
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by goroutine ")
		require.ErrorContains(t, err, "unlock there, or use Acquire or WithOwner")
		require.NoError(t, lock.Unlock(w.Ctx))

		hold := testbed.Take(t, w.Ctx, lock)
		err = lock.Unlock(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by a Hold of this process: call its Release")
		require.NoError(t, hold.Release(w.Ctx))
	})
}

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

		assert.True(t, testbed.TriesFor(t, s.Ctx, there, 0), "a free lock is taken at once")
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
