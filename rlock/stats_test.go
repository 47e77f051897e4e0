package rlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatsCountEachWayOfAcquiring(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other := w.client(), w.client()
		assert.Zero(t, p.Stats())
		lock, read := p.NewLock(key), p.NewReadWriteLock("read").Read()
		me, them := w.caller(), w.caller()

		require.NoError(t, lock.Lock(me))
		assert.Equal(t, inspect.Stats{Held: 1, Acquired: 1, AcquiredByRedis: 1, Commands: 1}, p.Stats())
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		theirs := start(func() error { return lock.Lock(them) })
		synctest.Wait()
		time.Sleep(time.Second)
		assert.Equal(t, int64(1), p.Stats().Waiting)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		require.NoError(t, lock.Unlock(them))
		s := p.Stats()
		assert.Equal(t, []int64{0, 0, 1, 1, 1}, []int64{s.Held, s.Waiting, s.AcquiredByNesting, s.AcquiredByHandoff, s.AcquiredByRedis})
		assert.Equal(t, time.Second, s.WaitTime)

		require.NoError(t, other.NewLock(key).Lock(them))
		mine := start(func() error { return lock.Lock(me) })
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, other.NewLock(key).Unlock(them))
		require.NoError(t, <-mine)
		require.NoError(t, read.Lock(me))
		require.NoError(t, read.Lock(them))
		s = p.Stats()
		assert.Equal(t, []int64{3, 0, 1, 1}, []int64{s.Held, s.Waiting, s.AcquiredByQueue, s.AcquiredByJoining})
		assert.Equal(t, int64(5), s.Acquired)
		assert.Equal(t, 2*time.Second, s.WaitTime)
		require.NoError(t, p.Close())
		assert.Zero(t, p.Stats().Held)
	})
}

func TestStatsCountWhyCallsGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(w.caller()))
		me := w.caller()
		_, err := lock.TryLock(me)
		require.NoError(t, err)
		_, err = lock.TryLockFor(me, 2*time.Second, 0)
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(me, time.Second)
		defer cancel()
		require.ErrorIs(t, lock.Lock(soon), context.DeadlineExceeded)
		w.answerScripts("NOPERM no")
		require.ErrorIs(t, p.NewLock("refused").Lock(me), rlock.ErrNoPermission)
		w.answerScripts("")
		s := p.Stats()
		assert.Equal(t, []int64{2, 1, 1, 0, 1}, []int64{s.Denied, s.Canceled, s.Failed, s.Waiting, s.Held})
		assert.Equal(t, 3*time.Second, s.WaitTime)
	})
}

func TestStatsCountLossesByTheirReasonAndRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withLease(3 * time.Second))
		lock := p.NewLock(key)
		lost := func(take func(ctx context.Context) error, how func()) inspect.Stats {
			me := w.caller()
			before := p.Stats()
			require.NoError(t, take(me))
			require.NoError(t, take(me))
			how()
			w.eventually(func() bool { return !lock.IsHeld(me) }, "the lock is lost")
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			s := p.Stats()
			assert.Zero(t, s.Held)
			return inspect.Stats{
				Lost: s.Lost - before.Lost, LostUnrenewed: s.LostUnrenewed - before.LostUnrenewed, LostLeaseEnded: s.LostLeaseEnded - before.LostLeaseEnded,
				LostKeyGone: s.LostKeyGone - before.LostKeyGone, LostForced: s.LostForced - before.LostForced,
			}
		}
		assert.Equal(t, inspect.Stats{Lost: 1, LostKeyGone: 1}, lost(lock.Lock, func() { w.Del(key) }))
		assert.Equal(t, inspect.Stats{Lost: 1, LostForced: 1}, lost(lock.Lock, func() { _, _ = lock.ForceUnlock(w.ctx) }))
		assert.Equal(t, inspect.Stats{LostLeaseEnded: 1}, lost(func(ctx context.Context) error { return lock.LockFor(ctx, time.Second) }, func() {}))
		assert.Equal(t, inspect.Stats{Lost: 1, LostUnrenewed: 1}, lost(lock.Lock, func() { w.answerScripts("ERR no script today") }))
		w.answerScripts("")
		time.Sleep(time.Minute)
		assert.Equal(t, int64(3), p.Stats().Lost)

		p = w.client(withLease(3 * time.Second))
		lock = p.NewLock(key)
		me := w.caller()
		require.NoError(t, lock.Lock(me))
		time.Sleep(3500 * time.Millisecond)
		assert.Equal(t, inspect.Stats{Held: 1, Acquired: 1, AcquiredByRedis: 1, Renewals: 3, Commands: 1 + 3}, p.Stats())
		w.Del(key)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		assert.Equal(t, inspect.Stats{Lost: 1, LostKeyGone: 1, Acquired: 1, AcquiredByRedis: 1, Renewals: 3, Commands: 1 + 3 + 1}, p.Stats(), "the Unlock finds the loss")
	})
}

func TestStatsOfABusyClientAddUp(t *testing.T) {
	bubbleAlone(t, func(t *testing.T, w *world) {
		p := w.client()
		const workers, rounds = 20, 50
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				me := w.caller()
				lock := p.NewLock([]string{"a", "b", "c"}[i%3])
				for range rounds {
					assert.NoError(t, lock.Lock(me))
					assert.NoError(t, lock.Lock(me))
					time.Sleep(time.Millisecond)
					assert.NoError(t, lock.Unlock(me))
					assert.NoError(t, lock.Unlock(me))
				}
			})
		}
		all.Wait()
		s := p.Stats()
		assert.Equal(t, int64(workers*rounds), s.Acquired)
		assert.Equal(t, int64(workers*rounds), s.AcquiredByNesting)
		assert.Zero(t, s.Held)
		assert.Zero(t, s.Waiting)
		assert.Positive(t, s.WaitTime)
		assert.Zero(t, allocations(func() { _ = p.Stats() }))
	})
}
