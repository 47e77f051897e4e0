package rlock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// Fair locks whose clients die, freeze or lose messages, or whose keys are changed, in virtual time.

// waiting starts a wait of the client for the fair lock. It returns the channel of the
// result, once the ticket is in the queue.
func (w *world) waiting(p *testClient, me context.Context) <-chan error {
	w.t.Helper()
	before := len(w.queued())
	result := start(func() error { return p.NewFairLock(key).Lock(me) })
	w.eventually(func() bool { return len(w.queued()) > before }, "the ticket is in the queue")
	return result
}

// die ends the client's connections and refuses others.
func (p *testClient) die() {
	p.net.Refuse()
	p.net.Cut()
	synctest.Wait()
}

// withWaiters runs do while one client holds the lock and two others wait, in this order. It
// returns how long after the unlock the second waiter gets the lock.
func withWaiters(t *testing.T, do func(w *world, first *testClient)) time.Duration {
	var took time.Duration
	bubble(t, func(t *testing.T, w *world) {
		holder, first, second := w.client(), w.client(), w.client()
		me, them := w.caller(), w.caller()
		lock := holder.NewFairLock(key)
		require.NoError(t, lock.Lock(me))
		w.waiting(first, w.caller())
		got := w.waiting(second, them)
		do(w, first)
		freed := time.Now()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-got)
		took = time.Since(freed)
		time.Sleep(10 * time.Second)
		require.True(t, second.NewFairLock(key).IsHeld(them))
		require.NoError(t, second.NewFairLock(key).Unlock(them))
		assert.Empty(t, w.queued())
	})
	return took
}

func TestADeadWaiterIsSkippedAtOnce(t *testing.T) {
	assert.Zero(t, withWaiters(t, func(_ *world, first *testClient) { first.die() }))
}

func TestAWaiterThatDiesWithTheGrantOnItsWayCostsThreeSecondsAtMost(t *testing.T) {
	took := withWaiters(t, func(_ *world, first *testClient) { first.net.Rule(network.Silence) })
	assert.GreaterOrEqual(t, took, 2*time.Second, "the dead client's claim has not ended")
	assert.LessOrEqual(t, took, 3*time.Second)
}

func TestAGrantWhoseMessageIsLostIsFoundByTheNextLook(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		got := w.waiting(p, them)
		p.net.Rule(network.All(network.Drop, network.Push))
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		within(t, 0, 2*time.Second, func() { require.NoError(t, <-got) })
		assert.GreaterOrEqual(t, w.TTL(key), 29*time.Second, "a client that asks gets the whole lease")
		require.NoError(t, p.NewFairLock(key).Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestWhenAHolderDiesTheFirstInTheQueueHasItsLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, l := w.client(withLease(3*time.Second)), &line{world: w}
		begin := time.Now()
		require.NoError(t, holder.NewFairLock(key).Lock(w.caller()))
		clients := []*testClient{w.client(), w.client(), w.client()}
		for i := range 9 {
			l.join(clients[2-i%3])
		}
		holder.die()
		l.waiters.Wait()
		assert.Less(t, time.Since(begin), 4*time.Second)
		assert.True(t, slices.IsSorted(l.order[:3]), "%v", l.order)
		assert.Zero(t, l.order[0])
	})
}

func TestAGrantedLockIsRenewedByTheWatchdog(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		got := w.waiting(p, them)
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		require.NoError(t, <-got)
		synctest.Wait() // until the commands that follow the grant are sent
		before := len(p.net.Sent(""))
		time.Sleep(100 * time.Millisecond)
		assert.Len(t, p.net.Sent(""), before, "a short section needs no command")
		assert.LessOrEqual(t, w.TTL(key), 2*time.Second)
		for range 100 {
			time.Sleep(time.Second)
			require.True(t, p.NewFairLock(key).IsHeld(them))
			require.GreaterOrEqual(t, w.TTL(key), 19*time.Second)
		}
		require.NoError(t, p.NewFairLock(key).Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestAFixedLeaseThatIsGrantedEndsOnTime(t *testing.T) {
	for _, ask := range []time.Duration{time.Second, 10 * time.Second} {
		bubbleAlone(t, func(t *testing.T, w *world) {
			holder, p, me := w.client(), w.client(), w.caller()
			require.NoError(t, holder.NewFairLock(key).Lock(me))
			var hold *rlock.Hold
			got := start(func() (err error) {
				hold, err = p.NewFairLock(key).Acquire(w.ctx, rlock.WithLease(ask))
				return err
			})
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, holder.NewFairLock(key).Unlock(me))
			require.NoError(t, <-got)
			within(t, ask-2*drift, ask+2*drift, func() { <-hold.Context().Done() })
			require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
			synctest.Wait()
			assert.Empty(t, w.Keys())
		})
	}
}

// A client trusts a late grant for no longer than Redis keeps it.
func TestALateGrantIsNeverBelievedForLongerThanRedisKeepsIt(t *testing.T) {
	for late := 50 * time.Millisecond; late < 5*time.Second; late += 150 * time.Millisecond {
		t.Run(late.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				holder, p, other := w.client(), w.client(), w.client()
				me, them := w.caller(), w.caller()
				require.NoError(t, holder.NewFairLock(key).Lock(me))
				hold := make(chan *rlock.Hold, 1)
				go func() {
					h, err := p.NewFairLock(key).Acquire(w.ctx)
					assert.NoError(t, err)
					hold <- h
				}()
				w.eventually(func() bool { return len(w.queued()) == 1 }, "the ticket is in the queue")
				time.Sleep(rand.N(600 * time.Millisecond))
				p.net.Rule(network.Silence)
				require.NoError(t, holder.NewFairLock(key).Unlock(me))
				rival := start(func() error { return other.NewFairLock(key).LockFor(them, 500*time.Millisecond) })
				time.Sleep(late)
				p.net.Rule(nil)
				p.net.Deliver()
				h := <-hold
				if until := h.ValidUntil(); !until.IsZero() {
					require.Len(t, w.fields(key), 1)
					require.Contains(t, w.fields(key)[0], p.ID(), "the client is not the holder")
					require.LessOrEqual(t, time.Until(until), w.TTL(key))
				}
				require.NoError(t, h.Release(w.ctx))
				require.NoError(t, <-rival)
				time.Sleep(time.Second)
				assert.Empty(t, w.queued())
			})
		})
	}
}

func TestAClientThatLosesItsConnectionQueuesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, first, second := w.client(), w.client(), w.client()
		me := w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		l := &line{world: w}
		l.join(first)
		l.join(first)
		l.join(second)
		first.net.Refuse()
		first.net.Cut()
		time.Sleep(time.Second)
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		synctest.Wait()
		time.Sleep(section)
		synctest.Wait()
		assert.Equal(t, []int{2}, l.order, "other waiters got the lock")
		first.net.Heal()
		l.waiters.Wait()
		assert.Len(t, l.order, 3)
		time.Sleep(time.Second)
		assert.Empty(t, w.Keys())
	})
}

func TestAQueueThatRedisLosesIsMadeAgain(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"with the lock":    func(w *world) { w.FlushAll() },
		"without the lock": func(w *world) { w.Del(queue) },
		"but not the lock": func(w *world) { w.Del(key) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				holder, l := w.client(), &line{world: w}
				me := w.caller()
				require.NoError(t, holder.NewFairLock(key).Lock(me))
				clients := []*testClient{w.client(), w.client()}
				for i := range 10 {
					l.join(clients[i%2])
				}
				lose(w)
				time.Sleep(time.Second)
				_ = holder.NewFairLock(key).Unlock(me)
				l.waiters.Wait()
				assert.Len(t, l.order, 10)
				time.Sleep(time.Second)
				assert.Empty(t, w.Keys())
			})
		})
	}
}

func TestCloseEndsTheWaitAndLeavesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, closes, stays, them := w.client(), w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(w.caller()))
		var ended []<-chan error
		for range 3 {
			ended = append(ended, w.waiting(closes, w.caller()))
		}
		got := w.waiting(stays, them)
		require.NoError(t, closes.Close())
		for _, result := range ended {
			require.ErrorIs(t, <-result, rlock.ErrClosed)
		}
		assert.Len(t, w.queued(), 1)
		require.NoError(t, holder.Close())
		require.NoError(t, <-got)
		require.NoError(t, stays.NewFairLock(key).Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestAForcedUnlockIsForTheFirstInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, admin, me, them := w.client(), w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		got := w.waiting(p, them)
		within(t, 0, 0, func() {
			freed, err := admin.NewFairLock(key).ForceUnlock(w.ctx)
			require.NoError(t, err)
			assert.True(t, freed)
			require.NoError(t, <-got)
		})
		require.ErrorIs(t, holder.NewFairLock(key).Unlock(me), rlock.ErrLost)
		require.NoError(t, p.NewFairLock(key).Unlock(them))
	})
}

// To Redis, the waiters of a suspended machine look subscribed.
func TestAFrozenClientCostsOneClaimHoweverManyWaitInIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, frozen, p, me, them := w.client(), w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		var late []<-chan error
		for range 20 {
			late = append(late, start(func() error { return frozen.NewFairLock(key).Do(w.caller(), nothing) }))
		}
		w.eventually(func() bool { return len(w.queued()) == 20 }, "all tickets are in the queue")
		got := w.waiting(p, them)
		frozen.net.Rule(network.Silence)
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		within(t, 2*time.Second, 3*time.Second, func() { require.NoError(t, <-got) })
		assert.Empty(t, w.queued())

		frozen.net.Heal()
		time.Sleep(time.Second)
		assert.Len(t, w.queued(), 20, "a resumed waiter joins again")
		require.NoError(t, p.NewFairLock(key).Unlock(them))
		for _, result := range late {
			require.NoError(t, <-result)
		}
		assert.Empty(t, w.Keys())
	})
}

func TestAKeyThatIsNoQueueIsNamedAndKeepsNoLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me := w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		waits := w.waiting(p, w.caller())
		w.Del(queue)
		require.NoError(t, w.Set(queue, "precious"))
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, rlock.ErrWrongType)
			require.ErrorContains(t, err, queue)
		}
		refused(<-waits)
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		assert.Equal(t, []string{queue}, w.Keys(), "the queue's key changed, or the lock is not free")
		_, err := p.NewFairLock(key).TryLock(w.caller())
		refused(err)
		w.CheckGet(t, queue, "precious")
		w.Del(queue)
	})
}

func TestAHolderThatDiesLeavesNothingForLongerThanItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me := w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		got := w.waiting(p, w.caller())
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		require.NoError(t, <-got)
		p.die()
		time.Sleep(3 * time.Second) // the rest of the claim
		assert.Empty(t, w.Keys())
	})
}
