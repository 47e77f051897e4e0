package rlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The readers of one client share a tenure.

func TestReadersThatJoinReadersSendNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, first := w.rwClient(), w.caller()
		require.NoError(t, l.read.Lock(first))
		synctest.Wait()
		before := len(l.net.Sent(""))
		for range 50 {
			reader := w.caller()
			require.NoError(t, l.read.Lock(reader))
			require.NoError(t, l.read.Lock(reader))
			hold, err := l.read.Acquire(w.ctx)
			require.NoError(t, err)
			require.NoError(t, l.read.Unlock(reader))
			require.NoError(t, hold.Release(w.ctx))
			require.NoError(t, l.read.Unlock(reader))
		}
		synctest.Wait()
		assert.Len(t, l.net.Sent(""), before)
		require.NoError(t, l.read.Unlock(first))
		assert.Empty(t, w.Keys())
	})
}

func TestTheFirstReaderMayLeaveBeforeTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, first, second := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(first))
		require.NoError(t, l.read.Lock(second))
		require.NoError(t, l.read.Unlock(first))
		require.ErrorIs(t, l.read.Unlock(first), rlock.ErrNotHeld)
		time.Sleep(5 * time.Minute)
		assert.True(t, l.read.IsHeld(second))
		assert.False(t, w.try(there.write))
		require.NoError(t, l.read.Unlock(second))
		assert.True(t, w.try(there.write))
	})
}

// They have met a writer, and stay subscribed for a while. No client waits until the
// subscriptions end.
func TestReadersOfTwoClientsDoNotTakeTurns(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		here, there, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, here.write.Lock(me))
		end := time.Now().Add(5 * time.Second)
		var all sync.WaitGroup
		var mu sync.Mutex
		reads, idle, longest := 0, time.Duration(0), time.Duration(0)
		for i, l := range []rwClient{here, there} {
			for j := range 8 {
				reader := w.caller()
				all.Go(func() {
					time.Sleep(time.Duration(i*8+j) * time.Millisecond)
					for time.Now().Before(end) {
						began := time.Now()
						assert.NoError(t, l.read.Lock(reader))
						waited := time.Since(began)
						time.Sleep(5 * time.Millisecond)
						assert.NoError(t, l.read.Unlock(reader))
						mu.Lock()
						reads++
						if reads > 16 { // the first 16 have waited for the writer
							idle += waited
							longest = max(longest, waited)
						}
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, here.write.Unlock(me))
		all.Wait()
		commands := evalshas(here.net.Sent("")) + evalshas(there.net.Sent(""))
		t.Logf("%d reads, %v waited, %v at most; %d commands", reads, idle/16, longest, commands)
		assert.Less(t, idle/16, 2*time.Second)
		assert.Less(t, longest, 200*time.Millisecond)
		assert.Less(t, 10*commands, 2*reads)
	})
}

func TestTheFixedLeaseOfOneReaderEndsForItAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there := w.rwClient(), w.rwClient()
		begin := time.Now()
		watched, fixed, nested := w.caller(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(watched))
		require.NoError(t, l.read.LockFor(fixed, 2*time.Second))
		hold, err := l.read.Acquire(w.ctx, rlock.WithLease(time.Second))
		require.NoError(t, err)
		other, err := l.read.Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, l.read.LockFor(nested, time.Minute))
		require.NoError(t, l.read.LockFor(nested, time.Second))
		assert.Equal(t, begin.Add(time.Second), hold.ValidUntil())

		<-hold.Context().Done()
		assert.Equal(t, time.Second, time.Since(begin).Round(10*time.Millisecond))
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, hold.Valid())
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		assert.Equal(t, 2, l.read.HoldCount(nested), "an owner has the longest lease of its levels")
		assert.True(t, l.read.IsHeld(fixed))

		time.Sleep(time.Until(begin.Add(2 * time.Second)))
		assert.False(t, l.read.IsHeld(fixed))
		require.ErrorIs(t, l.read.Unlock(fixed), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(fixed), rlock.ErrNotHeld)
		assert.True(t, l.read.IsHeld(watched))
		assert.True(t, other.Valid())
		require.NoError(t, l.read.Unlock(watched))
		require.NoError(t, other.Release(w.ctx))

		time.Sleep(30 * time.Second)
		assert.True(t, l.read.IsHeld(nested))
		assert.False(t, w.try(there.write))
		require.NoError(t, l.read.Unlock(nested))
		require.NoError(t, l.read.Unlock(nested))
		assert.True(t, w.try(there.write))
	})
}

