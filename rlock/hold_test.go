package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestAHoldBelongsToItsHandleAndNotToAGoroutine(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		hold, err := lock.Acquire(s.ctx)
		require.NoError(t, err)
		assert.False(t, lock.IsHeld(s.ctx), "the goroutine is not the owner of a Hold")
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrNotHeld)

		second, err := lock.rival.Acquire(s.ctx, rlock.WithWait(0))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired, "the same goroutine must not nest in a Hold")
		assert.Nil(t, second)
		second, err = lock.rival.Acquire(s.ctx, rlock.WithWait(10*time.Millisecond))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Nil(t, second)

		elsewhere(func() { assert.NoError(t, hold.Release(s.ctx), "the handle is the right to release") })
		second, err = lock.rival.Acquire(s.ctx) // an abandoned ticket leaves the queue a moment later
		require.NoError(t, err)
		require.NoError(t, second.Release(s.ctx))
	})
}

func TestAcquireWaitsForTheTimeOfItsOption(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		const wait = time.Minute
		lock, holder := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(holder))

		began := time.Now()
		_, err := lock.rival.Acquire(w.caller(), rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Less(t, time.Since(began), time.Second, "one attempt")
		_, err = lock.rival.Acquire(w.caller(), rlock.WithWait(wait))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.GreaterOrEqual(t, time.Since(began), wait)

		taken := start(func() error {
			hold, err := lock.rival.Acquire(w.caller(), rlock.WithWait(wait))
			if err != nil {
				return err
			}
			return hold.Release(w.ctx)
		})
		require.True(t, pending(taken))
		require.NoError(t, lock.Unlock(holder))
		require.NoError(t, <-taken)
	})
}

func TestAHoldIsValidUntilItIsReleased(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		const lease, drift = time.Hour, time.Hour / 50 // longer than the client's own
		lock := s.lock(withLease(lease))
		before := time.Now()
		hold, err := lock.Acquire(s.ctx)
		require.NoError(t, err)
		assert.True(t, hold.Valid())
		assert.NoError(t, context.Cause(hold.Context()))
		assert.NoError(t, hold.Context().Err())
		assert.True(t, hold.ValidUntil().After(before.Add(lease-drift)))
		assert.True(t, hold.ValidUntil().Before(time.Now().Add(lease)), "the hold must end before the lease in Redis")

		require.NoError(t, hold.Release(s.ctx))
		<-hold.Context().Done()
		assert.False(t, hold.Valid())
		assert.Zero(t, hold.ValidUntil())
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
	})
}

func TestAHoldIsReleasedOnceOnly(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
		hold, err := lock.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, hold.Release(ctx))

		require.NoError(t, lock.Lock(ctx), "the same owner locks again")
		assert.ErrorIs(t, hold.Release(ctx), rlock.ErrNotHeld)
		assert.Equal(t, 1, lock.HoldCount(ctx))
		assert.False(t, hold.Valid())
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestAHoldsContextHasTheValuesOfTheAcquiresContextAndNotItsEnd(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		type color struct{}
		ctx, cancel := context.WithCancel(context.WithValue(s.ctx, color{}, "red"))
		hold, err := s.lock().Acquire(ctx)
		require.NoError(t, err)
		cancel()
		assert.Equal(t, "red", hold.Context().Value(color{}))
		assert.NoError(t, hold.Context().Err(), "the end of the acquire's context does not end the hold")
		assert.True(t, hold.Valid())
		require.NoError(t, hold.Release(ctx))
	})
}

func TestAHoldWithALeaseIsLostWhenTheLeaseEnds(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		hold, err := lock.Acquire(s.ctx, rlock.WithLease(100*time.Millisecond))
		require.NoError(t, err)
		<-hold.Context().Done()
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, hold.Valid())
		require.NoError(t, lock.rival.Lock(s.ctx), "another owner gets the lock")
		assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrNotHeld, "a loss is reported once")
		assert.True(t, lock.rival.IsHeld(s.ctx))
		require.NoError(t, lock.rival.Unlock(s.ctx))
	})
}

