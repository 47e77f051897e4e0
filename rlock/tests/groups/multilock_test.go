package groups_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests over all kinds cover MultiLock as one of the kinds. These are the differences.

// two returns two worlds, and a client of each.
func two(t *testing.T, w *testbed.World) (worlds [2]*testbed.World, testClients [2]*testbed.Client) {
	worlds = [2]*testbed.World{w, testbed.NewWorld(t, w.Ctx)}
	return worlds, [2]*testbed.Client{worlds[0].NewClient(), worlds[1].NewClient()}
}

func TestAMultiLockIsMadeOfItsParts(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		a, b := p.NewLock("a"), p.NewLock("b")
		lock := rlock.NewMultiLock(b, a, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("c")), b)
		assert.Equal(t, "a,b,c", lock.Name())
		require.NoError(t, lock.Lock(me))
		assert.Equal(t, []string{"a", "b", "c"}, w.Keys())
		assert.Equal(t, "1", w.HGet("a", w.Fields("a")[0]), "the same lock counts once")
		assert.True(t, a.IsHeld(me))
		assert.ErrorIs(t, a.Unlock(me), rlock.ErrNotHeld, "a part cannot be unlocked by itself")
		same := rlock.NewMultiLock(p.NewLock("c"), p.NewLock("b"), p.NewLock("a"))
		assert.Equal(t, 1, same.HoldCount(me))
		require.NoError(t, same.Unlock(me), "the same parts are the same lock")
		assert.Empty(t, w.Keys())
	})
}

func TestAMultiLockOfNothingIsErrInvalidConfig(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		var none *rlock.Lock
		for what, bad := range map[string]struct {
			lock *rlock.Lock
			err  error
		}{
			"none":          {rlock.NewMultiLock(), rlock.ErrInvalidConfig},
			"nil":           {rlock.NewMultiLock(p.NewLock("a"), nil), rlock.ErrInvalidConfig},
			"a nil lock":    {rlock.NewMultiLock(none), rlock.ErrInvalidConfig},
			"one of none":   {rlock.NewMultiLock(rlock.NewMultiLock()), rlock.ErrInvalidConfig},
			"a red of none": {rlock.NewMultiLock(rlock.NewRedLock(nil, "a")), rlock.ErrInvalidConfig},
			"a zero lock":   {rlock.NewMultiLock(&rlock.Lock{}), rlock.ErrInvalidConfig},
			"zero":          {&rlock.Lock{}, rlock.ErrInvalidConfig},
			"a bad name":    {rlock.NewMultiLock(p.NewLock("a"), p.NewLock("")), rlock.ErrInvalidName},
		} {
			for method, err := range testbed.EveryMethod(w.Ctx, bad.lock) {
				assert.ErrorIs(t, err, bad.err, "%s: %s", what, method)
			}
			assert.False(t, bad.lock.IsHeld(w.Ctx))
			assert.Zero(t, bad.lock.HoldCount(w.Ctx))
			_ = bad.lock.Name()
		}
		assert.Empty(t, p.Net.Sent("EVALSHA"), "no command")
	})
}

func TestAMultiLockTakesAllPartsOrNone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		worlds, p := two(t, w)
		me, them := w.Caller(), w.Caller()
		lock := rlock.NewMultiLock(p[0].NewLock("a"), p[1].NewLock("b"), p[0].NewLock("c"))
		theirs := worlds[1].NewClient().NewLock("b")
		require.NoError(t, theirs.Lock(them))

		taken, err := lock.TryLock(me)
		require.NoError(t, err)
		assert.False(t, taken)
		assert.Empty(t, worlds[0].Keys())

		testbed.Within(t, 3*time.Second, 3*time.Second, func() {
			taken, err = lock.TryLockFor(me, 3*time.Second, 0)
			require.NoError(t, err)
			assert.False(t, taken)
		})
		assert.Empty(t, worlds[0].Keys())

		ctx, cancel := context.WithTimeout(me, 3*time.Second)
		defer cancel()
		testbed.Within(t, 3*time.Second, 3*time.Second, func() { require.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded) })
		synctest.Wait()
		assert.Empty(t, worlds[0].Keys())

		locked, err := lock.IsLocked(me)
		require.NoError(t, err)
		assert.True(t, locked, "one part is held")
		require.NoError(t, theirs.Unlock(them))
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

