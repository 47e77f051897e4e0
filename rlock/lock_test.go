package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		for range 3 {
			require.NoError(t, here.Lock(s.ctx))
			assert.False(t, s.isFree(here), "another goroutine of the client")
			assert.False(t, s.isFree(there), "another client")
			taken, err := there.rival.TryLock(s.ctx)
			require.NoError(t, err)
			assert.False(t, taken, "the same goroutine by another client")

			require.NoError(t, here.Unlock(s.ctx))
			assert.True(t, s.isFree(here))
			assert.True(t, s.isFree(there))
		}
	})
}

func TestTwoLocksOfOneNameAreTheSameLockAndOtherNamesAreNot(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		p := s.process()
		one, same, other := p.lock(key), p.lock(key), p.lock("orders:43")
		assert.Equal(t, one.Name(), same.Name())
		assert.NotEqual(t, one.Name(), other.Name())
		require.NoError(t, one.Lock(s.ctx))
		assert.Equal(t, 1, same.HoldCount(s.ctx))
		assert.True(t, s.isFree(other))
		require.NoError(t, same.Unlock(s.ctx))
		assert.True(t, s.isFree(one))
	})
}

// Redisson: testGetHoldCount, testReentrancy.
func TestTheOwnerLocksAgainWithoutWaitingAndUnlocksAsOften(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock, there := s.lock(), s.lock()
		assert.Equal(t, 0, lock.HoldCount(s.ctx))

		require.NoError(t, lock.Lock(s.ctx))
		assert.Equal(t, 1, lock.HoldCount(s.ctx))
		require.NoError(t, lock.Unlock(s.ctx))
		assert.Equal(t, 0, lock.HoldCount(s.ctx))

		require.NoError(t, lock.Lock(s.ctx))
		taken, err := lock.TryLock(s.ctx)
		require.NoError(t, err)
		assert.True(t, taken)
		assert.Equal(t, 2, lock.HoldCount(s.ctx))
		assert.False(t, s.isFree(lock))

		require.NoError(t, lock.Unlock(s.ctx))
		assert.Equal(t, 1, lock.HoldCount(s.ctx))
		assert.False(t, s.isFree(lock))
		assert.False(t, s.isFree(there))

		require.NoError(t, lock.Unlock(s.ctx))
		assert.Equal(t, 0, lock.HoldCount(s.ctx))
		assert.True(t, s.isFree(there))
	})
}

// Redisson: testIsLocked, testIsHeldByCurrentThread, both also OtherThread.
func TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.kind.lingers > 0 {
			t.Skip("a lock that lingers looks locked after Unlock")
		}
		here, there := s.lock(), s.lock()
		look := func(lock locker) (locked, held bool) {
			locked, err := lock.IsLocked(s.ctx)
			assert.NoError(t, err)
			return locked, lock.IsHeld(s.ctx)
		}
		expect := func(lock locker, locked, held bool) {
			t.Helper()
			isLocked, isHeld := look(lock)
			assert.Equal(t, locked, isLocked)
			assert.Equal(t, held, isHeld)
		}
		expect(here, false, false)
		require.NoError(t, here.Lock(s.ctx))
		expect(here, true, true)
		expect(there, true, false)
		elsewhere(func() { expect(here, true, false) })
		require.NoError(t, here.Unlock(s.ctx))
		expect(here, false, false)
		expect(there, false, false)
	})
}

// Redisson: testUnlockFail.
func TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld, "no owner holds the lock")

		require.NoError(t, here.Lock(s.ctx))
		elsewhere(func() { assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld) })
		assert.ErrorIs(t, there.Unlock(s.ctx), rlock.ErrNotHeld)
		assert.Equal(t, 1, here.HoldCount(s.ctx))
		assert.False(t, s.isFree(there))
		require.NoError(t, here.Unlock(s.ctx))
	})
}

func TestASecondUnlockIsErrNotHeldAndTakesNothingFromTheNextHolder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, there.Lock(s.ctx))
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld)
		assert.True(t, there.IsHeld(s.ctx))
		assert.False(t, s.isFree(here))
		require.NoError(t, there.Unlock(s.ctx), "the next holder's key is unchanged")
	})
}

func TestAnUnlockWorksWithAContextThatHasEnded(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		ctx, cancel := context.WithCancel(s.ctx)
		require.NoError(t, here.Lock(ctx))
		cancel()
		assert.Equal(t, 1, here.HoldCount(ctx), "the hold does not depend on the context")
		require.NoError(t, here.Unlock(ctx))
		assert.True(t, s.isFree(there))
	})
}

// Errors name the holder of the lock, as far as the client knows it.

func TestARefusalNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		me := w.caller()
		owner, _ := rlock.OwnerFrom(me)
		refusal := func(p *testClient, wait time.Duration) string {
			_, err := p.NewLock(key).Acquire(w.ctx, rlock.WithWait(wait))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err.Error()
		}
		for _, wait := range []time.Duration{0, time.Second} {
			require.NoError(t, here.NewLock(key).Lock(me))
			assert.Contains(t, refusal(here, wait), "held by owner "+fmt.Sprint(owner)+" of this process")
			assert.Contains(t, refusal(there, wait), "held by "+here.ID())
			assert.Contains(t, refusal(there, wait), fmt.Sprint(owner)+" of another client")
			require.NoError(t, here.NewLock(key).Unlock(me))

			hold, err := here.NewLock(key).Acquire(w.ctx)
			require.NoError(t, err)
			elsewhere(func() { assert.Contains(t, refusal(here, wait), "held by a Hold of this process") })
			require.NoError(t, hold.Release(w.ctx))

			w.HSet(key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
			w.SetTTL(key, time.Hour)
			assert.Contains(t, refusal(here, wait), "held by 7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1, which is no client of rlock")
			w.Del(key)
			time.Sleep(3 * time.Second) // until the abandoned tickets are gone
		}
	})
}

func TestALockThatTimesOutNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		require.NoError(t, here.NewLock(key).Lock(w.ctx))
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		err := there.NewLock(key).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "held by "+here.ID())
		require.NoError(t, here.NewLock(key).Unlock(w.ctx))
	})
}

func TestAnUnlockInAnotherGoroutineSaysWhereToUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		require.NoError(t, lock.Lock(w.ctx))
		err := <-start(func() error { return lock.Unlock(w.ctx) })
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by goroutine ")
		require.ErrorContains(t, err, "unlock there, or use Acquire or WithOwner")
		require.NoError(t, lock.Unlock(w.ctx))
	})
}

func TestAnUnlockOfALockThatAHoldHasRefersToRelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		hold, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		err = lock.Unlock(w.ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by a Hold of this process: call its Release")
		require.NoError(t, hold.Release(w.ctx))
	})
}