func TestAHoldIsLostWhenTheLockIsUnlockedByForce(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		hold, err := lock.Acquire(s.ctx)
		require.NoError(t, err)
		forced, err := lock.ForceUnlock(s.ctx)
		require.NoError(t, err)
		assert.True(t, forced)
		<-hold.Context().Done()
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
	})
}

func TestTheHoldsOfAnOwnerNestAndAreReleasedInAnyOrder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
		outer, err := lock.Acquire(ctx)
		require.NoError(t, err)
		inner, err := lock.Acquire(ctx, rlock.WithWait(0))
		require.NoError(t, err)
		require.NoError(t, lock.Lock(ctx))
		assert.Equal(t, 3, lock.HoldCount(ctx))

		require.NoError(t, outer.Release(ctx))
		assert.False(t, outer.Valid())
		assert.True(t, inner.Valid())
		require.NoError(t, lock.Unlock(ctx), "Unlock ends a level that was taken without a handle")
		assert.True(t, inner.Valid())
		assert.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld, "the levels that are left have handles")
		assert.False(t, s.isFree(lock))
		require.NoError(t, inner.Release(ctx))
		assert.True(t, s.isFree(lock))
	})
}

func TestDoHoldsTheLockWhileTheFunctionRunsAndReturnsItsError(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock, there := s.lock(), s.lock()
		broken := errors.New("the printer is on fire")
		for _, result := range []error{nil, broken} {
			err := lock.Do(s.ctx, func(ctx context.Context) error {
				assert.True(t, lock.IsHeld(ctx))
				assert.False(t, s.isFree(there))
				assert.NoError(t, lock.Do(ctx, func(context.Context) error {
					assert.Equal(t, 2, lock.HoldCount(s.ctx), "it nests")
					return nil
				}))
				assert.NoError(t, ctx.Err())
				return result
			})
			assert.Equal(t, result, err)
			assert.True(t, s.isFree(there))
		}
	})
}

func TestDoReleasesWhenTheFunctionPanicsOrEndsItsGoroutine(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		assert.PanicsWithValue(t, "on fire", func() {
			_ = lock.Do(s.ctx, func(context.Context) error { panic("on fire") })
		})
		assert.True(t, s.isFree(lock))
		elsewhere(func() {
			_ = lock.Do(s.ctx, func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		})
		assert.True(t, s.isFree(lock))
	})
}

func TestDosContextEndsWithTheCallers(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		ctx, cancel := context.WithCancel(s.ctx)
		err := lock.Do(ctx, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.True(t, s.isFree(lock), "it was not released")
		assert.ErrorIs(t, lock.Do(ctx, func(context.Context) error { panic("called") }), context.Canceled)
	})
}

func TestDoJoinsTheLossWithTheErrorOfTheFunction(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		broken := errors.New("the printer is on fire")
		for _, result := range []error{nil, broken} {
			err := lock.Do(s.ctx, func(ctx context.Context) error {
				_, err := lock.ForceUnlock(s.ctx)
				assert.NoError(t, err)
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
				return result
			})
			assert.ErrorIs(t, err, rlock.ErrLost, "nil would mean that the lock was held to the end")
			if result != nil {
				assert.ErrorIs(t, err, result)
			}
			require.NoError(t, lock.Lock(s.ctx), "the reported loss has no further effect")
			require.NoError(t, lock.Unlock(s.ctx))
		}
	})
}

func TestTheContextOfAHoldEndsBeforeItsReleaseIsSent(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		hold, err := p.lock(key).Acquire(me)
		require.NoError(t, err)
		w.settle()
		p.networks(func(n *network.Network) { n.Rule(everyScript(network.Hold, network.Request)) })
		result := start(func() error { return hold.Release(me) })
		require.True(t, pending(result))
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		p.heal()
		require.NoError(t, <-result)
	})
}

func TestADetachedLockStaysUntilItsLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client().NewLock(key)
		hold, err := here.NewLock(key).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, hold.Detach(w.ctx))

		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Detach(w.ctx), rlock.ErrNotHeld)
		sent := len(here.net.Sent("EVALSHA"))
		time.Sleep(30 * time.Second)
		assert.Len(t, here.net.Sent("EVALSHA"), sent, "commands were sent for the detached lock")
		require.NoError(t, here.Close())
		assert.Equal(t, 30*time.Second, w.ttl(key), "Close released it")
		within(t, 30*time.Second, 32*time.Second, func() { require.NoError(t, there.Lock(w.ctx)) })
		require.NoError(t, there.Unlock(w.ctx))
	})
}

