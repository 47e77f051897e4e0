package kinds_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The readers of one client share a tenure.

func TestReadersThatJoinReadersSendNothing(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, first := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Read.Lock(first))
		synctest.Wait()
		before := len(l.Net.Sent(""))
		for range 50 {
			reader := w.Caller()
			require.NoError(t, l.Read.Lock(reader))
			require.NoError(t, l.Read.Lock(reader))
			hold, err := l.Read.Acquire(w.Ctx)
			require.NoError(t, err)
			require.NoError(t, l.Read.Unlock(reader))
			require.NoError(t, hold.Release(w.Ctx))
			require.NoError(t, l.Read.Unlock(reader))
		}
		synctest.Wait()
		assert.Len(t, l.Net.Sent(""), before)
		require.NoError(t, l.Read.Unlock(first))
		assert.Empty(t, w.Keys())
	})
}

func TestTheFirstReaderMayLeaveBeforeTheOthers(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there, first, second := w.NewRWClient(), w.NewRWClient(), w.Caller(), w.Caller()
		require.NoError(t, l.Read.Lock(first))
		require.NoError(t, l.Read.Lock(second))
		require.NoError(t, l.Read.Unlock(first))
		require.ErrorIs(t, l.Read.Unlock(first), rlock.ErrNotHeld)
		time.Sleep(5 * time.Minute)
		assert.True(t, l.Read.IsHeld(second))
		assert.False(t, w.IsFree(there.Write))
		require.NoError(t, l.Read.Unlock(second))
		assert.True(t, w.IsFree(there.Write))
	})
}

// They have met a writer, and stay subscribed for a while. No client waits until the
// subscriptions end.
func TestReadersOfTwoClientsDoNotTakeTurns(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, here.Write.Lock(me))
		end := time.Now().Add(5 * time.Second)
		var all sync.WaitGroup
		var mu sync.Mutex
		reads, idle, longest := 0, time.Duration(0), time.Duration(0)
		for i, l := range []testbed.RWClient{here, there} {
			for j := range 8 {
				reader := w.Caller()
				all.Go(func() {
					time.Sleep(time.Duration(i*8+j) * time.Millisecond)
					for time.Now().Before(end) {
						began := time.Now()
						assert.NoError(t, l.Read.Lock(reader))
						waited := time.Since(began)
						time.Sleep(5 * time.Millisecond)
						assert.NoError(t, l.Read.Unlock(reader))
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
		require.NoError(t, here.Write.Unlock(me))
		all.Wait()
		commands := testbed.Evalshas(here.Net.Sent("")) + testbed.Evalshas(there.Net.Sent(""))
		t.Logf("%d reads, %v waited, %v at most; %d commands", reads, idle/16, longest, commands)
		assert.Less(t, idle/16, 2*time.Second)
		assert.Less(t, longest, 200*time.Millisecond)
		assert.Less(t, 10*commands, 2*reads)
	})
}

func TestTheFixedLeaseOfOneReaderEndsForItAlone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there := w.NewRWClient(), w.NewRWClient()
		begin := time.Now()
		watched, fixed, nested := w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, l.Read.Lock(watched))
		require.NoError(t, l.Read.LockFor(fixed, 2*time.Second))
		hold, err := l.Read.Acquire(w.Ctx, rlock.WithLease(time.Second))
		require.NoError(t, err)
		other, err := l.Read.Acquire(w.Ctx)
		require.NoError(t, err)
		require.NoError(t, l.Read.LockFor(nested, time.Minute))
		require.NoError(t, l.Read.LockFor(nested, time.Second))
		assert.Equal(t, begin.Add(time.Second), hold.ValidUntil())

		<-hold.Context().Done()
		assert.Equal(t, time.Second, time.Since(begin).Round(10*time.Millisecond))
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, hold.Valid())
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		assert.Equal(t, 2, l.Read.HoldCount(nested), "an owner has the longest lease of its levels")
		assert.True(t, l.Read.IsHeld(fixed))

		time.Sleep(time.Until(begin.Add(2 * time.Second)))
		assert.False(t, l.Read.IsHeld(fixed))
		require.ErrorIs(t, l.Read.Unlock(fixed), rlock.ErrLost)
		require.ErrorIs(t, l.Read.Unlock(fixed), rlock.ErrNotHeld)
		assert.True(t, l.Read.IsHeld(watched))
		assert.True(t, other.Valid())
		require.NoError(t, l.Read.Unlock(watched))
		require.NoError(t, other.Release(w.Ctx))

		time.Sleep(30 * time.Second)
		assert.True(t, l.Read.IsHeld(nested))
		assert.False(t, w.IsFree(there.Write))
		require.NoError(t, l.Read.Unlock(nested))
		require.NoError(t, l.Read.Unlock(nested))
		assert.True(t, w.IsFree(there.Write))
	})
}

