package insight_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatsCountEachWayOfAcquiring(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		assert.Zero(t, p.Stats())
		lock, read := p.NewLock(testbed.Key), p.NewReadWriteLock("read").Read()
		me, them := w.Caller(), w.Caller()

		require.NoError(t, lock.Lock(me))
		assert.Equal(t, inspect.Stats{Held: 1, Acquired: 1, AcquiredByRedis: 1, Commands: 1}, p.Stats())
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		theirs := testbed.Start(func() error { return lock.Lock(them) })
		synctest.Wait()
		time.Sleep(time.Second)
		assert.Equal(t, int64(1), p.Stats().Waiting)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		require.NoError(t, lock.Unlock(them))
		s := p.Stats()
		assert.Equal(t, []int64{0, 0, 1, 1, 1}, []int64{s.Held, s.Waiting, s.AcquiredByNesting, s.AcquiredByHandoff, s.AcquiredByRedis})
		assert.Equal(t, time.Second, s.WaitTime)

		require.NoError(t, other.NewLock(testbed.Key).Lock(them))
		mine := testbed.Start(func() error { return lock.Lock(me) })
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(w.Caller()))
		me := w.Caller()
		_, err := lock.TryLock(me)
		require.NoError(t, err)
		_, err = lock.TryLockFor(me, 2*time.Second, 0)
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(me, time.Second)
		defer cancel()
		require.ErrorIs(t, lock.Lock(soon), context.DeadlineExceeded)
		w.AnswerScripts("NOPERM no")
		require.ErrorIs(t, p.NewLock("refused").Lock(me), rlock.ErrNoPermission)
		w.AnswerScripts("")
		s := p.Stats()
		assert.Equal(t, []int64{2, 1, 1, 0, 1}, []int64{s.Denied, s.Canceled, s.Failed, s.Waiting, s.Held})
		assert.Equal(t, 3*time.Second, s.WaitTime)
	})
}

func TestStatsCountLossesByTheirReasonAndRenewals(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(testbed.WithLease(3 * time.Second))
		lock := p.NewLock(testbed.Key)
		lost := func(take func(ctx context.Context) error, how func()) inspect.Stats {
			me := w.Caller()
			before := p.Stats()
			require.NoError(t, take(me))
			require.NoError(t, take(me))
			how()
			w.Eventually(func() bool { return !lock.IsHeld(me) }, "the lock is lost")
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			s := p.Stats()
			assert.Zero(t, s.Held)
			return inspect.Stats{
				Lost: s.Lost - before.Lost, LostUnrenewed: s.LostUnrenewed - before.LostUnrenewed, LostLeaseEnded: s.LostLeaseEnded - before.LostLeaseEnded,
				LostKeyGone: s.LostKeyGone - before.LostKeyGone, LostForced: s.LostForced - before.LostForced,
			}
		}
		assert.Equal(t, inspect.Stats{Lost: 1, LostKeyGone: 1}, lost(lock.Lock, func() { w.Del(testbed.Key) }))
		assert.Equal(t, inspect.Stats{Lost: 1, LostForced: 1}, lost(lock.Lock, func() { _, _ = lock.ForceUnlock(w.Ctx) }))
		assert.Equal(t, inspect.Stats{LostLeaseEnded: 1}, lost(func(ctx context.Context) error { return lock.LockFor(ctx, time.Second) }, func() {}))
		assert.Equal(t, inspect.Stats{Lost: 1, LostUnrenewed: 1}, lost(lock.Lock, func() { w.AnswerScripts("ERR no script today") }))
		w.AnswerScripts("")
		time.Sleep(time.Minute)
		assert.Equal(t, int64(3), p.Stats().Lost)

		p = w.NewClient(testbed.WithLease(3 * time.Second))
		lock = p.NewLock(testbed.Key)
		me := w.Caller()
		require.NoError(t, lock.Lock(me))
		time.Sleep(3500 * time.Millisecond)
		assert.Equal(t, inspect.Stats{Held: 1, Acquired: 1, AcquiredByRedis: 1, Renewals: 3, Commands: 1 + 3}, p.Stats())
		w.Del(testbed.Key)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		assert.Equal(t, inspect.Stats{Lost: 1, LostKeyGone: 1, Acquired: 1, AcquiredByRedis: 1, Renewals: 3, Commands: 1 + 3 + 1}, p.Stats(), "the Unlock finds the loss")
	})
}

func TestStatsOfABusyClientAddUp(t *testing.T) {
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		const workers, rounds = 20, 50
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				me := w.Caller()
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