func TestADetachedLockKeepsItsOwnProcessOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock, me := w.client().NewLock(key), w.caller()
		hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		waiting := start(func() error { return lock.Lock(me) }) // a nested level
		require.NoError(t, <-waiting)
		require.ErrorIs(t, hold.Detach(w.ctx), rlock.ErrDetach, "a nested hold")
		require.NoError(t, lock.Unlock(me))
		waiting = start(func() error { return lock.Lock(w.ctx) })
		synctest.Wait()
		require.NoError(t, hold.Detach(w.ctx))
		assert.False(t, w.try(lock))
		assert.Zero(t, lock.HoldCount(me))
		within(t, 9*time.Second, 12*time.Second, func() { require.NoError(t, <-waiting) })
	})
}

func TestOnlyAHoldWithALeaseOfOneLockCanBeDetached(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		kept, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		require.ErrorIs(t, kept.Detach(w.ctx), rlock.ErrDetach)
		assert.True(t, kept.Valid())
		require.NoError(t, kept.Release(w.ctx))
		both, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.ErrorIs(t, both.Detach(w.ctx), rlock.ErrDetach)
		require.NoError(t, both.Release(w.ctx))
	})
}

// A lock that was granted by the queue has a short lease in Redis at first.
func TestDetachWaitsUntilRedisHasTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p := w.client().NewLock(key), w.client()
		require.NoError(t, holder.Lock(w.ctx))
		lock, them := p.NewLock(key), w.caller()
		var hold *rlock.Hold
		waiting := start(func() (err error) {
			hold, err = lock.Acquire(them, rlock.WithLease(time.Minute))
			return err
		})
		require.True(t, pending(waiting))
		p.net.SetRoundTrip(100 * time.Millisecond)
		require.NoError(t, holder.Unlock(w.ctx))
		require.NoError(t, <-waiting)
		require.Less(t, w.ttl(key), time.Minute, "a claim")

		gone, cancel := context.WithCancel(w.ctx)
		cancel()
		require.ErrorIs(t, hold.Detach(gone), context.Canceled)
		require.True(t, hold.Valid(), "Detach ended the hold")
		require.NoError(t, hold.Detach(w.ctx))
		assert.InDelta(t, time.Minute, w.ttl(key), float64(time.Second))
	})
}

// Else Detach could go on until the lease ends: each time that a mirror landed, the next one
// would be in flight.
func TestDetachAsksForNoMirrorWhileOneThatSaysAllIsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(time.Second) // the server has the script of the mirrors now
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Second)
		sent := len(p.mirrors())

		p.net.SetRoundTrip(40 * time.Millisecond)
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, lock.Unlock(me))
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, sent+2, len(p.mirrors()), "of the nested level, and of its end, which is in flight")
		within(t, 0, 40*time.Millisecond, func() { require.NoError(t, hold.Detach(w.ctx)) })
		assert.Equal(t, sent+2, len(p.mirrors()))
	})
}

func TestDetachReturnsWhenTheHoldEndsWhileRedisIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for name, end := range map[string]func(p *testClient, hold *rlock.Hold){
			"lost":   func(*testClient, *rlock.Hold) {},
			"closed": func(p *testClient, _ *rlock.Hold) { _ = p.Close() },
		} {
			p := w.client()
			lock, me := p.NewLock(key), w.caller()
			require.NoError(t, lock.LockFor(me, time.Minute))
			hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
			require.NoError(t, err)
			p.net.Rule(network.Silence)
			require.NoError(t, lock.Unlock(me)) // the lease of a minute is to be shortened, which Redis does not confirm
			detached := start(func() error { return hold.Detach(w.ctx) })
			require.True(t, pending(detached), name)
			end(p, hold)
			within(t, 0, 10*time.Second, func() { require.Error(t, <-detached, name) })
			require.Error(t, context.Cause(hold.Context()), name)
			p.net.Heal()
			time.Sleep(2 * time.Minute)
		}
	})
}