// Redisson restarts the wait for each part.
func TestTheWaitOfAMultiLockIsForAllParts(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me, them := w.NewClient(), w.Caller(), w.Caller()
		other := w.NewClient()
		lock := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b"))
		require.NoError(t, other.NewLock("a").LockFor(them, 4*time.Second))
		require.NoError(t, other.NewLock("b").Lock(them))
		testbed.Within(t, 5*time.Second, 5*time.Second, func() {
			_, err := lock.Acquire(me, rlock.WithWait(5*time.Second))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
		})
		require.NoError(t, other.NewLock("b").Unlock(them))
		require.ErrorIs(t, other.NewLock("a").Unlock(them), rlock.ErrLost)
	})
}

// The first attempt at the part that another holds, which is made before the watchdog keeps
// the parts taken so far, is a part of the wait.
func TestTheWaitOfAMultiLockIsNoLongerWithALease(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		worlds, p := two(t, w)
		other := worlds[1].NewClient().NewLock("b")
		require.NoError(t, other.Lock(w.Caller()))
		lock := rlock.NewMultiLock(p[0].NewLock("a"), p[1].NewLock("b"))
		p[1].Net.SetRoundTrip(time.Second)
		_, err := lock.TryLockFor(w.Ctx, 3*time.Second, 0) // now the scripts are known
		require.NoError(t, err)
		testbed.Within(t, 4*time.Second, 4*time.Second, func() { // a last look takes a second
			taken, err := lock.TryLockFor(w.Ctx, 3*time.Second, time.Minute)
			require.NoError(t, err)
			assert.False(t, taken)
		})
	})
}

func TestTheLeaseOfAMultiLockBeginsWhenAllPartsAreTaken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me, them := w.NewClient(), w.Caller(), w.Caller()
		other := w.NewClient().NewLock("b")
		require.NoError(t, other.Lock(them))
		var hold *rlock.Hold
		result := testbed.Start(func() (err error) {
			hold, err = rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b"), p.NewLock("c")).Acquire(me, rlock.WithLease(2*time.Second))
			return err
		})
		time.Sleep(time.Minute + time.Second) // not at the moment of a renewal
		assert.Greater(t, w.Remaining("a"), 15*time.Second, "the watchdog keeps the parts already taken")
		begin := time.Now()
		require.NoError(t, other.Unlock(them))
		require.NoError(t, <-result)
		synctest.Wait() // one change is mirrored at once, without a pause
		for _, name := range []string{"a", "b", "c"} {
			assert.InDelta(t, 2*time.Second, w.Remaining(name), float64(2*time.Millisecond), name)
		}
		<-hold.Context().Done()
		assert.InDelta(t, 2*time.Second, time.Since(begin), float64(40*time.Millisecond))
		require.ErrorIs(t, hold.Release(me), rlock.ErrLost)
		synctest.Wait()
		assert.Empty(t, w.Keys())
	})
}

func TestTheLossOfOnePartIsTheLossOfAll(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		worlds, p := two(t, w)
		me := w.Caller()
		here, there := p[0].NewLock("a"), p[1].NewLock("b")
		lock := rlock.NewMultiLock(here, there)
		require.NoError(t, here.Lock(me)) // a lock of a single part, which must not change
		require.NoError(t, lock.Lock(me))
		hold, err := lock.Acquire(me)
		require.NoError(t, err)
		begin := time.Now()
		p[1].Net.Refuse()
		<-hold.Context().Done()
		assert.InDelta(t, 30*time.Second-testbed.Drift, time.Since(begin), float64(10*time.Millisecond), "to a tick of the wheel")
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, lock.IsHeld(me))
		time.Sleep(2 * time.Millisecond)
		assert.Equal(t, "1", worlds[0].HGet("a", worlds[0].Fields("a")[0]), "the other part is not released")
		assert.ErrorIs(t, lock.Lock(me), rlock.ErrLost, "a nested Lock fails after a loss")
		assert.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		assert.ErrorIs(t, hold.Release(me), rlock.ErrLost)
		assert.ErrorIs(t, hold.Release(me), rlock.ErrNotHeld)
		assert.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)

		p[1].Net.Heal()
		require.NoError(t, lock.Lock(me), "the lock can be taken again")
		require.NoError(t, lock.Unlock(me))
		assert.Equal(t, 1, here.HoldCount(me))
		require.NoError(t, here.Unlock(me))
	})
}

func TestUnlockReleasesAllPartsAndJoinsTheErrors(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		var locks []*rlock.Lock
		for i := range 4 {
			locks = append(locks, p.NewLock(fmt.Sprint("part", i)))
		}
		lock := rlock.NewMultiLock(locks...)
		require.NoError(t, lock.Lock(me))
		w.Del("part0")
		w.Del("part2")
		err := lock.Unlock(me)
		require.ErrorIs(t, err, rlock.ErrLost)
		assert.ErrorContains(t, err, "part0")
		assert.ErrorContains(t, err, "part2")
		assert.NotContains(t, err.Error(), "part1")
		assert.Empty(t, w.Keys())
	})
}

