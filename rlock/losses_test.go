package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lostTwice returns a lock that its owner has locked, and then acquired, and lost.
func (w *virtualKind) lostTwice() (p *peer, lock *trial, me context.Context, hold *rlock.Hold) {
	p, me = w.process(), w.caller()
	lock = p.lock(key)
	require.NoError(w.t, lock.Lock(me))
	hold, err := lock.Acquire(me)
	require.NoError(w.t, err)
	w.forget(key)
	time.Sleep(11 * time.Second)
	return p, lock, me, hold
}

func TestALossIsReportedOnceAndThenTheLockIsNotHeld(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, lock, me, hold := w.lostTwice()
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost, "the cause of the loss stays")
		assert.Positive(t, p.logged("lock lost"))
	})
}

func TestReleasingALostHoldTwiceTakesNothingFromTheOwnersOtherLevels(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		_, lock, me, hold := w.lostTwice()
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
	})
}

func TestAKeyThatIsGoneIsALossAtTheNextRenewal(t *testing.T) {
	for name, replace := range map[string]func(w *world){
		"gone":                  func(w *world) { w.Del(key) },
		"another's":             func(w *world) { w.Del(key); w.HSet(key, "another:7", "1") },
		"a string in its place": func(w *world) { w.Del(key); _ = w.Set(key, "text") },
		"flushed":               func(w *world) { w.FlushAll() },
		"a list in its place":   func(w *world) { w.Del(key); _, _ = w.Push(key, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				hold, err := w.client().NewLock(key).Acquire(w.caller())
				require.NoError(t, err)
				replace(w)
				before := w.Dump()
				within(t, 9*time.Second, 10*time.Second+10*time.Millisecond, func() { <-hold.Context().Done() })
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
				require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
				assert.Equal(t, before, w.Dump(), "the new value must not change")
			})
		})
	}
}

// An operator, or a forceUnlock() in Java, frees a lock with a long lease.
func TestAKeyThatIsGoneLongBeforeTheEndOfAFixedLeaseIsALossAsSoon(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me, next := w.client(), w.caller(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.LockFor(me, time.Hour))
		waiter := start(func() error { return lock.Lock(next) })
		time.Sleep(5 * time.Minute)
		require.True(t, pending(waiter))
		assert.InDelta(t, 55*time.Minute, w.ttl(key), float64(time.Second), "a query must not extend the lease")
		w.Del(key)
		within(t, 0, 10*time.Second+10*time.Millisecond, func() { require.NoError(t, <-waiter) })
		assert.False(t, lock.IsHeld(me))
		synctest.Wait() // until the loss is logged
		assert.Equal(t, 1, p.logged("level=WARN msg=\"rlock: lock lost\""), "unlike the end of the lease, the loss is logged as a warning")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.NoError(t, lock.Unlock(next))
	})
}

func TestUnlockOfALockThatAnotherOwnerHasReportsALoss(t *testing.T) {
	for name, replace := range map[string]func(w *world){
		"gone":                  func(w *world) { w.Del(key) },
		"another's":             func(w *world) { w.Del(key); w.HSet(key, "another:7", "1") },
		"a string in its place": func(w *world) { w.Del(key); _ = w.Set(key, "text") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				lock, me := w.client().NewLock(key), w.caller()
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
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		if len(w.worlds) > 1 {
			return // a part that is lost without the client's knowledge may be handed off
		}
		p, me, next := w.process(), w.caller(), w.caller()
		lock := p.lock(key)
		require.NoError(t, lock.Lock(me))
		result := start(func() error { return lock.rival.Lock(next) })
		require.True(t, pending(result))
		w.forget(key)
		within(t, 0, 10*time.Second+10*time.Millisecond, func() { require.NoError(t, <-result, "the renewal does not find the loss") })
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		assert.True(t, lock.rival.IsHeld(next), "the next holder's lock is touched")
		require.NoError(t, lock.rival.Unlock(next))
	})
}

// A client that has reconnected asks at once whether its locks are still there.

func TestAServerWithoutTheDataIsFoundOutWhenTheConnectionComesBack(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		hold, err := p.lock(key).Acquire(w.ctx)
		require.NoError(t, err)
		w.settle()
		for _, world := range w.worlds {
			world.FlushAll() // a restart without the data
		}
		p.networks(func(n *network.Network) { n.Cut() })
		within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

// Connections are refused for a while, as during a failover.
func TestALossByAFailoverIsReportedSoonAfterTheNewPrimaryAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		w.FlushAll()
		p.net.Refuse()
		time.Sleep(5 * time.Second)
		require.NoError(t, context.Cause(hold.Context()), "no server has answered")
		p.net.Heal()
		within(t, 0, 100*time.Millisecond, func() { // with the first command that is answered
			require.NoError(t, p.NewLock("another").Do(w.ctx, nothing))
			<-hold.Context().Done()
		})
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

func TestASecondLossIsReportedAsSoonAsTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for range 2 {
			hold, err := p.NewLock(key).Acquire(w.ctx)
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
			w.FlushAll()
			p.net.Cut()
			within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
			require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		}
	})
}

func TestVerifyingTakesFewCommandsHoweverOftenConnectionsEnd(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(w.ctx))
		}
		before := len(p.net.Sent("EVALSHA"))
		for range 50 { // in 5 seconds
			p.net.Cut()
			time.Sleep(100 * time.Millisecond)
		}
		assert.Less(t, len(p.net.Sent("EVALSHA"))-before, 2*10*320/32, "batches, soon once a second, and those that a cut has interrupted; 50 times without the pauses")
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Unlock(w.ctx))
		}
	})
}
