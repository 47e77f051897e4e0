package calls_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACancelledLockReturnsTheContextsErrorAndHoldsNothing(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		ended, cancel := context.WithCancel(s.Ctx)
		cancel()
		assert.ErrorIs(t, here.Lock(ended), context.Canceled, "a free lock must not be taken with a context that has ended")

		require.NoError(t, here.Lock(s.Ctx))
		for what, lock := range map[string]testbed.Locker{"behind a goroutine": here.Rival, "behind a client": there.Rival} {
			ctx, cancel := context.WithCancel(s.Ctx)
			ctx, queued := testbed.Queueing(ctx)
			waiter := testbed.Start(func() error { return lock.Lock(ctx) })
			<-queued
			cancel()
			assert.ErrorIs(t, s.Await(waiter), context.Canceled, what)

			ctx, cancel = context.WithTimeout(s.Ctx, 10*time.Millisecond)
			testbed.Elsewhere(func() { assert.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded, what) })
			cancel()
		}
		assert.True(t, here.IsHeld(s.Ctx))
		require.NoError(t, here.Unlock(s.Ctx))
		for _, lock := range []testbed.Locker{here.Rival, there.Rival} {
			require.NoError(t, lock.Lock(s.Ctx))
			require.NoError(t, lock.Unlock(s.Ctx))
		}
	})
}

// A context that ends, at every step of a blocking lock. Each test ends with no lock held
// without a holder.

func TestAContextThatHasEndedAlreadySendsNothing(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		lock := p.NewLock(testbed.Key)
		ctx, cancel := context.WithCancel(w.Caller())
		cancel()
		before := p.Scripts()
		require.ErrorIs(t, lock.Lock(ctx), context.Canceled)
		_, err := lock.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = lock.TryLockFor(ctx, time.Minute, 0)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, before, p.Scripts())
	})
}

func TestUnlockDoesNotEndWithItsContext(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock := w.NewProcess().NewLock(testbed.Key)
		ctx, cancel := context.WithCancel(w.Caller())
		require.NoError(t, lock.Lock(ctx))
		hold, err := lock.Acquire(ctx)
		require.NoError(t, err)
		cancel()
		assert.True(t, hold.Valid(), "the time to wait is not the lease")
		require.NoError(t, hold.Release(ctx))
		require.NoError(t, lock.Unlock(ctx))
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

func TestAWaiterThatLeavesTheLocalQueuePassesTheWakeOn(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		var leaving []context.CancelFunc
		var left []<-chan error
		for range 3 {
			ctx, cancel := context.WithCancel(w.Caller())
			left = append(left, testbed.Start(func() error {
				err := lock.Rival.Lock(ctx)
				if err == nil { // granted before it was cancelled
					err = lock.Rival.Unlock(ctx)
				}
				return err
			}))
			leaving = append(leaving, cancel)
			synctest.Wait()
		}
		them := w.Caller()
		stays := testbed.Start(func() error { return lock.Rival.Lock(them) })
		synctest.Wait()
		leaving[1]()
		require.ErrorIs(t, <-left[1], context.Canceled, "a waiter in the middle of the queue leaves at once")
		leaving[0]()
		leaving[2]()
		require.NoError(t, lock.Unlock(me), "both waiters are leaving")
		testbed.Within(t, 0, 0, func() { require.NoError(t, <-stays) })
		require.NoError(t, lock.Rival.Unlock(them))
		<-left[0]
		<-left[2]
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

// The reply is held back; the caller leaves at once, with its context's error.
func TestAGrantToACallerThatLeftIsReleased(t *testing.T) {
	for name, stage := range map[string]network.Stage{"the request is held": network.Request, "the reply is held": network.Reply} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, other := w.NewClient(), w.NewClient()
				lock := p.NewLock(testbed.Key)
				me := w.Caller()
				require.NoError(t, lock.Lock(me)) // the script is known
				require.NoError(t, lock.Unlock(me))

				p.Net.Rule(testbed.Scripts(1, network.Hold, stage, "acquired"))
				ctx, cancel := context.WithCancel(w.Caller())
				result := testbed.Start(func() error { return lock.Lock(ctx) })
				require.True(t, testbed.Pending(result))
				testbed.Within(t, 0, 0, func() {
					cancel()
					require.ErrorIs(t, <-result, context.Canceled)
				})
				time.Sleep(time.Second)
				p.Net.Heal()
				them := w.Caller()
				testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, other.NewLock(testbed.Key).Lock(them)) })
				require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
				time.Sleep(time.Minute)
				assert.Empty(t, w.Keys())
				assert.Empty(t, p.Mirrors(), "the lock is renewed")
			})
		})
	}
}