// Each lists first the part that the other lists last.
func TestTwoMultiLocksOfTheSamePartsNeverWaitForEachOther(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		r := new(testbed.Record)
		for i := range 3 {
			client := s.NewClient()
			a, b := client.NewLock(testbed.Key+"a"), client.NewLock(testbed.Key+"b")
			lock := rlock.NewMultiLock(a, b)
			if i%2 == 0 {
				lock = rlock.NewMultiLock(b, a)
			}
			r.Work(s, lock, 3, 10)
		}
		r.Check(t, 3*3*10)
	})
}

// A part is lost while another one is waited for: the waiter starts again.
func TestAPartThatIsLostWhileAnotherIsWaitedForIsTakenAgain(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me, them := w.NewClient(), w.Caller(), w.Caller()
		other := w.NewClient().NewLock("b")
		require.NoError(t, other.Lock(them))
		lock := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b"))
		result := testbed.Start(func() error { return lock.Lock(me) })
		require.True(t, testbed.Pending(result))
		w.Del("a")
		time.Sleep(15 * time.Second)
		require.NoError(t, other.Unlock(them))
		require.NoError(t, <-result)
		assert.Subset(t, w.Keys(), []string{"a", "b"})
		assert.True(t, lock.IsHeld(me))
		require.NoError(t, lock.Unlock(me))
	})
}

// A part of the closed client is lost, and no other is waited for.
func TestAWaitForAMultiLockEndsWhenAClientOfItIsClosed(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		worlds, p := two(t, w)
		other, them := worlds[1].NewClient().NewLock("b"), w.Caller()
		require.NoError(t, other.Lock(them))
		lock := rlock.NewMultiLock(p[0].NewLock("a"), p[1].NewLock("b"))
		result := testbed.Start(func() error { return lock.Lock(w.Caller()) })
		require.True(t, testbed.Pending(result))
		require.NoError(t, p[0].Close())
		testbed.Within(t, 0, 0, func() { require.ErrorIs(t, <-result, rlock.ErrClosed) })
		require.NoError(t, other.Unlock(them))
		synctest.Wait()
		assert.Empty(t, worlds[1].Keys())
	})
}

func TestAMultiLockWhoseReplyIsLostLeavesNothingBehind(t *testing.T) {
	for n := 1; n <= 2; n++ {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			worlds, p := two(t, w)
			lock := rlock.NewMultiLock(p[0].NewLock("a"), p[1].NewLock("b"))
			p[n-1].Net.Rule(testbed.Scripts(1, network.Cut, network.Reply, "acquired"))
			_, err := lock.TryLock(w.Caller())
			require.Error(t, err)
			time.Sleep(time.Second)
			assert.Empty(t, worlds[0].Keys())
			assert.Empty(t, worlds[1].Keys())
			p[0].Net.Rule(nil)
			p[1].Net.Rule(nil)
			require.NoError(t, lock.Lock(w.Ctx))
			require.NoError(t, lock.Unlock(w.Ctx))
		})
	}
}

// The read lock and the write lock of one name are different locks.
func TestAMultiLockOfAReadLockIsNotThatOfTheWriteLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		rw := p.NewReadWriteLock("a")
		read, write := rlock.NewMultiLock(rw.Read()), rlock.NewMultiLock(rw.Write())
		require.NoError(t, write.Lock(me))
		require.NoError(t, read.Lock(me))
		require.NoError(t, write.Unlock(me), "a downgrade")
		assert.False(t, write.IsHeld(me))
		assert.True(t, read.IsHeld(me))
		require.ErrorIs(t, write.Unlock(me), rlock.ErrNotHeld)
		require.NoError(t, read.Unlock(me))
	})
}

func TestTheOrderOfAMultiLockTellsTheDatabasesOfAServerApart(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		me := w.Caller()
		there := w.NewClient(func(c *rlock.Config) { c.Redis.SelectDB = 1 })
		first, second := w.NewClient().NewLock(testbed.Key), there.NewLock(testbed.Key)
		require.NoError(t, w.NewClient().NewLock(testbed.Key).Lock(w.Caller()))
		for _, lock := range []*rlock.Lock{rlock.NewMultiLock(first, second), rlock.NewMultiLock(second, first)} {
			taken, err := lock.TryLockFor(me, time.Second, 0)
			require.NoError(t, err)
			require.False(t, taken)
		}
		assert.Empty(t, there.Acquires(), "a waiter for the first part must not ask for others")
	})
}

