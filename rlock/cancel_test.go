package rlock_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

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

// The connection of the acquire is given up as dead, and another one is used, before the
// delayed acquire arrives.
func TestAnAcquireThatArrivesFromADeadConnectionIsFreed(t *testing.T) {
	for name, leave := range map[string]bool{"its caller waits on": false, "its caller has left": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other := w.client(), w.client()
				lock, me := p.NewLock(key), w.caller()
				require.NoError(t, lock.Lock(me)) // the script is known
				require.NoError(t, lock.Unlock(me))

				ctx, cancel := context.WithCancel(w.caller())
				defer cancel()
				p.net.Rule(network.Silence)
				result := start(func() error { return lock.Lock(ctx) })
				require.True(t, pending(result))
				p.net.Rule(nil) // new connections work
				if leave {
					cancel()
				}
				time.Sleep(5 * time.Second) // until the pings fail
				p.net.Deliver()
				err := <-result
				if leave {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
					require.NoError(t, lock.Unlock(ctx))
				}
				them := w.caller()
				within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(key).Lock(them)) })
				time.Sleep(5 * time.Minute)
				assert.True(t, other.NewLock(key).IsHeld(them))
				require.NoError(t, other.NewLock(key).Unlock(them))
			})
		})
	}
}

func TestOneAttemptThatArrivesFromADeadConnectionIsFreed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other := w.client(), w.client()
		lock, me := p.NewLock(key), w.caller()
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))

		p.net.Rule(network.Silence)
		result := start(func() error { _, err := lock.TryLock(me); return err })
		require.True(t, pending(result))
		p.net.Rule(nil) // new connections work
		require.Error(t, <-result, "until the pings fail")
		time.Sleep(time.Second)
		p.net.Deliver() // the acquire, and the release that may be behind it
		them := w.caller()
		within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(key).Lock(them)) })
		require.NoError(t, other.NewLock(key).Unlock(them))
	})
}

// As before, but only the acquire arrives late: the release behind it is lost, and the
// repeated one came over a new connection, too early.
func TestAnAcquireThatArrivesWithoutItsReleaseIsFreed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other := w.client(), w.client()
		lock, me := p.NewLock(key), w.caller()
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))

		ctx, cancel := context.WithCancel(w.caller())
		p.net.Rule(network.Silence)
		result := start(func() error { return lock.Lock(ctx) })
		require.True(t, pending(result))
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		synctest.Wait()
		p.net.Rule(nil)
		sent := len(p.releases())
		w.eventually(func() bool { return len(p.releases()) > sent }, "the release is sent over a new connection")
		synctest.Wait()
		p.net.Rule(scripts(1, network.Cut, network.Request, "released"))
		p.net.Deliver()
		them := w.caller()
		within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(key).Lock(them)) })
		require.NoError(t, other.NewLock(key).Unlock(them))
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

func TestATimeToWaitThatIsUpIsNoError(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, me := w.process(), w.process(), w.caller()
		require.NoError(t, other.lock(key).Lock(me))
		within(t, 3*time.Second, 3*time.Second, func() {
			ok, err := p.lock(key).rival.TryLockFor(w.caller(), 3*time.Second, 0)
			require.NoError(t, err)
			assert.False(t, ok)
		})
		_, err := p.lock(key).rival.Acquire(w.caller(), rlock.WithWait(time.Second))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)

		ctx, cancel := context.WithTimeout(w.caller(), time.Second)
		defer cancel()
		_, err = p.lock(key).rival.TryLockFor(ctx, time.Minute, 0)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the end of the caller's own context is an error")
		require.NoError(t, other.lock(key).Unlock(me))
	})
}

// Callers come and go at random, over a network that is slow now and then. A caller whose
// acquire succeeds holds the lock exclusively, and at the end nothing is left.
func TestAStormOfCancelledCallersLeavesNothingBehind(t *testing.T) {
	eachExclusiveVirtualKind(t, func(t *testing.T, w *virtualKind) {
		counter := newCounter(t)
		var granted int
		var results []<-chan error
		for seed := range uint64(3) {
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
		assert.Greater(t, granted, 50)
		time.Sleep(time.Second)
		assert.Empty(t, w.keys(), "keys are left long before a lease could have ended")
	})
}

// Callers that come while another call opens the connection wait for it in rueidis, in a wait
// that ignores the context.
func TestACallerMayLeaveWhileAnotherConnects(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		p.net.Rule(network.Silence)
		p.net.Cut()
		connects := start(func() error { return p.NewLock("another").Lock(w.caller()) })
		require.True(t, pending(connects))

		lock := p.NewLock(key)
		ctx, cancel := context.WithCancel(w.caller())
		leaves := start(func() error { return lock.Lock(ctx) })
		require.True(t, pending(leaves))
		them := w.caller()
		stays := start(func() error { return lock.Lock(them) })
		require.True(t, pending(stays))
		within(t, 0, 0, func() {
			cancel()
			require.ErrorIs(t, <-leaves, context.Canceled)
		})
		p.net.Heal()
		require.NoError(t, <-connects)
		require.NoError(t, <-stays)
		require.NoError(t, lock.Unlock(them))
		w.Del("another")
		time.Sleep(time.Minute)
		assert.Empty(t, w.Keys())
	})
}

