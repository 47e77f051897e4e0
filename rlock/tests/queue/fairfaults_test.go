package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Fair locks whose clients die, freeze or lose messages, or whose keys are changed, in virtual time.

// withWaiters runs do while one client holds the lock and two others wait, in this order. It
// returns how long after the unlock the second waiter gets the lock.
func withWaiters(t *testing.T, do func(w *testbed.World, first *testbed.Client)) time.Duration {
	var took time.Duration
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, first, second := w.NewClient(), w.NewClient(), w.NewClient()
		me, them := w.Caller(), w.Caller()
		lock := holder.NewFairLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		w.Waiting(first, w.Caller())
		got := w.Waiting(second, them)
		do(w, first)
		freed := time.Now()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-got)
		took = time.Since(freed)
		time.Sleep(10 * time.Second)
		require.True(t, second.NewFairLock(testbed.Key).IsHeld(them))
		require.NoError(t, second.NewFairLock(testbed.Key).Unlock(them))
		assert.Empty(t, w.Queued())
	})
	return took
}

func TestADeadWaiterIsSkippedAtOnce(t *testing.T) {
	assert.Zero(t, withWaiters(t, func(_ *testbed.World, first *testbed.Client) { first.Die() }))
}

func TestAWaiterThatDiesWithTheGrantOnItsWayCostsThreeSecondsAtMost(t *testing.T) {
	took := withWaiters(t, func(_ *testbed.World, first *testbed.Client) { first.Net.Rule(network.Silence) })
	assert.GreaterOrEqual(t, took, 2*time.Second, "the dead client's claim has not ended")
	assert.LessOrEqual(t, took, 3*time.Second)
}

func TestAGrantWhoseMessageIsLostIsFoundByTheNextLook(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		got := w.Waiting(p, them)
		p.Net.Rule(network.All(network.Drop, network.Push))
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, <-got) })
		assert.GreaterOrEqual(t, w.TTL(testbed.Key), 29*time.Second, "a client that asks gets the whole lease")
		require.NoError(t, p.NewFairLock(testbed.Key).Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestWhenAHolderDiesTheFirstInTheQueueHasItsLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, l := w.NewClient(testbed.WithLease(3*time.Second)), &testbed.Line{World: w}
		begin := time.Now()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(w.Caller()))
		clients := []*testbed.Client{w.NewClient(), w.NewClient(), w.NewClient()}
		for i := range 9 {
			l.Join(clients[2-i%3])
		}
		holder.Die()
		l.Waiters.Wait()
		assert.Less(t, time.Since(begin), 4*time.Second)
		assert.True(t, slices.IsSorted(l.Order[:3]), "%v", l.Order)
		assert.Zero(t, l.Order[0])
	})
}

func TestAGrantedLockIsRenewedByTheWatchdog(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		got := w.Waiting(p, them)
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		require.NoError(t, <-got)
		synctest.Wait() // until the commands that follow the grant are sent
		before := len(p.Net.Sent(""))
		time.Sleep(100 * time.Millisecond)
		assert.Len(t, p.Net.Sent(""), before, "a short section needs no command")
		assert.LessOrEqual(t, w.TTL(testbed.Key), 2*time.Second)
		for range 100 {
			time.Sleep(time.Second)
			require.True(t, p.NewFairLock(testbed.Key).IsHeld(them))
			require.GreaterOrEqual(t, w.TTL(testbed.Key), 19*time.Second)
		}
		require.NoError(t, p.NewFairLock(testbed.Key).Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestAFixedLeaseThatIsGrantedEndsOnTime(t *testing.T) {
	for _, ask := range []time.Duration{time.Second, 10 * time.Second} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			holder, p, me := w.NewClient(), w.NewClient(), w.Caller()
			require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
			var hold *rlock.Hold
			got := testbed.Start(func() (err error) {
				hold, err = p.NewFairLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(ask))
				return err
			})
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
			require.NoError(t, <-got)
			testbed.Within(t, ask-2*testbed.Drift, ask+2*testbed.Drift, func() { <-hold.Context().Done() })
			require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
			synctest.Wait()
			assert.Empty(t, w.Keys())
		})
	}
}

// A client trusts a late grant for no longer than Redis keeps it.
func TestALateGrantIsNeverBelievedForLongerThanRedisKeepsIt(t *testing.T) {
	for late := 50 * time.Millisecond; late < 5*time.Second; late += 150 * time.Millisecond {
		t.Run(late.String(), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				holder, p, other := w.NewClient(), w.NewClient(), w.NewClient()
				me, them := w.Caller(), w.Caller()
				require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
				hold := make(chan *rlock.Hold, 1)
				go func() {
					h, err := p.NewFairLock(testbed.Key).Acquire(w.Ctx)
					assert.NoError(t, err)
					hold <- h
				}()
				w.Eventually(func() bool { return len(w.Queued()) == 1 }, "the ticket is in the queue")
				time.Sleep(rand.N(600 * time.Millisecond))
				p.Net.Rule(network.Silence)
				require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
				rival := testbed.Start(func() error { return other.NewFairLock(testbed.Key).LockFor(them, 500*time.Millisecond) })
				time.Sleep(late)
				p.Net.Rule(nil)
				p.Net.Deliver()
				h := <-hold
				if until := h.ValidUntil(); !until.IsZero() {
					require.Len(t, w.Fields(testbed.Key), 1)
					require.Contains(t, w.Fields(testbed.Key)[0], p.ID(), "the client is not the holder")
					require.LessOrEqual(t, time.Until(until), w.TTL(testbed.Key))
				}
				require.NoError(t, h.Release(w.Ctx))
				require.NoError(t, <-rival)
				time.Sleep(time.Second)
				assert.Empty(t, w.Queued())
			})
		})
	}
}

