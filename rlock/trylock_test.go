package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTryLockForGivesUpWhenItsTimeIsUp(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		for _, wait := range []time.Duration{-1, 0, 100 * time.Millisecond} {
			began := time.Now()
			local := background(func() error {
				taken, err := try(s.ctx, here.rival, wait, time.Hour)
				assert.False(t, taken)
				return err
			})
			taken, err := try(s.ctx, there.rival, wait, 0)
			require.NoError(t, err)
			assert.False(t, taken)
			require.NoError(t, s.await(local))
			assert.GreaterOrEqual(t, time.Since(began), wait)
		}
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, there.rival.Lock(s.ctx), "a caller that gave up holds nothing")
		require.NoError(t, there.rival.Unlock(s.ctx))
	})
}

func TestTryLockForTakesTheLockWithinItsTime(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		ctx, queued := queueing(s.ctx)
		waiter := background(func() error {
			taken, err := there.rival.TryLockFor(ctx, hang, time.Hour)
			assert.True(t, taken)
			if err != nil {
				return err
			}
			// Redis shows the lease a moment later if the queue granted the lock, or if the
			// lock is compound.
			assert.Eventually(t, func() bool {
				ttl, err := there.rival.TTL(s.ctx)
				return err == nil && ttl > time.Hour-hang
			}, hang, time.Millisecond, "Redis shows the lease of the call")
			return there.rival.Unlock(s.ctx)
		})
		<-queued
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, s.await(waiter))

		taken, err := there.TryLockFor(s.ctx, 0, 0)
		require.NoError(t, err)
		assert.True(t, taken, "a free lock is taken at once")
		require.NoError(t, there.Unlock(s.ctx))
	})
}

// The wait bounds the waiting, not an attempt: a free lock is taken however short the wait
// is.
func TestTryLockForMakesOneAttemptHoweverShortTheWait(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock, me := s.lock(), rlock.WithOwner(s.ctx, rlock.NewOwner())
		for _, wait := range []time.Duration{-time.Second, 0, 1, time.Microsecond} {
			assert.Eventually(t, func() bool { // an abandoned ticket leaves the queue a moment later
				taken, err := try(me, lock, wait, 0)
				return err == nil && taken
			}, hang, time.Millisecond, wait)
			// On a busy machine a RedLock may take its servers for silent for a moment, and
			// returns another error.
			assert.Eventually(t, func() bool {
				hold, err := lock.rival.Acquire(rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithWait(wait))
				assert.Nil(t, hold)
				return errors.Is(err, rlock.ErrNotAcquired)
			}, hang, time.Millisecond, wait)
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestTryLockSendsNothingWhenItsClientHoldsTheLock(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		if s.kind.many {
			t.Skip("another permit may be free")
		}
		lock := s.lock()
		require.NoError(t, lock.Lock(s.ctx))
		for _, site := range s.sites { // a compound lock may have waited only for most of them
			require.Eventually(t, func() bool {
				n, err := site.do("EXISTS", key).AsInt64()
				return err == nil && n == 1
			}, hang, time.Millisecond)
		}
		assert.Eventually(t, func() bool { // a mirror may follow the first answer over a new connection
			return s.count(func() { assert.False(t, s.isFree(lock)) }, "evalsha", "eval") == 0
		}, hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

func TestTryLockDoesNotPassWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, waiter, p, me := w.client(), w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		waits := start(func() error { return waiter.NewFairLock(key).LockFor(w.caller(), time.Second) })
		time.Sleep(50 * time.Millisecond)
		before := w.queued()
		ok, err := p.NewFairLock(key).TryLock(w.caller())
		require.NoError(t, err)
		assert.False(t, ok)
		assert.Equal(t, before, w.queued(), "TryLock left a ticket")

		w.Del(key) // without a message to the waiter
		ok, err = p.NewFairLock(key).TryLock(w.caller())
		require.NoError(t, err)
		assert.False(t, ok, "the free lock belongs to the first waiter")
		require.False(t, pending(waits))
		require.NoError(t, <-waits)
	})
}

func TestATimeToWaitThatIsUpIsNoError(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, me := w.process(), w.process(), w.caller()
		require.NoError(t, other.lock(key).Lock(me))
		within(t, 3*time.Second, 3*time.Second, func() {
			ok, err := p.lock(key).rival.TryLockFor(w.caller(), 3*time.Second, 0)
			require.NoError(t, err)
			assert.False(t, ok)
		})
		_, err := p.lock(key).rival.Acquire(w.caller(), rlock.WithWait(time.Second))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)

		ctx, cancel := context.WithTimeout(w.caller(), time.Second)
		defer cancel()
		_, err = p.lock(key).rival.TryLockFor(ctx, time.Minute, 0)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the end of the caller's own context is an error")
		require.NoError(t, other.lock(key).Unlock(me))
	})
}

func TestAcquireWaitsForTheTimeOfItsOption(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		const wait = time.Minute
		lock, holder := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(holder))

		began := time.Now()
		_, err := lock.rival.Acquire(w.caller(), rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Less(t, time.Since(began), time.Second, "one attempt")
		_, err = lock.rival.Acquire(w.caller(), rlock.WithWait(wait))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.GreaterOrEqual(t, time.Since(began), wait)

		taken := start(func() error {
			hold, err := lock.rival.Acquire(w.caller(), rlock.WithWait(wait))
			if err != nil {
				return err
			}
			return hold.Release(w.ctx)
		})
		require.True(t, pending(taken))
		require.NoError(t, lock.Unlock(holder))
		require.NoError(t, <-taken)
	})
}
