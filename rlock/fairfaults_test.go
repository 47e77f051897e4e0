package rlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// Fair locks whose clients die, freeze or lose messages, in virtual time.

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

// overSharedClient connects a client by a rueidis client that it does not own, with 1 <<
// multiplex connections: the order of its commands is not known.
func overSharedClient(t *testing.T, multiplex int) func(*rlock.Config) {
	return func(c *rlock.Config) {
		c.Redis.DisableCache, c.Redis.PipelineMultiplex = true, multiplex
		shared, err := rueidis.NewClient(c.Redis)
		require.NoError(t, err)
		t.Cleanup(shared.Close)
		c.Redis, c.Client = rueidis.ClientOption{}, shared
	}
}

// The command that announced a ticket has no answer yet when the message of its grant comes
// over another connection, so late that its waiter asks as well. Only the answer to that
// query decides about the ticket.
func TestATicketThatAsksOutlivesTheCommandThatAnnouncedIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(handoff(-1, 0), overSharedClient(t, 1))
		lock, other := p.NewFairLock(key), w.client().NewFairLock(key)
		for range 20 { // rueidis chooses one of two connections at random for each command
			me, them, second := w.caller(), w.caller(), w.caller()
			require.NoError(t, lock.Lock(me))
			theirs := start(func() error { return other.Lock(them) })
			w.eventually(func() bool { return len(w.queued()) == 1 }, "the ticket is in the queue")
			listens, leave := context.WithCancel(w.caller())
			first := w.waiting(p, listens)
			ours := start(func() error { return lock.Lock(second) })
			synctest.Wait()

			p.net.Rule(network.Nth(1, network.Hold, network.Reply, "EVALSHA"))
			freed := start(func() error { return lock.Unlock(me) })
			require.NoError(t, <-theirs)
			leave()
			require.ErrorIs(t, <-first, context.Canceled)
			time.Sleep(1200 * time.Millisecond)
			require.NoError(t, other.Unlock(them))
			<-freed // its release had no answer
			time.Sleep(time.Second)
			p.net.Rule(nil)
			p.net.Deliver()

			require.NoError(t, <-ours)
			require.Len(t, w.fields(key), 1, "Redis shows no holder")
			require.NoError(t, lock.Unlock(second))
			time.Sleep(time.Minute)
			require.Empty(t, w.Keys())
		}
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

// A command, or its reply, is lost with the connection. In either case every waiter gets the
// lock, one at a time, and nothing is left.
func TestNoLostReplyLosesAWaiter(t *testing.T) {
	for stage, name := range map[network.Stage]string{network.Request: "never arrived", network.Reply: "was executed"} {
		for n := 1; n <= 24; n++ {
			t.Run(fmt.Sprintf("step %d %s", n, name), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					r := new(record)
					for i := range 2 {
						p := w.client(strict)
						if i == 0 {
							left := n
							p.net.Rule(func(f network.Frame) network.Fate {
								if f.Stage != stage || !isStep(f) {
									return network.Pass
								}
								if left--; left != 0 {
									return network.Pass
								}
								return network.Cut
							})
						}
						for range 3 {
							r.workers.Go(func() {
								for range 4 {
									r.once(w, p)
								}
							})
						}
					}
					r.check(t, 24)
					time.Sleep(time.Minute)
					assert.Empty(t, w.Keys())
				})
			})
		}
	}
}

// once takes the fair lock for a section, unless the lock is lost meanwhile.
func (r *record) once(w *world, p *testClient) {
	lock, me := p.NewFairLock(key), w.caller()
	if !assert.NoError(w.t, lock.Lock(me)) {
		return
	}
	from := time.Now()
	time.Sleep(section)
	r.counter++
	r.mu.Lock()
	r.spans = append(r.spans, span{from, time.Now()})
	r.mu.Unlock()
	_ = lock.Unlock(me) // it may not be confirmed
}

// A waiter that cannot receive a grant polls, and its ticket says so.
func TestAWaiterThatDoesNotListenYetPolls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		p.net.Rule(network.All(network.Hold, network.Request, "SUBSCRIBE"))
		got := start(func() error { return p.NewFairLock(key).Lock(them) })
		time.Sleep(time.Second)
		members, err := w.ZMembers(queue)
		require.NoError(t, err)
		require.Len(t, members, 1)
		assert.True(t, strings.HasPrefix(members[0], "X"), members[0])
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-got) })
		p.net.Rule(nil)
		p.net.Deliver()
		require.NoError(t, p.NewFairLock(key).Unlock(them))
	})
}

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
