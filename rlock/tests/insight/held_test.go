package insight_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func withSites(c *rlock.Config) { c.RecordSites = true }

func TestHeldListsTheHoldsOfTheClient(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		owners := []rlock.Owner{rlock.NewOwner(), rlock.NewOwner()}
		first, second := rlock.WithOwner(w.Ctx, owners[0]), rlock.WithOwner(w.Ctx, owners[1])
		require.NoError(t, other.NewLock("another's").Lock(first))
		assert.Empty(t, p.Held())
		began := time.Now()

		require.NoError(t, p.NewLock(testbed.Key).Lock(first))
		require.NoError(t, p.NewLock(testbed.Key).Lock(first))
		time.Sleep(time.Second)
		pair := p.NewReadWriteLock("pair")
		require.NoError(t, pair.Write().LockFor(second, 5*time.Second))
		require.NoError(t, pair.Read().LockFor(second, 5*time.Second))
		time.Sleep(time.Second)
		shared := p.NewReadWriteLock("shared").Read()
		require.NoError(t, shared.Lock(first))
		time.Sleep(time.Second)
		require.NoError(t, shared.Lock(second))
		time.Sleep(time.Second)
		whole := rlock.NewMultiLock(p.NewFairLock("a"), p.NewSemaphore("b", 3))
		require.NoError(t, whole.Lock(first))
		testbed.Take(t, w.Ctx, p.NewSemaphore("c", 5), rlock.WithPermits(4))

		held := p.Held()
		type line struct {
			name    string
			kind    rlock.Kind
			owner   rlock.Owner
			since   time.Duration
			depth   int
			permits int
			partOf  string
		}
		var lines []line
		for _, h := range held {
			lines = append(lines, line{h.Name, h.Kind, rlock.Owner(h.Owner), h.Since.Sub(began), h.Depth, h.Permits, h.PartOf})
			assert.Zero(t, h.Site)
			assert.Greater(t, time.Until(h.ValidUntil), 900*time.Millisecond)
		}
		assert.Equal(t, []line{
			{testbed.Key, rlock.KindPlain, owners[0], 0, 2, 0, ""},
			{"pair", rlock.KindWrite, owners[1], time.Second, 2, 0, ""},
			{"shared", rlock.KindRead, owners[0], 2 * time.Second, 1, 0, ""},
			{"shared", rlock.KindRead, owners[1], 3 * time.Second, 1, 0, ""},
			{"a", rlock.KindFair, owners[0], 4 * time.Second, 1, 0, "a,b"},
			{"b", rlock.KindSemaphore, owners[0], 4 * time.Second, 1, 1, "a,b"},
			{"c", rlock.KindSemaphore, rlock.Owner(held[len(held)-1].Owner), 4 * time.Second, 1, 4, ""},
		}, lines)

		time.Sleep(2 * time.Second)
		assert.Len(t, p.Held(), 6, "the fixed lease has ended")
		require.NoError(t, p.Close())
		assert.Empty(t, p.Held())
	})
}

// takenHere acquires the lock in a function with a name.
func takenHere(ctx context.Context, l *rlock.Lock) (*rlock.Hold, error) { return l.Acquire(ctx) }

func TestHeldShowsWhereALockWasTaken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		several := []*rlock.Lock{
			p.NewLock("plain"), p.NewReadWriteLock("pair").Read(),
			rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.NewRedLock([]*rlock.Client{p.Client}, "red"),
		}
		for _, l := range several {
			require.NoError(t, testbed.ErrorOf(takenHere(w.Ctx, l)), l.Name())
		}
		held := p.Held()
		require.Len(t, held, 5)
		for _, h := range held {
			assert.True(t, strings.HasSuffix(h.Site.Function, ".takenHere"), "%s: %s", h.Name, h.Site)
			assert.Regexp(t, `held_test\.go:\d+ .*takenHere$`, h.Site.String())
		}

		time.Sleep(time.Second)
		me := w.Caller()
		require.NoError(t, p.NewLock("done").Do(me, func(context.Context) error {
			held := p.Held()
			assert.Contains(t, held[len(held)-1].Site.Function, "TestHeldShowsWhereALockWasTaken")
			return nil
		}))
	})
}

func TestStatsCountEachWayOfAcquiring(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		assert.Zero(t, p.Stats())
		lock, read := p.NewLock(testbed.Key), p.NewReadWriteLock("read").Read()
		me, them := w.Caller(), w.Caller()

		require.NoError(t, lock.Lock(me))
		assert.Equal(t, inspect.Stats{Held: 1, Acquired: 1, AcquiredByRedis: 1, Commands: 1}, p.Stats())
		require.NoError(t, lock.Do(me, testbed.Nothing))
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
		testbed.Tries(t, me, lock)
		testbed.TriesFor(t, me, lock, 2*time.Second)
		soon, cancel := context.WithTimeout(me, time.Second)
		defer cancel()
		require.ErrorIs(t, lock.Lock(soon), context.DeadlineExceeded)
		w.AnswerScripts("NOPERM no")
		for range 3 { // no two counts are the same
			require.ErrorIs(t, p.NewLock("refused").Lock(me), rlock.ErrNoPermission)
		}
		w.AnswerScripts("")
		s := p.Stats()
		assert.Equal(t, []int64{2, 1, 3, 0, 1}, []int64{s.Denied, s.Canceled, s.Failed, s.Waiting, s.Held})
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
