package rlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

func withPlaces(c *rlock.Config) { c.RecordPlaces = true }

func TestHeldListsTheHoldsOfTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other := w.client(), w.client()
		owners := []rlock.Owner{rlock.NewOwner(), rlock.NewOwner()}
		first, second := rlock.WithOwner(w.ctx, owners[0]), rlock.WithOwner(w.ctx, owners[1])
		require.NoError(t, other.NewLock("another's").Lock(first))
		assert.Empty(t, p.Held())
		began := time.Now()

		require.NoError(t, p.NewLock(key).Lock(first))
		require.NoError(t, p.NewLock(key).Lock(first))
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

		held := p.Held()
		type line struct {
			name   string
			kind   rlock.Kind
			owner  rlock.Owner
			since  time.Duration
			depth  int
			partOf string
		}
		var lines []line
		for _, h := range held {
			lines = append(lines, line{h.Name, h.Kind, rlock.Owner(h.Owner), h.Since.Sub(began), h.Depth, h.PartOf})
			assert.Zero(t, h.Place)
			assert.Greater(t, time.Until(h.ValidUntil), 900*time.Millisecond)
		}
		assert.Equal(t, []line{
			{key, rlock.KindPlain, owners[0], 0, 2, ""},
			{"pair", rlock.KindWrite, owners[1], time.Second, 2, ""},
			{"shared", rlock.KindRead, owners[0], 2 * time.Second, 1, ""},
			{"shared", rlock.KindRead, owners[1], 3 * time.Second, 1, ""},
			{"a", rlock.KindFair, owners[0], 4 * time.Second, 1, "a,b"},
			{"b", rlock.KindSemaphore, owners[0], 4 * time.Second, 1, "a,b"},
		}, lines)

		time.Sleep(2 * time.Second)
		assert.Len(t, p.Held(), 5, "the fixed lease has ended")
		require.NoError(t, p.Close())
		assert.Empty(t, p.Held())
	})
}

// The search for deadlocks compares two looks.
func TestHeldHasTheSameOrderAtEveryLook(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprintf("lock %02d", i))
		}
		me := w.caller()
		for _, i := range rand.Perm(len(names)) {
			require.NoError(t, p.NewLock(names[i]).Lock(me))
		}
		var held []string
		for _, h := range p.Held() {
			held = append(held, h.Name)
		}
		assert.Equal(t, names, held, "all since the same moment")
	})
}

// takenHere acquires the lock in a function with a name.
func takenHere(ctx context.Context, l *rlock.Lock) (*rlock.Hold, error) { return l.Acquire(ctx) }

func TestHeldShowsWhereALockWasTaken(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withPlaces)
		several := []*rlock.Lock{
			p.NewLock("plain"), p.NewReadWriteLock("pair").Read(),
			rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.NewRedLock([]*rlock.Client{p.Client}, "red"),
		}
		for _, l := range several {
			_, err := takenHere(w.ctx, l)
			require.NoError(t, err, l.Name())
		}
		held := p.Held()
		require.Len(t, held, 5)
		for _, h := range held {
			assert.True(t, strings.HasSuffix(h.Place.Function, ".takenHere"), "%s: %s", h.Name, h.Place)
			assert.Regexp(t, `stats_test\.go:\d+ .*takenHere$`, h.Place.String())
		}

		time.Sleep(time.Second)
		me := w.caller()
		require.NoError(t, p.NewLock("done").Do(me, func(context.Context) error {
			held := p.Held()
			assert.Contains(t, held[len(held)-1].Place.Function, "TestHeldShowsWhereALockWasTaken")
			return nil
		}))
	})
}

func TestAHoldThatLastsTooLongIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withPlaces, func(c *rlock.Config) { c.LongHold = 4 * time.Second })
		const said = "rlock: a lock is held for a long time"
		lock, me, them := p.NewLock(key), w.caller(), w.caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		time.Sleep(3900 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, p.logged(said))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said), "the hold is logged in time, and not only at the next renewal")
		assert.Equal(t, 1, p.logged("lock=orders:42 kind=plain owner="))
		assert.Equal(t, 1, p.logged("stats_test.go"))
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.logged(said))

		// The next holder, by a hand-off in the same tenure, has its own time.
		theirs := start(func() error { return lock.Lock(them) })
		synctest.Wait()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, p.logged(said))

		// So has a reader that joins others.
		read := p.NewReadWriteLock("pair").Read()
		require.NoError(t, read.Lock(me))
		time.Sleep(4100 * time.Millisecond)
		require.NoError(t, read.Lock(them))
		require.NoError(t, read.Unlock(me))
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 4, p.logged(said))
	})
}

func TestALongHoldOfALockOverSeveralIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withPlaces, func(c *rlock.Config) { c.LongHold = 4 * time.Second })
		_, err := takenHere(w.ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, p.logged("held for a long time"))
		assert.Equal(t, 1, p.logged("lock=a,b kind=multi"))
		assert.Equal(t, 1, p.logged("takenHere"))
	})
}

