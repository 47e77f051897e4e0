package calls_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		for range 3 {
			require.NoError(t, here.Lock(s.Ctx))
			assert.False(t, s.IsFree(here), "another goroutine of the client")
			assert.False(t, s.IsFree(there), "another client")
			taken, err := there.Rival.TryLock(s.Ctx)
			require.NoError(t, err)
			assert.False(t, taken, "the same goroutine by another client")

			require.NoError(t, here.Unlock(s.Ctx))
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

// Redisson: testGetHoldCount, testReentrancy.
func TestTheOwnerLocksAgainWithoutWaitingAndUnlocksAsOften(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock, there := s.NewLock(), s.NewLock()
		assert.Equal(t, 0, lock.HoldCount(s.Ctx))

		require.NoError(t, lock.Lock(s.Ctx))
		assert.Equal(t, 1, lock.HoldCount(s.Ctx))
		require.NoError(t, lock.Unlock(s.Ctx))
		assert.Equal(t, 0, lock.HoldCount(s.Ctx))

		require.NoError(t, lock.Lock(s.Ctx))
		taken, err := lock.TryLock(s.Ctx)
		require.NoError(t, err)
		assert.True(t, taken)
		assert.Equal(t, 2, lock.HoldCount(s.Ctx))
		assert.False(t, s.IsFree(lock))

		require.NoError(t, lock.Unlock(s.Ctx))
		assert.Equal(t, 1, lock.HoldCount(s.Ctx))
		assert.False(t, s.IsFree(lock))
		assert.False(t, s.IsFree(there))

		require.NoError(t, lock.Unlock(s.Ctx))
		assert.Equal(t, 0, lock.HoldCount(s.Ctx))
		assert.True(t, s.IsFree(there))
	})
}

// Redisson: testIsLocked, testIsHeldByCurrentThread, both also OtherThread.
func TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		if s.KindOfLock.Lingers > 0 {
			t.Skip("a lock that lingers looks locked after Unlock")
		}
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

func TestASecondUnlockIsErrNotHeldAndTakesNothingFromTheNextHolder(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		require.NoError(t, here.Lock(s.Ctx))
		require.NoError(t, here.Unlock(s.Ctx))
		require.NoError(t, there.Lock(s.Ctx))
		assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld)
		assert.True(t, there.IsHeld(s.Ctx))
		assert.False(t, s.IsFree(here))
		require.NoError(t, there.Unlock(s.Ctx), "the next holder's key is unchanged")
	})
}

func TestAnUnlockWorksWithAContextThatHasEnded(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		ctx, cancel := context.WithCancel(s.Ctx)
		require.NoError(t, here.Lock(ctx))
		cancel()
		assert.Equal(t, 1, here.HoldCount(ctx), "the hold does not depend on the context")
		require.NoError(t, here.Unlock(ctx))
		assert.True(t, s.IsFree(there))
	})
}

// Errors name the holder of the lock, as far as the client knows it.

func TestARefusalNamesTheHolder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient()
		me := w.Caller()
		owner, _ := rlock.OwnerFrom(me)
		refusal := func(p *testbed.Client, wait time.Duration) string {
			_, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithWait(wait))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err.Error()
		}
		for _, wait := range []time.Duration{0, time.Second} {
			require.NoError(t, here.NewLock(testbed.Key).Lock(me))
			assert.Contains(t, refusal(here, wait), "held by owner "+fmt.Sprint(owner)+" of this process")
			assert.Contains(t, refusal(there, wait), "held by "+here.ID())
			assert.Contains(t, refusal(there, wait), fmt.Sprint(owner)+" of another client")
			require.NoError(t, here.NewLock(testbed.Key).Unlock(me))

			hold, err := here.NewLock(testbed.Key).Acquire(w.Ctx)
			require.NoError(t, err)
			testbed.Elsewhere(func() { assert.Contains(t, refusal(here, wait), "held by a Hold of this process") })
			require.NoError(t, hold.Release(w.Ctx))

			w.HSet(testbed.Key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
			w.SetTTL(testbed.Key, time.Hour)
			assert.Contains(t, refusal(here, wait), "held by 7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1, which is no client of rlock")
			w.Del(testbed.Key)
			time.Sleep(3 * time.Second) // until the abandoned tickets are gone
		}
	})
}

func TestALockThatTimesOutNamesTheHolder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient()
		require.NoError(t, here.NewLock(testbed.Key).Lock(w.Ctx))
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		err := there.NewLock(testbed.Key).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "held by "+here.ID())
		require.NoError(t, here.NewLock(testbed.Key).Unlock(w.Ctx))
	})
}

func TestAnUnlockInAnotherGoroutineSaysWhereToUnlock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		require.NoError(t, lock.Lock(w.Ctx))
		err := <-testbed.Start(func() error { return lock.Unlock(w.Ctx) })
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by goroutine ")
		require.ErrorContains(t, err, "unlock there, or use Acquire or WithOwner")
		require.NoError(t, lock.Unlock(w.Ctx))
	})
}

func TestAnUnlockOfALockThatAHoldHasRefersToRelease(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		hold, err := lock.Acquire(w.Ctx)
		require.NoError(t, err)
		err = lock.Unlock(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by a Hold of this process: call its Release")
		require.NoError(t, hold.Release(w.Ctx))
	})
}
