package rlock_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACancelledLockReturnsTheContextsErrorAndHoldsNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		ended, cancel := context.WithCancel(s.ctx)
		cancel()
		assert.ErrorIs(t, here.Lock(ended), context.Canceled, "a free lock must not be taken with a context that has ended")

		require.NoError(t, here.Lock(s.ctx))
		for what, lock := range map[string]locker{"behind a goroutine": here.rival, "behind a client": there.rival} {
			ctx, cancel := context.WithCancel(s.ctx)
			ctx, queued := queueing(ctx)
			waiter := background(func() error { return lock.Lock(ctx) })
			<-queued
			cancel()
			assert.ErrorIs(t, s.await(waiter), context.Canceled, what)

			ctx, cancel = context.WithTimeout(s.ctx, 10*time.Millisecond)
			elsewhere(func() { assert.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded, what) })
			cancel()
		}
		assert.True(t, here.IsHeld(s.ctx))
		require.NoError(t, here.Unlock(s.ctx))
		for _, lock := range []locker{here.rival, there.rival} {
			require.NoError(t, lock.Lock(s.ctx))
			require.NoError(t, lock.Unlock(s.ctx))
		}
	})
}

// A context that ends, at every step of a blocking lock. Each test ends with no lock held
// without a holder.

func TestAContextThatHasEndedAlreadySendsNothing(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		lock := p.lock(key)
		ctx, cancel := context.WithCancel(w.caller())
		cancel()
		before := p.scripts()
		require.ErrorIs(t, lock.Lock(ctx), context.Canceled)
		_, err := lock.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = lock.TryLockFor(ctx, time.Minute, 0)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, before, p.scripts())
	})
}

func TestUnlockDoesNotEndWithItsContext(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock := w.process().lock(key)
		ctx, cancel := context.WithCancel(w.caller())
		require.NoError(t, lock.Lock(ctx))
		hold, err := lock.Acquire(ctx)
		require.NoError(t, err)
		cancel()
		assert.True(t, hold.Valid(), "the time to wait is not the lease")
		require.NoError(t, hold.Release(ctx))
		require.NoError(t, lock.Unlock(ctx))
		w.drain()
		assert.Empty(t, w.keys())
	})
}

func TestAWaiterThatLeavesTheLocalQueuePassesTheWakeOn(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		var leaving []context.CancelFunc
		var left []<-chan error
		for range 3 {
			ctx, cancel := context.WithCancel(w.caller())
			left = append(left, start(func() error {
				err := lock.rival.Lock(ctx)
				if err == nil { // granted before it was cancelled
					err = lock.rival.Unlock(ctx)
				}
				return err
			}))
			leaving = append(leaving, cancel)
			synctest.Wait()
		}
		them := w.caller()
		stays := start(func() error { return lock.rival.Lock(them) })
		synctest.Wait()
		leaving[1]()
		require.ErrorIs(t, <-left[1], context.Canceled, "a waiter in the middle of the queue leaves at once")
		leaving[0]()
		leaving[2]()
		require.NoError(t, lock.Unlock(me), "both waiters are leaving")
		within(t, 0, 0, func() { require.NoError(t, <-stays) })
		require.NoError(t, lock.rival.Unlock(them))
		<-left[0]
		<-left[2]
		w.drain()
		assert.Empty(t, w.keys())
	})
}

// The reply is held back; the caller leaves at once, with its context's error.
func TestAGrantToACallerThatLeftIsReleased(t *testing.T) {
	for name, stage := range map[string]network.Stage{"the request is held": network.Request, "the reply is held": network.Reply} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other := w.client(), w.client()
				lock := p.NewLock(key)
				me := w.caller()
				require.NoError(t, lock.Lock(me)) // the script is known
				require.NoError(t, lock.Unlock(me))

				p.net.Rule(scripts(1, network.Hold, stage, "acquired"))
				ctx, cancel := context.WithCancel(w.caller())
				result := start(func() error { return lock.Lock(ctx) })
				require.True(t, pending(result))
				within(t, 0, 0, func() {
					cancel()
					require.ErrorIs(t, <-result, context.Canceled)
				})
				time.Sleep(time.Second)
				p.net.Heal()
				them := w.caller()
				within(t, 0, 100*time.Millisecond, func() { require.NoError(t, other.NewLock(key).Lock(them)) })
				require.NoError(t, other.NewLock(key).Unlock(them))
				time.Sleep(time.Minute)
				assert.Empty(t, w.Keys())
				assert.Empty(t, p.mirrors(), "the lock is renewed")
			})
		})
	}
}