func TestAGrantToACallerThatLeftGoesToTheNextLocalWaiter(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		p.Net.Rule(testbed.Scripts(2, network.Hold, network.Reply, "acquired"))
		ctx, cancel := context.WithCancel(w.Caller())
		leaves := testbed.Start(func() error { return lock.Lock(ctx) })
		require.True(t, testbed.Pending(leaves))
		them := w.Caller()
		stays := testbed.Start(func() error { return lock.Lock(them) })
		require.True(t, testbed.Pending(stays))
		cancel()
		require.ErrorIs(t, <-leaves, context.Canceled)
		time.Sleep(time.Second)
		p.Net.Heal()
		testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-stays) })
		time.Sleep(time.Minute)
		assert.True(t, lock.IsHeld(them))
		assert.Len(t, w.Fields(testbed.Key), 1)
		require.NoError(t, lock.Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

func TestAWaiterOfARemoteHolderLeavesAtOnceAndLeavesNothing(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other, me := w.NewProcess(), w.NewProcess(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(me))
		lock := p.NewLock(testbed.Key)
		for _, after := range []time.Duration{0, time.Millisecond, time.Second, 7 * time.Second} {
			ctx, cancel := context.WithCancel(w.Caller())
			result := testbed.Start(func() error { return lock.Rival.Lock(ctx) })
			time.Sleep(after)
			testbed.Within(t, 0, 0, func() {
				cancel()
				require.ErrorIs(t, <-result, context.Canceled)
			})
		}
		time.Sleep(10 * time.Second)
		for _, world := range w.Worlds {
			assert.Empty(t, testbed.LockChannels(world.Miniredis), "the subscription lingers for 5 s")
		}
		require.NoError(t, other.NewLock(testbed.Key).Unlock(me))
		time.Sleep(time.Minute)
		assert.Empty(t, w.KeysLeft())
	})
}

func TestAWaiterThatLeavesWhenTheMessageHasComeLetsTheNextOneAsk(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other, me := w.NewProcess(), w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		for range w.Times(100) {
			require.NoError(t, other.NewLock(testbed.Key).Lock(me))
			ctx, cancel := context.WithCancel(w.Caller())
			leaves := testbed.Start(func() error { return lock.Rival.Lock(ctx) })
			synctest.Wait()
			them := w.Caller()
			stays := testbed.Start(func() error { return lock.Rival.Lock(them) })
			synctest.Wait()

			unlocked := testbed.Start(func() error { return other.NewLock(testbed.Key).Unlock(me) })
			cancel()
			require.NoError(t, <-unlocked)
			testbed.Within(t, 0, 100*time.Millisecond, func() {
				if err := <-leaves; err == nil {
					require.NoError(t, lock.Rival.Unlock(ctx))
				}
				require.NoError(t, <-stays)
			})
			require.NoError(t, lock.Rival.Unlock(them))
		}
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

// Callers come and go at random, over a network that is slow now and then. A caller whose
// acquire succeeds holds the lock exclusively, and at the end nothing is left.
func TestAStormOfCancelledCallersLeavesNothingBehind(t *testing.T) {
	testbed.EachExclusiveVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		counter := testbed.NewCounter(t)
		var granted int
		var results []<-chan error
		seeds := max(testbed.Rounds(3), 1)
		for seed := range uint64(seeds) {
			p := w.NewProcess(func(c *rlock.Config) { c.Lease = 10 * time.Second })
			random := rand.New(rand.NewPCG(seed, 0))
			p.Networks(func(n *network.Network) {
				luck := rand.New(rand.NewPCG(seed, random.Uint64())) // the rules of two networks run concurrently
				n.Rule(func(network.Frame) network.Fate {
					if luck.IntN(10) == 0 {
						return network.Hold
					}
					return network.Pass
				})
			})
			done := make(chan struct{})
			delivered := testbed.Start(func() error {
				for {
					select {
					case <-done:
						p.Heal()
						return nil
					case <-time.After(3 * time.Millisecond):
						p.Networks((*network.Network).Deliver)
					}
				}
			})
			var callers []<-chan error
			for range 8 {
				owner := w.Caller()
				patience := make([]time.Duration, testbed.Rounds(60))
				for i := range patience {
					patience[i] = time.Duration(random.IntN(40)) * time.Millisecond
				}
				callers = append(callers, testbed.Start(func() error {
					lock := p.NewLock(testbed.Key).Rival
					for _, d := range patience {
						ctx, cancel := context.WithTimeout(owner, d)
						if err := lock.Lock(ctx); err == nil {
							counter.Enter(time.Millisecond)
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
			results = append(results, testbed.Start(func() error {
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
		assert.Equal(t, granted, counter.N)
		assert.Greater(t, granted, 16*seeds)
		time.Sleep(time.Second)
		assert.Empty(t, w.KeysLeft(), "keys are left long before a lease could have ended")
	})
}
