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

// lostTwice returns a lock that its owner has locked, and then acquired, and lost.
func lostTwice(w *testbed.VirtualKind) (p *testbed.Peer, lock *testbed.Trial, me context.Context, hold *rlock.Hold) {
	p, me = w.NewProcess(), w.Caller()
	lock = p.NewLock(testbed.Key)
	require.NoError(w.T, lock.Lock(me))
	hold, err := lock.Acquire(me)
	require.NoError(w.T, err)
	w.Forget(testbed.Key)
	time.Sleep(11 * time.Second)
	return p, lock, me, hold
}

func TestALossIsReportedOnceAndThenTheLockIsNotHeld(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, lock, me, hold := lostTwice(w)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost, "the cause of the loss stays")
		assert.Positive(t, p.Logged("lock lost"))
	})
}

func TestReleasingALostHoldTwiceTakesNothingFromTheOwnersOtherLevels(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		_, lock, me, hold := lostTwice(w)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
	})
}

func TestAKeyThatIsGoneIsALossAtTheNextRenewal(t *testing.T) {
	for name, replace := range map[string]func(w *testbed.World){
		"gone":                  func(w *testbed.World) { w.Del(testbed.Key) },
		"another's":             func(w *testbed.World) { w.Del(testbed.Key); w.HSet(testbed.Key, "another:7", "1") },
		"a string in its place": func(w *testbed.World) { w.Del(testbed.Key); _ = w.Set(testbed.Key, "text") },
		"flushed":               func(w *testbed.World) { w.FlushAll() },
		"a list in its place":   func(w *testbed.World) { w.Del(testbed.Key); _, _ = w.Push(testbed.Key, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				hold, err := w.NewClient().NewLock(testbed.Key).Acquire(w.Caller())
				require.NoError(t, err)
				replace(w)
				before := w.Dump()
				testbed.Within(t, 9*time.Second, 10*time.Second+10*time.Millisecond, func() { <-hold.Context().Done() })
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
				require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
				assert.Equal(t, before, w.Dump(), "the new value must not change")
			})
		})
	}
}

// An operator, or a forceUnlock() in Java, frees a lock with a long lease.
func TestAKeyThatIsGoneLongBeforeTheEndOfAFixedLeaseIsALossAsSoon(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me, next := w.NewClient(), w.Caller(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.LockFor(me, time.Hour))
		waiter := testbed.Start(func() error { return lock.Lock(next) })
		time.Sleep(5 * time.Minute)
		require.True(t, testbed.Pending(waiter))
		assert.InDelta(t, 55*time.Minute, w.Remaining(testbed.Key), float64(time.Second), "a query must not extend the lease")
		w.Del(testbed.Key)
		testbed.Within(t, 0, 10*time.Second+10*time.Millisecond, func() { require.NoError(t, <-waiter) })
		assert.False(t, lock.IsHeld(me))
		synctest.Wait() // until the loss is logged
		assert.Equal(t, 1, p.Logged("level=WARN msg=\"rlock: lock lost\""), "unlike the end of the lease, the loss is logged as a warning")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.NoError(t, lock.Unlock(next))
	})
}

func TestUnlockOfALockThatAnotherOwnerHasReportsALoss(t *testing.T) {
	for name, replace := range map[string]func(w *testbed.World){
		"gone":                  func(w *testbed.World) { w.Del(testbed.Key) },
		"another's":             func(w *testbed.World) { w.Del(testbed.Key); w.HSet(testbed.Key, "another:7", "1") },
		"a string in its place": func(w *testbed.World) { w.Del(testbed.Key); _ = w.Set(testbed.Key, "text") },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
				require.NoError(t, lock.Lock(me))
				replace(w)
				before := w.Dump()
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
				assert.Equal(t, before, w.Dump(), "the new value must not change")
			})
		})
	}
}

func TestALossFreesTheLocalQueue(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		if len(w.Worlds) > 1 {
			return // a part that is lost without the client's knowledge may be handed off
		}
		p, me, next := w.NewProcess(), w.Caller(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		result := testbed.Start(func() error { return lock.Rival.Lock(next) })
		require.True(t, testbed.Pending(result))
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
		hold, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		w.Settle()
		for _, world := range w.Worlds {
			world.FlushAll() // a restart without the data
		}
		p.Networks(func(n *network.Network) { n.Cut() })
		testbed.Within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
	})
}

// Connections are refused for a while, as during a failover.
func TestALossByAFailoverIsReportedSoonAfterTheNewPrimaryAnswers(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		w.FlushAll()
		p.Net.Refuse()
		time.Sleep(5 * time.Second)
		require.NoError(t, context.Cause(hold.Context()), "no server has answered")
		p.Net.Heal()
		testbed.Within(t, 0, 100*time.Millisecond, func() { // with the first command that is answered
			require.NoError(t, p.NewLock("another").Do(w.Ctx, testbed.Nothing))
			<-hold.Context().Done()
		})
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
	})
}

func TestASecondLossIsReportedAsSoonAsTheFirst(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		for range 2 {
			hold, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
			w.FlushAll()
			p.Net.Cut()
			testbed.Within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
			require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		}
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