func TestAClientThatLosesItsConnectionQueuesAgain(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, first, second := w.NewClient(), w.NewClient(), w.NewClient()
		me := w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		l := &testbed.Line{World: w}
		l.Join(first)
		l.Join(first)
		l.Join(second)
		first.Net.Refuse()
		first.Net.Cut()
		time.Sleep(time.Second)
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		synctest.Wait()
		time.Sleep(testbed.Section)
		synctest.Wait()
		assert.Equal(t, []int{2}, l.Order, "other waiters got the lock")
		first.Net.Heal()
		l.Waiters.Wait()
		assert.Len(t, l.Order, 3)
		time.Sleep(time.Second)
		assert.Empty(t, w.Keys())
	})
}

func TestAQueueThatRedisLosesIsMadeAgain(t *testing.T) {
	for name, lose := range map[string]func(*testbed.World){
		"with the lock":    func(w *testbed.World) { w.FlushAll() },
		"without the lock": func(w *testbed.World) { w.Del(testbed.Queue) },
		"but not the lock": func(w *testbed.World) { w.Del(testbed.Key) },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				holder, l := w.NewClient(), &testbed.Line{World: w}
				me := w.Caller()
				require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
				clients := []*testbed.Client{w.NewClient(), w.NewClient()}
				for i := range 10 {
					l.Join(clients[i%2])
				}
				lose(w)
				time.Sleep(time.Second)
				_ = holder.NewFairLock(testbed.Key).Unlock(me)
				l.Waiters.Wait()
				assert.Len(t, l.Order, 10)
				time.Sleep(time.Second)
				assert.Empty(t, w.Keys())
			})
		})
	}
}

func TestCloseEndsTheWaitAndLeavesTheQueue(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, closes, stays, them := w.NewClient(), w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(w.Caller()))
		var ended []<-chan error
		for range 3 {
			ended = append(ended, w.Waiting(closes, w.Caller()))
		}
		got := w.Waiting(stays, them)
		require.NoError(t, closes.Close())
		for _, result := range ended {
			require.ErrorIs(t, <-result, rlock.ErrClosed)
		}
		assert.Len(t, w.Queued(), 1)
		require.NoError(t, holder.Close())
		require.NoError(t, <-got)
		require.NoError(t, stays.NewFairLock(testbed.Key).Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestAForcedUnlockIsForTheFirstInTheQueue(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p, admin, me, them := w.NewClient(), w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		got := w.Waiting(p, them)
		testbed.Within(t, 0, 0, func() {
			freed, err := admin.NewFairLock(testbed.Key).ForceUnlock(w.Ctx)
			require.NoError(t, err)
			assert.True(t, freed)
			require.NoError(t, <-got)
		})
		require.ErrorIs(t, holder.NewFairLock(testbed.Key).Unlock(me), rlock.ErrLost)
		require.NoError(t, p.NewFairLock(testbed.Key).Unlock(them))
	})
}

// To Redis, the waiters of a suspended machine look subscribed.
func TestAFrozenClientCostsOneClaimHoweverManyWaitInIt(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, frozen, p, me, them := w.NewClient(), w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		var late []<-chan error
		for range 20 {
			late = append(late, testbed.Start(func() error { return frozen.NewFairLock(testbed.Key).Do(w.Caller(), testbed.Nothing) }))
		}
		w.Eventually(func() bool { return len(w.Queued()) == 20 }, "all tickets are in the queue")
		got := w.Waiting(p, them)
		frozen.Net.Rule(network.Silence)
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		testbed.Within(t, 2*time.Second, 3*time.Second, func() { require.NoError(t, <-got) })
		assert.Empty(t, w.Queued())

		frozen.Net.Heal()
		time.Sleep(time.Second)
		assert.Len(t, w.Queued(), 20, "a resumed waiter joins again")
		require.NoError(t, p.NewFairLock(testbed.Key).Unlock(them))
		for _, result := range late {
			require.NoError(t, <-result)
		}
		assert.Empty(t, w.Keys())
	})
}

func TestAKeyThatIsNoQueueIsNamedAndKeepsNoLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p, me := w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		waits := w.Waiting(p, w.Caller())
		w.Del(testbed.Queue)
		require.NoError(t, w.Set(testbed.Queue, "precious"))
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, rlock.ErrWrongType)
			require.ErrorContains(t, err, testbed.Queue)
		}
		refused(<-waits)
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		assert.Equal(t, []string{testbed.Queue}, w.Keys(), "the queue's key changed, or the lock is not free")
		_, err := p.NewFairLock(testbed.Key).TryLock(w.Caller())
		refused(err)
		w.CheckGet(t, testbed.Queue, "precious")
		w.Del(testbed.Queue)
	})
}

func TestAHolderThatDiesLeavesNothingForLongerThanItsLease(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p, me := w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		got := w.Waiting(p, w.Caller())
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		require.NoError(t, <-got)
		p.Die()
		time.Sleep(3 * time.Second) // the rest of the claim
		assert.Empty(t, w.Keys())
	})
}
