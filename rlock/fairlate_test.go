package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// Fair locks where commands arrive too late, clients are suspended, and keys have changed.

// lostSteps cuts the connection in place of each step that a client sends.
func lostSteps(f network.Frame) network.Fate {
	if f.Stage == network.Request && isStep(f) {
		return network.Cut
	}
	return network.Pass
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

// The client whose lease ended is the one that comes back.
func TestAHoldThatEndsKeepsTheOtherTicketsOfItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, l, me := w.client(), w.client(strict), &line{world: w}, w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		short := start(func() error { return p.NewFairLock(key).LockFor(w.caller(), time.Second) })
		time.Sleep(50 * time.Millisecond)
		l.join(p)
		l.join(w.client(strict))
		l.join(p)
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		require.NoError(t, <-short) // and its owner does not unlock it
		l.inOrder()
	})
}

// A waiter's acquire had no answer, so the waiter asked again. The first acquire arrives when
// the ticket has been granted the lock and the message is still under way.
func TestAnAcquireThatArrivesTooLateShortensNoGrantUnnoticed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me := w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		var hold *rlock.Hold
		got := start(func() (err error) {
			hold, err = p.NewFairLock(key).Acquire(w.ctx, rlock.WithLease(200*time.Millisecond))
			return err
		})
		w.eventually(func() bool { return len(w.queued()) == 1 }, "the ticket is in the queue")
		late := false
		p.net.Rule(func(f network.Frame) network.Fate {
			if late || f.Stage != network.Request || !isStep(f) {
				return network.Pass
			}
			late = true
			return network.Hold
		})
		before := len(p.steps())
		w.eventually(func() bool { return len(p.steps()) > before }, "the waiter asks again")
		synctest.Wait()

		p.net.SetRoundTrip(200 * time.Millisecond)
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		synctest.Wait() // the message is under way
		p.net.SetRoundTrip(0)
		require.Equal(t, 2*time.Second, w.TTL(key), "granted")
		p.net.Deliver()
		synctest.Wait()
		require.Equal(t, 2*time.Second, w.TTL(key), "a look must not shorten the lease")
		require.NoError(t, <-got)
		for ; hold.Valid(); time.Sleep(10 * time.Millisecond) {
			require.Len(t, w.fields(key), 1)
			require.LessOrEqual(t, time.Until(hold.ValidUntil()), w.TTL(key))
		}
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

// The ticket is in the queue for longer than the lease that it asks for.
func TestATicketOfAShortLeaseIsTakenBackHoweverLongItTakes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, second, me, them := w.client(), w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		ctx, giveUp := context.WithCancel(w.caller())
		gone := start(func() error { return p.NewFairLock(key).LockFor(ctx, 200*time.Millisecond) })
		w.eventually(func() bool { return len(w.queued()) == 1 }, "the ticket is in the queue")
		got := w.waiting(second, them)
		p.net.Rule(lostSteps)
		giveUp()
		require.ErrorIs(t, <-gone, context.Canceled)
		time.Sleep(time.Second)
		assert.Len(t, w.queued(), 2)
		p.net.Rule(nil)
		time.Sleep(time.Second)
		assert.Len(t, w.queued(), 1)
		within(t, 0, 0, func() {
			require.NoError(t, holder.NewFairLock(key).Unlock(me))
			require.NoError(t, <-got)
		})
		require.NoError(t, second.NewFairLock(key).Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

// The client cannot know whether the ticket is in the queue; it is not.
func TestATicketThatNeverArrivedIsLookedForNoLongerThanItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me := w.client(), w.client(withLease(3*time.Second)), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		ctx, giveUp := context.WithCancel(w.caller())
		left := 1
		p.net.Rule(func(f network.Frame) network.Fate {
			if left == 0 || f.Stage != network.Request || !isStep(f) || joins(f) == 0 {
				return network.Pass
			}
			left--
			return network.Cut
		})
		gone := start(func() error { return p.NewFairLock(key).Lock(ctx) })
		w.eventually(func() bool { return len(w.queued()) == 1 }, "the waiter joins with another ticket")
		require.Zero(t, left)
		giveUp()
		require.ErrorIs(t, <-gone, context.Canceled)
		time.Sleep(3 * time.Second)
		require.NoError(t, p.Close())
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

// Their last queries found too many commands in flight, and so were never sent.
func TestAWaiterThatLeavesWhileTheNodeIsBusyLeavesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const locks = 16
		holder, p, me := w.client(), w.client(), w.caller()
		ctx, giveUp := context.WithCancel(w.caller())
		var gone []<-chan error
		for i := range locks {
			require.NoError(t, holder.NewFairLock(fmt.Sprint(i)).Lock(me))
			gone = append(gone, start(func() error { return p.NewFairLock(fmt.Sprint(i)).Lock(ctx) }))
			w.eventually(func() bool { return w.Exists(fmt.Sprintf("rlock_queue:{%d}", i)) }, "the ticket is in the queue")
		}
		p.net.Rule(network.All(network.Hold, network.Request))
		p.net.Cut()
		for i := range 250 {
			gone = append(gone, start(func() error { return p.NewLock(fmt.Sprint("other", i)).Lock(ctx) }))
		}
		time.Sleep(time.Second) // they ask
		giveUp()
		for _, result := range gone {
			require.ErrorIs(t, <-result, context.Canceled)
		}
		p.net.Heal()
		time.Sleep(10 * time.Second)
		assert.Len(t, w.Keys(), locks, "no queue")
		require.NoError(t, holder.Close())
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

// The message of a grant comes while the ticket's own acquire is in flight, whose answer
// comes too late. The message does not concern the next ticket.
func TestAGrantIsForOneTicketOfAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, other, me, them := w.client(), w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		ours := start(func() error { return p.NewFairLock(key).LockFor(w.caller(), 200*time.Millisecond) })
		w.eventually(func() bool { return len(w.queued()) == 1 }, "the ticket is in the queue")
		theirs := w.waiting(other, them)
		p.net.SetRoundTrip(600 * time.Millisecond)
		before := len(p.steps())
		w.eventually(func() bool { return len(p.steps()) > before }, "the waiter asks again")
		time.Sleep(400 * time.Millisecond) // the next query is under way
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		require.NoError(t, <-theirs)
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			require.True(t, pending(ours), "the other client has the lock")
		}
		p.net.SetRoundTrip(0)
		require.NoError(t, other.NewFairLock(key).Unlock(them))
		require.NoError(t, <-ours)
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