// The waiter learns of its grant from the answer to a look, and detaches the lock. Its client
// goes on listening, since another waits.
func TestAMessageOfAGrantThatComesAfterDetachReleasesNothing(t *testing.T) {
	for name, other := range map[string]func([]*rlock.Client, string) locker{"the same lock": plainLock, "a lock of another kind": fairLock} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, holder, me, them := w.client(), w.client(), w.caller(), w.caller()
				require.NoError(t, holder.NewLock(key).Lock(them))
				var hold *rlock.Hold
				got := start(func() (err error) {
					hold, err = p.NewLock(key).Acquire(w.ctx, rlock.WithLease(time.Minute))
					return err
				})
				require.True(t, pending(got))
				waits := start(func() error { return other([]*rlock.Client{p.Client}, key).Lock(me) })
				require.True(t, pending(waits))
				time.Sleep(1500 * time.Millisecond) // it looks every two seconds
				p.net.Rule(network.All(network.Hold, network.Push, "message"))
				require.NoError(t, holder.NewLock(key).Unlock(them))
				require.NoError(t, <-got)
				require.NoError(t, hold.Detach(w.ctx))
				shown := w.fields(key)
				p.net.Heal()
				time.Sleep(55 * time.Second)
				assert.Equal(t, shown, w.fields(key), "the detached lock was released")
				require.True(t, pending(waits))
				require.NoError(t, <-waits)
			})
		})
	}
}

// Redis drops the tickets of a client whose tenure ended without a release.
func TestADetachedLockKeepsTheOtherTicketsOfItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, l, me := w.client(), w.client(strict), &line{world: w}, w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		var hold *rlock.Hold
		got := start(func() (err error) {
			hold, err = p.NewFairLock(key).Acquire(w.ctx, rlock.WithLease(3*time.Second))
			return err
		})
		time.Sleep(50 * time.Millisecond)
		l.join(w.client(strict))
		l.join(p)
		l.join(w.client(strict))
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		require.NoError(t, <-got)
		require.NoError(t, hold.Detach(w.ctx))
		l.inOrder()
	})
}

// passable are the kinds of locks that can be passed on.
var passable = map[string]func(*rlock.Client) *rlock.Lock{
	"plain":  func(c *rlock.Client) *rlock.Lock { return c.NewLock(key) },
	"fenced": func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(key) },
	"fair":   func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(key) },
	"write":  func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Write() },
	"read":   func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Read() },
	"permit": func(c *rlock.Client) *rlock.Lock { return c.NewSemaphore(key, 1) },
}

func eachPassable(t *testing.T, run func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock)) {
	for name, lock := range passable {
		rival := lock // that excludes the holder
		if name == "read" {
			rival = passable["write"]
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { run(t, w, lock, rival) })
		})
	}
}

func TestALockIsPassedOnAndResumed(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		var told []rlock.ReleasedInfo
		var by []rlock.AcquiredBy
		here := w.client(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Released: func(_ context.Context, i rlock.ReleasedInfo) { told = append(told, i) }}
		})
		there := w.client(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Acquired: func(_ context.Context, i rlock.AcquiredInfo) { by = append(by, i.AcquiredBy) }}
		})
		others := rival(w.client().Client)
		hold, err := lock(here.Client).Acquire(w.ctx)
		require.NoError(t, err)
		before, _ := hold.Token()
		sent := len(here.net.Sent("EVALSHA")) + len(here.net.Sent("EVAL"))
		text, err := hold.Pass(w.ctx, 5*time.Second)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(here.net.Sent("EVALSHA"))+len(here.net.Sent("EVAL"))-sent, 2, "EVALSHA, and EVAL for a new script")
		assert.Less(t, len(text), 200)

		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrPassed)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		assert.False(t, hold.Valid())
		assert.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		_, err = hold.Pass(w.ctx, time.Second)
		assert.ErrorIs(t, err, rlock.ErrNotHeld)
		assert.Empty(t, here.Held())
		require.Len(t, told, 1)
		assert.True(t, told[0].Passed)
		shown, err := there.Inspect(w.ctx, key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 1)
		assert.True(t, shown.Holders[0].Passed)
		assert.Equal(t, 5*time.Second, shown.Holders[0].Lease)

		require.NoError(t, here.Close(), "and Close leaves it")
		time.Sleep(4 * time.Second)
		resumed, err := there.Resume(w.ctx, text)
		require.NoError(t, err)
		require.Equal(t, []rlock.AcquiredBy{rlock.ByPass}, by)
		after, _ := resumed.Token()
		assert.Equal(t, before, after)
		_, err = w.client().Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
		_, err = there.Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
		time.Sleep(2 * time.Minute) // the watchdog renews it
		require.True(t, resumed.Valid())
		waits := start(func() error { return others.Lock(w.ctx) })
		synctest.Wait()
		require.NoError(t, resumed.Release(w.ctx))
		require.NoError(t, <-waits)
	})
}