func TestAGrantToACallerThatLeftGoesToTheNextLocalWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		lock := p.NewLock(key)
		p.net.Rule(scripts(2, network.Hold, network.Reply, "acquired"))
		ctx, cancel := context.WithCancel(w.caller())
		leaves := start(func() error { return lock.Lock(ctx) })
		require.True(t, pending(leaves))
		them := w.caller()
		stays := start(func() error { return lock.Lock(them) })
		require.True(t, pending(stays))
		cancel()
		require.ErrorIs(t, <-leaves, context.Canceled)
		time.Sleep(time.Second)
		p.net.Heal()
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-stays) })
		time.Sleep(time.Minute)
		assert.True(t, lock.IsHeld(them))
		assert.Len(t, w.fields(key), 1)
		require.NoError(t, lock.Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestAWaiterOfARemoteHolderLeavesAtOnceAndLeavesNothing(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, me := w.process(), w.process(), w.caller()
		require.NoError(t, other.lock(key).Lock(me))
		lock := p.lock(key)
		for _, after := range []time.Duration{0, time.Millisecond, time.Second, 7 * time.Second} {
			ctx, cancel := context.WithCancel(w.caller())
			result := start(func() error { return lock.rival.Lock(ctx) })
			time.Sleep(after)
			within(t, 0, 0, func() {
				cancel()
				require.ErrorIs(t, <-result, context.Canceled)
			})
		}
		time.Sleep(10 * time.Second)
		for _, world := range w.worlds {
			assert.Empty(t, lockChannels(world.Miniredis), "the subscription lingers for 5 s")
		}
		require.NoError(t, other.lock(key).Unlock(me))
		time.Sleep(time.Minute)
		assert.Empty(t, w.keys())
	})
}

func TestAWaiterThatLeavesWhenTheMessageHasComeLetsTheNextOneAsk(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, me := w.process(), w.process(), w.caller()
		lock := p.lock(key)
		for range w.times(100) {
			require.NoError(t, other.lock(key).Lock(me))
			ctx, cancel := context.WithCancel(w.caller())
			leaves := start(func() error { return lock.rival.Lock(ctx) })
			synctest.Wait()
			them := w.caller()
			stays := start(func() error { return lock.rival.Lock(them) })
			synctest.Wait()

			unlocked := start(func() error { return other.lock(key).Unlock(me) })
			cancel()
			require.NoError(t, <-unlocked)
			within(t, 0, 100*time.Millisecond, func() {
				if err := <-leaves; err == nil {
					require.NoError(t, lock.rival.Unlock(ctx))
				}
				require.NoError(t, <-stays)
			})
			require.NoError(t, lock.rival.Unlock(them))
		}
		w.drain()
		assert.Empty(t, w.keys())
	})
}

// Callers come and go at random, over a network that is slow now and then. A caller whose
// acquire succeeds holds the lock exclusively, and at the end nothing is left.
func TestAStormOfCancelledCallersLeavesNothingBehind(t *testing.T) {
	eachExclusiveVirtualKind(t, func(t *testing.T, w *virtualKind) {
		counter := newCounter(t)
		var granted int
		var results []<-chan error
		seeds := max(rounds(3), 1)
		for seed := range uint64(seeds) {
			p := w.process(func(c *rlock.Config) { c.Lease = 10 * time.Second })
			random := rand.New(rand.NewPCG(seed, 0))
			p.networks(func(n *network.Network) {
				luck := rand.New(rand.NewPCG(seed, random.Uint64())) // the rules of two networks run concurrently
				n.Rule(func(network.Frame) network.Fate {
					if luck.IntN(10) == 0 {
						return network.Hold
					}
					return network.Pass
				})
			})
			done := make(chan struct{})
			delivered := start(func() error {
				for {
					select {
					case <-done:
						p.heal()
						return nil
					case <-time.After(3 * time.Millisecond):
						p.networks((*network.Network).Deliver)
					}
				}
			})
			var callers []<-chan error
			for range 8 {
				owner := w.caller()
				patience := make([]time.Duration, rounds(60))
				for i := range patience {
					patience[i] = time.Duration(random.IntN(40)) * time.Millisecond
				}
				callers = append(callers, start(func() error {
					lock := p.lock(key).rival
					for _, d := range patience {
						ctx, cancel := context.WithTimeout(owner, d)
						if err := lock.Lock(ctx); err == nil {
							counter.enter(time.Millisecond)
							granted++ // protected by the lock, as the counter
							if err := lock.Unlock(ctx); err != nil {
								cancel()
								return err
							}
						}
						cancel()
						time.Sleep(d / 4)
					}
					return nil
				}))
			}
			results = append(results, start(func() error {
				for _, caller := range callers {
					if err := <-caller; err != nil {
						return err
					}
				}
				close(done)
				return <-delivered
			}))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
		assert.Equal(t, granted, counter.n)
		assert.Greater(t, granted, 16*seeds)
		time.Sleep(time.Second)
		assert.Empty(t, w.keys(), "keys are left long before a lease could have ended")
	})
}