// The inner lease ended while an outer level of a reader or a writer kept it, and other
// owners read on.
func TestAnOutlastedFixedLeaseEndsWhenNoOtherLevelKeepsTheLock(t *testing.T) {
	for _, outer := range []func(testbed.RWClient) testbed.Locker{
		func(l testbed.RWClient) testbed.Locker { return l.Read },
		func(l testbed.RWClient) testbed.Locker { return l.Write },
	} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			l, me, other := w.NewRWClient(), w.Caller(), w.Caller()
			require.NoError(t, outer(l).Lock(me))
			hold, err := l.Read.Acquire(me, rlock.WithLease(time.Second))
			require.NoError(t, err)
			reads := testbed.Start(func() error { return l.Read.Lock(other) }) // at once, or when no owner writes
			time.Sleep(2 * time.Second)
			require.True(t, hold.Valid())
			require.NoError(t, outer(l).Unlock(me))
			require.NoError(t, <-reads)
			synctest.Wait()
			require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
			require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
			assert.Zero(t, l.Read.HoldCount(me))
			assert.True(t, l.Read.IsHeld(other))
			require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
			require.NoError(t, l.Read.Unlock(other))
			assert.Empty(t, w.Keys())
		})
	}
}

func TestTheFixedLeaseOfOneReaderEndsOnTimeThoughRedisIsSilent(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Read.Lock(me))
		time.Sleep(9 * time.Second)
		hold, err := l.Read.Acquire(w.Ctx, rlock.WithLease(1500*time.Millisecond))
		require.NoError(t, err)
		l.Net.Rule(network.Silence) // the renewal a second later is in flight
		testbed.Within(t, 1500*time.Millisecond, 1600*time.Millisecond, func() { <-hold.Context().Done() })
		assert.True(t, l.Read.IsHeld(me))
		l.Net.Heal()
		require.NoError(t, l.Read.Unlock(me))
	})
}

func TestEveryReaderIsNotifiedOfALoss(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there, me, other := w.NewRWClient(), w.NewRWClient(), w.Caller(), w.Caller()
		require.NoError(t, l.Read.Lock(me))
		require.NoError(t, l.Read.Lock(other))
		require.NoError(t, l.Read.Lock(other))
		hold, err := l.Read.Acquire(w.Ctx)
		require.NoError(t, err)
		w.Del(testbed.Key)
		<-hold.Context().Done()
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.NoError(t, there.Write.Lock(me))
		require.ErrorIs(t, l.Read.Lock(other), rlock.ErrLost, "a lost lock must be unlocked first")
		require.ErrorIs(t, l.Write.Lock(other), rlock.ErrLost)
		require.ErrorIs(t, l.Read.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, l.Read.Unlock(other), rlock.ErrLost)
		require.ErrorIs(t, l.Read.Unlock(other), rlock.ErrLost)
		require.ErrorIs(t, l.Read.Unlock(other), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		synctest.Wait()
		assert.Equal(t, 1, l.Logged("lock lost"), "one line for all readers")
		require.NoError(t, there.Write.Unlock(me))
	})
}

// Two clients read. One of them dies; the other renews its own lease only.
func TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		alive, dead, l := w.NewRWClient(), w.NewRWClient(), w.NewRWClient()
		me := w.Caller()
		require.NoError(t, dead.Read.Lock(w.Caller()))
		require.NoError(t, alive.Read.Lock(me))
		dead.Net.Refuse()
		writer := w.Caller()
		waiting := testbed.Start(func() error { return l.Write.Lock(writer) })
		time.Sleep(time.Minute)
		require.True(t, testbed.Pending(waiting), "the living client reads")
		assert.Len(t, w.Keys(), 3, "the hash, one reader's key, and that of the waiting writer")
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, alive.Read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, l.Write.Unlock(writer))
		assert.Empty(t, w.Keys())
	})
}