func TestAnAttemptAfterACancelledLockGetsTheFreeLock(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		if w.kind.servers > 0 || w.kind.keys != nil {
			t.Skip("its parts are released in the background, and held until then")
		}
		if w.kind.many {
			t.Skip("a single attempt does not wait for the release of a cancelled one")
		}
		p := w.process()
		lock := p.lock(key)
		require.NoError(t, lock.Do(w.ctx, nothing)) // the scripts are known
		w.settle()
		p.networks(func(n *network.Network) { n.SetRoundTrip(roundTrip) })
		for after := time.Millisecond; after < 2*roundTrip; after += time.Millisecond {
			ctx, cancel := context.WithCancel(w.caller())
			leaves := start(func() error { return lock.Lock(ctx) })
			time.Sleep(after)
			cancel()
			if err := <-leaves; err == nil { // granted before it was cancelled
				require.NoError(t, lock.Unlock(ctx))
				continue
			}
			me := w.caller()
			within(t, roundTrip, 4*roundTrip, func() {
				taken, err := lock.TryLock(me)
				require.NoError(t, err)
				require.True(t, taken, "cancelled after %v", after)
			})
			require.NoError(t, lock.Unlock(me))
			w.settle()
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.keys())
	})
}

// busy stands for a command that Redis refuses for a while.
const busy = "*3\r\n$4\r\nEVAL\r\n$45\r\nreturn redis.error_reply('BUSY for a little')\r\n$1\r\n0\r\n"

// The release of an unwanted ticket may be late, and Redis may grant it the lock meanwhile.
func TestAnAttemptGetsALockThatWasGrantedToACancelledOne(t *testing.T) {
	for name, of := range map[string]func(*rlock.Client) *rlock.Lock{
		"plain":  func(c *rlock.Client) *rlock.Lock { return c.NewLock(key) },
		"fair":   func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(key) },
		"fenced": func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(key) },
		"write":  func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Write() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				lock, theirs := of(p.Client), of(w.client().Client)
				me, them := w.caller(), w.caller()
				require.NoError(t, theirs.Lock(them))
				ctx, cancel := context.WithCancel(w.caller())
				leaves := start(func() error { return lock.Lock(ctx) })
				require.True(t, pending(leaves))
				p.net.Rule(scripts(1, network.Replace(busy), network.Request, "released"))
				cancel()
				require.ErrorIs(t, <-leaves, context.Canceled)
				synctest.Wait()
				require.NoError(t, theirs.Unlock(them))
				require.True(t, w.Exists(key), "it is granted to the ticket of the cancelled Lock")

				taken, err := lock.TryLock(me)
				require.NoError(t, err)
				require.True(t, taken)
				time.Sleep(time.Minute)
				require.True(t, lock.IsHeld(me))
				require.NoError(t, lock.Unlock(me))
				synctest.Wait()
				assert.False(t, w.Exists(key))
			})
		})
	}
}

// A release that is refused is tried again less and less often.
func TestTheMessageOfAGrantReleasesAnUnwantedTicket(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, holder, them, me := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(them))
		ctx, cancel := context.WithCancel(w.caller())
		leaves := w.waiting(p, ctx)
		stays := w.waiting(p, me)
		var refuses atomic.Bool
		refuses.Store(true)
		p.net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Request && isScript(f, "released") && refuses.Load() {
				return network.Replace(busy)
			}
			return network.Pass
		})
		cancel()
		require.ErrorIs(t, <-leaves, context.Canceled)
		time.Sleep(400 * time.Millisecond) // the last attempt was after 350 ms, the next is after 750
		refuses.Store(false)
		within(t, 0, 0, func() {
			require.NoError(t, holder.NewFairLock(key).Unlock(them))
			require.NoError(t, <-stays)
		})
		require.NoError(t, p.NewFairLock(key).Unlock(me))
	})
}

// cancelledAtASilentServer returns a client whose server went silent, with a Lock in flight
// that was cancelled.
func (w *world) cancelledAtASilentServer() *testClient {
	p := w.client()
	lock := p.NewLock(key)
	require.NoError(w.t, lock.Do(w.ctx, nothing))
	p.net.Rule(network.Silence)
	ctx, cancel := context.WithCancel(w.caller())
	leaves := start(func() error { return lock.Lock(ctx) })
	require.True(w.t, pending(leaves))
	cancel()
	require.ErrorIs(w.t, <-leaves, context.Canceled)
	return p
}

func TestAnAttemptAfterACancelledLockEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.cancelledAtASilentServer()
		lock := p.NewLock(key)
		brief, cancel := context.WithTimeout(w.caller(), 100*time.Millisecond)
		defer cancel()
		within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			_, err := lock.TryLock(brief)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		p.net.Heal()
	})
}

// A RedLock would otherwise wait for its silent servers before it asks one that answers.
func TestAnAttemptDoesNotWaitForAServerThatHasBeenSilentForLong(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.cancelledAtASilentServer()
		lock := p.NewLock(key)
		for _, longest := range []time.Duration{250 * time.Millisecond, 0} {
			within(t, longest, longest, func() {
				taken, err := lock.TryLock(w.caller())
				require.NoError(t, err)
				require.False(t, taken)
			})
		}
		p.net.Heal()
	})
}

// New with a context that ends.

func TestNewContextReturnsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		silent := network.New(w.Dial)
		silent.Rule(network.Silence)
		ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			client, err := rlock.NewContext(ctx, rlock.Config{Redis: rueidis.ClientOption{
				InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: silent.Dial,
			}})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Nil(t, client)
		})
		silent.Close()
		time.Sleep(time.Minute)
	})
}

func TestNewContextReturnsTheClientOrTheErrorOfNew(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		open := network.New(w.Dial)
		client, err := rlock.NewContext(w.ctx, rlock.Config{Logger: quiet, Redis: rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: open.Dial,
		}})
		require.NoError(t, err)
		require.NoError(t, client.NewLock(key).Do(w.ctx, nothing))
		require.NoError(t, client.Close())
		open.Close()
		_, err = rlock.NewContext(w.ctx, rlock.Config{})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
	})
}
