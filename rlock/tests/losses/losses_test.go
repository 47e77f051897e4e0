package losses_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAKeyThatIsGoneIsALossAtTheNextRenewal(t *testing.T) {
	testbed.EachBubble(t, map[string]func(w *testbed.World){
		"gone":                  func(w *testbed.World) { w.Del(testbed.Key) },
		"another's":             func(w *testbed.World) { w.Del(testbed.Key); w.HSet(testbed.Key, "another:7", "1") },
		"a string in its place": func(w *testbed.World) { w.Del(testbed.Key); _ = w.Set(testbed.Key, "text") },
		"flushed":               func(w *testbed.World) { w.FlushAll() },
		"a list in its place":   func(w *testbed.World) { w.Del(testbed.Key); _, _ = w.Push(testbed.Key, "a") },
	}, func(t *testing.T, w *testbed.World, replace func(w *testbed.World)) {
		hold := testbed.Take(t, w.Caller(), w.NewClient().NewLock(testbed.Key))
		replace(w)
		before := w.Dump()
		testbed.Within(t, 9*time.Second, 10*time.Second+10*time.Millisecond, func() { testbed.RequireLoss(t, w.Ctx, hold) })
		assert.Equal(t, before, w.Dump(), "the new value must not change")
	})
}

func TestALossFreesTheLocalQueue(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		if len(w.Worlds) > 1 {
			return // a part that is lost without the client's knowledge may be handed off
		}
		p, me, next := w.NewProcess(), w.Caller(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		result := testbed.Waits(t, func() error { return lock.Rival.Lock(next) })
		w.Forget(testbed.Key)
		testbed.Within(t, 0, 10*time.Second+10*time.Millisecond, func() { require.NoError(t, <-result, "the renewal does not find the loss") })
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		assert.True(t, lock.Rival.IsHeld(next), "the next holder's lock is touched")
		require.NoError(t, lock.Rival.Unlock(next))
	})
}

// A client that has reconnected asks at once whether its locks are still there.

func TestAServerWithoutTheDataIsFoundOutWhenTheConnectionComesBack(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		hold := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		w.Settle()
		for _, world := range w.Worlds {
			world.FlushAll() // a restart without the data
		}
		p.Networks(func(n *network.Network) { n.Cut() })
		testbed.Within(t, 0, 100*time.Millisecond, func() { testbed.RequireLoss(t, w.Ctx, hold) })
	})
}

func TestVerifyingTakesFewCommandsHoweverOftenConnectionsEnd(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(w.Ctx))
		}
		before := len(p.Net.Sent("EVALSHA"))
		for range 50 { // in 5 seconds
			p.Net.Cut()
			time.Sleep(100 * time.Millisecond)
		}
		assert.Less(t, len(p.Net.Sent("EVALSHA"))-before, 2*10*320/32, "batches, soon once a second, and those that a cut has interrupted; 50 times without the pauses")
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Unlock(w.Ctx))
		}
	})
}

// unlogged discards the log of a client that loses many locks.
func unlogged(c *rlock.Config) { c.Logger = testbed.Quiet }

func TestAfterALossTheOwnerMustUnlockBeforeItMayLockAgain(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		hold := testbed.Take(t, me, lock)
		w.Forget(testbed.Key)
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost, "the cause of the loss stays")
		assert.Positive(t, p.Logged("lock lost"))
		for range 2 {
			require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
			require.ErrorIs(t, testbed.ErrorOf(lock.TryLock(me)), rlock.ErrLost)
			require.NoError(t, lock.Lock(w.Caller()), "others may")
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			w.Forget(testbed.Key)
			time.Sleep(11 * time.Second)
		}
		require.NoError(t, lock.Lock(me), "after all levels are unlocked")
		require.NoError(t, lock.Unlock(me))
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
	})
}

func TestAnUnlockDoesNotDenyALossThatIsForgotten(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(unlogged)
		first, me := p.NewFencedLock(testbed.Key), w.Caller()
		require.NoError(t, first.LockFor(me, time.Second))
		time.Sleep(time.Second)
		_, err := first.Token(w.Caller())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "all losses are remembered")

		read := p.NewReadWriteLock("many").Read() // its owners are one reader to Redis
		for range 11_000 {                        // more than a client remembers
			require.NoError(t, read.LockFor(w.Caller(), time.Second))
		}
		last, lastOwner := p.NewLock("last"), w.Caller()
		require.NoError(t, last.LockFor(lastOwner, 2*time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		either := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, rlock.ErrNotHeld)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		either(first.Unlock(me))
		_, err = first.Token(me)
		either(err)
		either(last.Unlock(me))
		either(rlock.NewMultiLock(first, last).Unlock(me))

		err = last.Unlock(lastOwner)
		require.ErrorIs(t, err, rlock.ErrLost)
		require.NotErrorIs(t, err, rlock.ErrNotHeld, "the latest loss is remembered")

		hold := testbed.Take(t, w.Ctx, first)
		require.NoError(t, hold.Release(w.Ctx))
		err = hold.Release(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "a handle remembers its own loss")
	})
}

// A holder that waits for the end of its hold may take the lock again at that moment, which
// is shortly before the lease in Redis ends.
func TestAfterAFixedLeaseHasEndedTheOwnerMayLockAgainAtOnce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		hold := testbed.Take(t, me, lock, rlock.WithLease(time.Second))
		<-hold.Context().Done()
		require.NoError(t, lock.Do(me, testbed.Nothing))
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)

		require.NoError(t, lock.LockFor(me, time.Second))
		time.Sleep(time.Second)
		assert.False(t, lock.IsHeld(me))
		require.NoError(t, lock.LockFor(me, time.Second))
		require.NoError(t, lock.Unlock(me), "the second")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost, "the first")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
	})
}