// The inner lease ended while an outer level of a reader or a writer kept it, and other
// owners read on.
func TestAnOutlastedFixedLeaseEndsWhenNoOtherLevelKeepsTheLock(t *testing.T) {
	for _, outer := range []func(rwClient) locker{
		func(l rwClient) locker { return l.read },
		func(l rwClient) locker { return l.write },
	} {
		bubbleAlone(t, func(t *testing.T, w *world) {
			l, me, other := w.rwClient(), w.caller(), w.caller()
			require.NoError(t, outer(l).Lock(me))
			hold, err := l.read.Acquire(me, rlock.WithLease(time.Second))
			require.NoError(t, err)
			reads := start(func() error { return l.read.Lock(other) }) // at once, or when no owner writes
			time.Sleep(2 * time.Second)
			require.True(t, hold.Valid())
			require.NoError(t, outer(l).Unlock(me))
			require.NoError(t, <-reads)
			synctest.Wait()
			require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
			require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
			assert.Zero(t, l.read.HoldCount(me))
			assert.True(t, l.read.IsHeld(other))
			require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
			require.NoError(t, l.read.Unlock(other))
			assert.Empty(t, w.Keys())
		})
	}
}

func TestTheFixedLeaseOfOneReaderEndsOnTimeThoughRedisIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, l.read.Lock(me))
		time.Sleep(9 * time.Second)
		hold, err := l.read.Acquire(w.ctx, rlock.WithLease(1500*time.Millisecond))
		require.NoError(t, err)
		l.net.Rule(network.Silence) // the renewal a second later is in flight
		within(t, 1500*time.Millisecond, 1600*time.Millisecond, func() { <-hold.Context().Done() })
		assert.True(t, l.read.IsHeld(me))
		l.net.Heal()
		require.NoError(t, l.read.Unlock(me))
	})
}

func TestEveryReaderIsNotifiedOfALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me, other := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, l.read.Lock(other))
		require.NoError(t, l.read.Lock(other))
		hold, err := l.read.Acquire(w.ctx)
		require.NoError(t, err)
		w.Del(key)
		<-hold.Context().Done()
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.NoError(t, there.write.Lock(me))
		require.ErrorIs(t, l.read.Lock(other), rlock.ErrLost, "a lost lock must be unlocked first")
		require.ErrorIs(t, l.write.Lock(other), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(other), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(other), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(other), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		synctest.Wait()
		assert.Equal(t, 1, l.logged("lock lost"), "one line for all readers")
		require.NoError(t, there.write.Unlock(me))
	})
}

// Two clients read. One of them dies; the other renews its own lease only.
func TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alive, dead, l := w.rwClient(), w.rwClient(), w.rwClient()
		me := w.caller()
		require.NoError(t, dead.read.Lock(w.caller()))
		require.NoError(t, alive.read.Lock(me))
		dead.net.Refuse()
		writer := w.caller()
		waiting := start(func() error { return l.write.Lock(writer) })
		time.Sleep(time.Minute)
		require.True(t, pending(waiting), "the living client reads")
		assert.Len(t, w.Keys(), 3, "the hash, one reader's key, and that of the waiting writer")
		within(t, 0, 0, func() {
			require.NoError(t, alive.read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, l.write.Unlock(writer))
		assert.Empty(t, w.Keys())
	})
}