func TestAWaitForALockThatTheSameGoroutineHoldsIsLoggedOnce(t *testing.T) {
	const said = "rlock: a call waits for a lock that its own goroutine holds"
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withPlaces)
		lock := p.NewLock(key)
		hold, err := takenHere(w.ctx, lock)
		require.NoError(t, err)
		for _, wait := range []struct {
			call func() (bool, error)
			said int
		}{
			{func() (bool, error) { return lock.TryLockFor(w.ctx, 900*time.Millisecond, 0) }, 0},
			{func() (bool, error) { return lock.TryLockFor(w.ctx, time.Minute, 0) }, 1},
			{func() (bool, error) {
				_, err := lock.Acquire(w.ctx, rlock.WithWait(time.Minute))
				return false, err
			}, 2},
			{func() (bool, error) { return lock.TryLockFor(hold.Context(), time.Minute, 0) }, 2}, // a nested level
		} {
			_, _ = wait.call()
			synctest.Wait()
			assert.Equal(t, wait.said, p.logged(said))
		}
		assert.GreaterOrEqual(t, p.logged("takenHere"), 2)
		elsewhere := start(func() error { _, err := lock.TryLockFor(w.ctx, time.Minute, 0); return err })
		require.NoError(t, <-elsewhere)
		assert.Equal(t, 2, p.logged(said), "another goroutine's wait is no deadlock")
	})
}

func TestAWaitThatLastsTooLongIsLoggedOnceWithTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const said = "rlock: a call waits for a lock for a long time"
		long := func(c *rlock.Config) { c.LongWait = 7 * time.Second }
		p, other := w.client(withPlaces, long), w.client()
		lock, owner := p.NewLock(key), rlock.NewOwner()
		them := rlock.WithOwner(w.ctx, owner)

		require.NoError(t, other.NewLock(key).Lock(them))
		mine := start(func() error { _, err := takenHere(w.ctx, lock); return err })
		synctest.Wait()
		time.Sleep(6900 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, p.logged(said))
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said))
		assert.Equal(t, 1, p.logged("holder="+other.ID()))
		assert.Equal(t, 1, p.logged(":"+fmt.Sprint(owner)+" "))
		assert.Equal(t, 1, p.logged("takenHere"))
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(key).Unlock(them))
		require.NoError(t, <-mine)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said))

		// The place of a holder of the same client is known.
		ok, err := lock.TryLockFor(them, 8*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		synctest.Wait()
		assert.Equal(t, 2, p.logged(said))
		assert.Equal(t, 1, p.logged("holder="+p.ID()))
		assert.Equal(t, 2, p.logged("takenHere"))

		whole := rlock.NewMultiLock(p.NewLock("another"), lock)
		ok, err = whole.TryLockFor(them, 8*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		synctest.Wait()
		assert.Equal(t, 3, p.logged(said), "the whole is logged, and not its part")
		assert.Equal(t, 1, p.logged("lock=another,orders:42 kind=multi"))
	})
}

func TestBy30SecondsAWaitIsLoggedWithItsPlaceUnlessTheConfigSaysOtherwise(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const said = "rlock: a call waits for a lock for a long time"
		never := func(c *rlock.Config) { c.LongWait = -1 }
		p, silent, other := w.client(), w.client(never), w.client()
		lock := p.NewLock(key)

		// One goroutine has the lock and waits for another, which waits for the lock.
		require.NoError(t, lock.Lock(w.ctx))
		ctx, cancel := context.WithCancel(w.ctx)
		here := start(func() error { _, err := takenHere(ctx, lock); return err })
		there := start(func() error { _, err := takenHere(ctx, other.NewLock(key)); return err })
		mute := start(func() error { _, err := takenHere(ctx, silent.NewLock(key)); return err })
		time.Sleep(29 * time.Second)
		synctest.Wait()
		assert.Zero(t, p.logged(said)+other.logged(said))
		time.Sleep(2100 * time.Millisecond) // waits for a lock of the same client are looked at once a second
		synctest.Wait()
		for _, c := range []*testClient{p, other} {
			assert.Equal(t, 1, c.logged(said))
			assert.Equal(t, 1, c.logged("holder="+p.ID()))
			assert.Equal(t, 1, c.logged("takenHere"), "the place is known without RecordPlaces")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said), "each wait is logged once")
		assert.Equal(t, 1, other.logged(said))
		assert.Zero(t, silent.logged(said))
		cancel()
		for _, result := range []<-chan error{here, there, mute} {
			require.ErrorIs(t, <-result, context.Canceled)
		}
		require.NoError(t, lock.Unlock(w.ctx))
	})
}

// A wait that begins while the lock is free is looked at, too, when the lock has a holder.
func TestAWaitIsLoggedWhicheverClientHoldsTheLockMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const said = "rlock: a call waits for a lock for a long time"
		p, other := w.client(), w.client()
		lock := p.NewLock(key)
		require.NoError(t, other.NewLock(key).Lock(w.ctx))
		ctx, cancel := context.WithCancel(w.ctx)
		var waits []<-chan error
		for range 3 {
			waits = append(waits, start(func() error { return lock.Lock(ctx) }))
		}
		synctest.Wait()
		time.Sleep(20 * time.Second)
		require.NoError(t, other.NewLock(key).Unlock(w.ctx)) // one of the three has the lock, and keeps it
		time.Sleep(11100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, p.logged(said))
		assert.Equal(t, 2, p.logged("holder="+p.ID()))
		cancel()
		for _, result := range waits {
			<-result
		}
	})
}

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

func TestHoldsThatAreDetachedAreHeldNoLonger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		h, err := p.NewLock(key).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, h.Detach(w.ctx))
		assert.Zero(t, p.Stats().Held)
	})
}