// Nothing renews it, and the first waiter of any client gets it when its time is over.
func TestALockThatIsNotResumedIsFreeWhenItsTimeIsOver(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		here, there := w.client(), w.client()
		hold, err := lock(here.Client).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		own := rival(here.Client)
		text, err := hold.Pass(w.ctx, 5*time.Second)
		require.NoError(t, err)
		within(t, 5*time.Second, 8*time.Second, func() { require.NoError(t, own.Lock(w.ctx)) })
		require.NoError(t, own.Unlock(w.ctx))
		_, err = there.Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
	})
}

func TestOnlyTheOnlyLevelOfOneLockIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		outer, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		inner, err := p.NewLock(key).Acquire(outer.Context())
		require.NoError(t, err)
		_, err = outer.Pass(w.ctx, time.Second)
		require.ErrorIs(t, err, rlock.ErrPass)
		require.NoError(t, inner.Release(w.ctx))
		_, err = outer.Pass(w.ctx, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidLease)
		require.True(t, outer.Valid())

		many, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.ctx)
		require.NoError(t, err)
		_, err = many.Pass(w.ctx, time.Second)
		require.ErrorIs(t, err, rlock.ErrPass)
		require.True(t, many.Valid())
		require.NoError(t, many.Release(w.ctx))

		text, err := outer.Pass(w.ctx, time.Minute)
		require.NoError(t, err)
		for name, bad := range map[string]string{
			"nothing": "", "another version": strings.Replace(text, "1", "2", 1), "cut": text[:len(text)-1], "longer": text + "A",
			"another letter": text[:20] + string(rune(text[20]^1)) + text[21:], "too long": text + strings.Repeat("A", 1<<20),
		} {
			_, err = p.Resume(w.ctx, bad)
			require.ErrorIs(t, err, rlock.ErrInvalidPass, name)
		}
		_, err = p.NewLock(key).ForceUnlock(w.ctx)
		require.NoError(t, err)
		_, err = p.Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed, "it was freed by force")
		outer, err = p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		text, err = outer.Pass(w.ctx, time.Minute)
		require.NoError(t, err)
		hold, err := p.Resume(w.ctx, text, rlock.WithLease(10*time.Second))
		require.NoError(t, err, "the process that has passed it on may resume it")
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	})
}

// Of all that resume one wins, also on a real server, and beside the passer's renewals.
func TestOneClientWinsTheRaceForAPass(t *testing.T) {
	races := 300
	if *long {
		races = 10_000
	}
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		var clients []*rlock.Client
		for range 3 {
			c, err := rlock.New(rlock.Config{Redis: s.Options()})
			require.NoError(t, err)
			defer c.Close()
			clients = append(clients, c)
		}
		ctx := t.Context()
		for n := range races {
			hold, err := clients[n%3].NewLock(key).Acquire(ctx)
			require.NoError(t, err)
			text, err := hold.Pass(ctx, 10*time.Second)
			require.NoError(t, err)
			var won atomic.Pointer[rlock.Hold]
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					h, err := c.Resume(ctx, text)
					switch {
					case err == nil && !won.CompareAndSwap(nil, h):
						t.Error("two have resumed the lock")
					case err != nil && !errors.Is(err, rlock.ErrNotPassed):
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.NotNil(t, won.Load(), "none has resumed the lock")
			require.NoError(t, won.Load().Release(ctx))
		}
	})
}