// The acquires of nine parts, each of another client than the one before, take longer than the lease.
func TestAMultiLockWhoseLeaseIsShorterThanItsAcquireIsHeldForAllOfIt(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		clients, me := []*testbed.Client{w.NewClient(), w.NewClient()}, w.Caller()
		var locks []*rlock.Lock
		for i := range 9 {
			locks = append(locks, clients[i%2].NewLock(fmt.Sprint("part", i)))
		}
		lock := rlock.NewMultiLock(locks...)
		require.NoError(t, lock.Lock(me)) // the scripts are known
		require.NoError(t, lock.Unlock(me))
		for _, p := range clients {
			p.Net.SetRoundTrip(100 * time.Millisecond)
		}
		hold, err := lock.Acquire(me, rlock.WithLease(500*time.Millisecond), rlock.WithWait(3*time.Second))
		require.NoError(t, err)
		begin := time.Now()
		time.Sleep(100 * time.Millisecond)
		assert.InDelta(t, 400*time.Millisecond, time.Until(hold.ValidUntil()), float64(20*time.Millisecond))
		<-hold.Context().Done()
		assert.InDelta(t, 500*time.Millisecond, time.Since(begin), float64(20*time.Millisecond))
		require.ErrorIs(t, hold.Release(me), rlock.ErrLost)
	})
}

// A caller that has left blocks no other of its process, although Redis has not confirmed the
// release of the parts.
func TestThePartsOfAMultiLockAreFreeWhenTheCallerHasGivenUp(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient().NewLock("b")
		require.NoError(t, other.Lock(w.Caller()))
		both := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b"))
		p.Net.SetRoundTrip(10 * time.Millisecond)
		for range 20 {
			ctx, cancel := context.WithTimeout(w.Caller(), 50*time.Millisecond)
			require.ErrorIs(t, both.Lock(ctx), context.DeadlineExceeded)
			cancel()
			require.True(t, w.IsFree(p.NewLock("a")))
		}
	})
}

// The lease of the first part is over before the second one is acquired.
func TestAnAttemptAtAMultiLockIsNoLoss(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		_, p := two(t, w)
		both, me := rlock.NewMultiLock(p[0].NewLock("a"), p[1].NewLock("b")), w.Caller()
		require.NoError(t, both.Do(me, testbed.Nothing)) // the scripts are known
		p[1].Net.SetRoundTrip(500 * time.Millisecond)
		got, err := both.TryLockFor(me, 0, 200*time.Millisecond)
		require.Error(t, err)
		assert.False(t, got)
		require.NotErrorIs(t, err, rlock.ErrLost, "nothing was held")
		require.ErrorIs(t, both.Unlock(me), rlock.ErrNotHeld)
	})
}

// A hundred free names take as many round trips as one, and a command for thirty-two of them.
func TestFreeNamesAreAcquiredInOneRoundTrip(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		var locks []*rlock.Lock
		for i := range 100 {
			locks = append(locks, p.NewLock(fmt.Sprint("part", i)))
		}
		lock := rlock.NewMultiLock(locks...)
		require.NoError(t, lock.Lock(me)) // the scripts are known
		require.NoError(t, lock.Unlock(me))
		p.Net.SetRoundTrip(100 * time.Millisecond)
		sent := len(p.Net.Sent("EVALSHA"))
		testbed.Within(t, 100*time.Millisecond, 100*time.Millisecond, func() { require.NoError(t, lock.Lock(me)) })
		assert.Equal(t, 4, len(p.Net.Sent("EVALSHA"))-sent)
		require.NoError(t, lock.Unlock(me))

		require.NoError(t, w.NewClient().NewLock("part50").Lock(w.Caller()))
		testbed.Within(t, 100*time.Millisecond, 300*time.Millisecond, func() {
			taken, err := lock.TryLock(me)
			require.NoError(t, err)
			assert.False(t, taken)
		})
	})
}

// A red lock of one server has one key, and is no lock of one key.
func TestARedLockOfOneServerIsAPart(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		red := rlock.NewRedLock([]*rlock.Client{p.Client}, "b")
		lock := rlock.NewMultiLock(p.NewLock("a"), red, p.NewLock("c"))
		require.NoError(t, lock.Lock(me))
		assert.Equal(t, []string{"a", "b", "c"}, w.Keys())
		require.NoError(t, lock.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}
