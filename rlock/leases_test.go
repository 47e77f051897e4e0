package rlock_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// drift is how much earlier a hold of the default lease ends than the lease in Redis: a
// hundredth of the lease, 2 ms and a tick of the wheel.
const drift = 300*time.Millisecond + 2*time.Millisecond + 10*time.Millisecond

func TestTheWatchdogKeepsALockForAnHour(t *testing.T) {
	manyCommands(t)
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		for range w.times(3600) {
			time.Sleep(time.Second)
			require.GreaterOrEqual(t, w.ttl(), 20*time.Second-50*time.Millisecond, "renewed at a third")
			require.True(t, lock.IsHeld(me))
		}
		require.NoError(t, lock.Unlock(me))
		w.drain()
		assert.Empty(t, w.keys())
	})
}

func TestTheWatchdogRenewsNoMoreOftenThanAtAThird(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		n := len(p.mirrors())
		assert.LessOrEqual(t, n, 61, "one for each third of a lease; the first is an EVALSHA and an EVAL")
		assert.GreaterOrEqual(t, n, 59)
		require.NoError(t, lock.Unlock(me))
	})
}

func TestADeadHoldersLockGoesToTheWaiterWhenItsLeaseHasEnded(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		dead, p := w.process(), w.process()
		begin := time.Now()
		require.NoError(t, dead.lock(key).Lock(w.caller()))
		dead.refuse()
		me := w.caller()
		require.NoError(t, p.lock(key).rival.Lock(me))
		assert.GreaterOrEqual(t, time.Since(begin), 30*time.Second)
		assert.LessOrEqual(t, time.Since(begin), 30*time.Second+50*time.Millisecond)
		require.NoError(t, p.lock(key).rival.Unlock(me))
	})
}

// The command that set the lease last counts: a compound lock sets the lease again when the
// acquires of its parts took long.
func TestValidityIsCountedFromBeforeTheSend(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		lock := p.lock(key)
		require.NoError(t, lock.Lock(me)) // the scripts are known
		require.NoError(t, lock.Unlock(me))
		w.settle()
		p.networks(func(n *network.Network) { n.Rule(everyScript(network.Hold, network.Reply)) })
		var hold *rlock.Hold
		result := start(func() (err error) {
			hold, err = lock.Acquire(me, rlock.WithLease(10*time.Second))
			return err
		})
		time.Sleep(1500 * time.Millisecond)
		p.heal()
		require.NoError(t, <-result)
		assert.LessOrEqual(t, time.Until(hold.ValidUntil()), w.ttl(), "the hold must end before the lease in Redis")
		synctest.Wait()
		ends := time.Now().Add(w.ttl())
		drift := 100*time.Millisecond + 2*time.Millisecond + 10*time.Millisecond
		assert.WithinDuration(t, ends.Add(-drift), hold.ValidUntil(), time.Millisecond)
		<-hold.Context().Done()
		assert.True(t, time.Now().Before(ends))
	})
}

func TestARenewalIsCountedFromBeforeItsSendToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.caller())
		require.NoError(t, err)
		p.net.Rule(scripts(1, network.Hold, network.Reply, "mirrored"))
		time.Sleep(11500 * time.Millisecond)
		p.net.Heal()
		synctest.Wait()
		renewal := p.mirrors()[0].Time
		assert.Equal(t, renewal.Add(30*time.Second-drift), hold.ValidUntil())
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestAGrantThatCameTooLateIsNoGrant(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		p.net.Rule(scripts(1, network.Hold, network.Reply, "acquired"))
		result := start(func() error { return lock.LockFor(me, time.Second) })
		time.Sleep(time.Second)
		p.net.Heal()
		healed := time.Now()
		require.NoError(t, <-result, "Redis was not asked again")
		assert.True(t, lock.IsHeld(me))
		time.Sleep(time.Until(healed.Add(900 * time.Millisecond)))
		assert.True(t, lock.IsHeld(me), "the lease is that of the late grant")
		require.NoError(t, lock.Unlock(me))
	})
}

// The bytes are held back in both directions: only the clock tells the holder that something
// is wrong.
func TestALossIsReportedBeforeRedisCanGrantTheLockToAnother(t *testing.T) {
	for name, fail := range map[string]func(*peer){
		"silent": (*peer).silence,
		"cut":    (*peer).refuse,
		"replies lost": func(p *peer) {
			p.networks(func(n *network.Network) { n.Rule(everyScript(network.Cut, network.Request)) })
		},
	} {
		if fewer() && name != "replies lost" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
				p, other := w.process(), w.process()
				owner := rlock.WithOwner(w.ctx, rlock.NewOwner())
				lock := p.lock(key)
				hold, err := lock.Acquire(owner)
				require.NoError(t, err)
				require.NoError(t, lock.Lock(owner))
				time.Sleep(15 * time.Second)

				fail(p)
				granted := make(chan time.Time, 1)
				them := w.caller()
				taken := start(func() error {
					err := other.lock(key).rival.Lock(them)
					granted <- time.Now()
					return err
				})
				<-hold.Context().Done()
				lost := time.Now()
				assert.False(t, lock.IsHeld(owner))
				assert.Zero(t, lock.HoldCount(owner))
				assert.False(t, hold.Valid())
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)

				require.NoError(t, <-taken)
				assert.True(t, lost.Before(<-granted))
				assert.Positive(t, p.logged("lock lost"))
				require.NoError(t, other.lock(key).rival.Unlock(them))
			})
		})
	}
}

// lostTwice returns a lock that its owner has locked, and then acquired, and lost.
func (w *virtualKind) lostTwice() (p *peer, lock *trial, me context.Context, hold *rlock.Hold) {
	p, me = w.process(), w.caller()
	lock = p.lock(key)
	require.NoError(w.t, lock.Lock(me))
	hold, err := lock.Acquire(me)
	require.NoError(w.t, err)
	w.forget(key)
	time.Sleep(11 * time.Second)
	return p, lock, me, hold
}

func TestALossIsReportedOnceAndThenTheLockIsNotHeld(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, lock, me, hold := w.lostTwice()
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost, "the cause of the loss stays")
		assert.Positive(t, p.logged("lock lost"))
	})
}

func TestReleasingALostHoldTwiceTakesNothingFromTheOwnersOtherLevels(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		_, lock, me, hold := w.lostTwice()
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
	})
}

func TestAKeyThatIsGoneIsALossAtTheNextRenewal(t *testing.T) {
	for name, replace := range map[string]func(w *world){
		"gone":                  func(w *world) { w.Del(key) },
		"another's":             func(w *world) { w.Del(key); w.HSet(key, "another:7", "1") },
		"a string in its place": func(w *world) { w.Del(key); _ = w.Set(key, "text") },
		"flushed":               func(w *world) { w.FlushAll() },
		"a list in its place":   func(w *world) { w.Del(key); _, _ = w.Push(key, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				hold, err := w.client().NewLock(key).Acquire(w.caller())
				require.NoError(t, err)
				replace(w)
				before := w.Dump()
				within(t, 9*time.Second, 10*time.Second+10*time.Millisecond, func() { <-hold.Context().Done() })
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
				require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
				assert.Equal(t, before, w.Dump(), "the new value must not change")
			})
		})
	}
}

// An operator, or a forceUnlock() in Java, frees a lock with a long lease.
func TestAKeyThatIsGoneLongBeforeTheEndOfAFixedLeaseIsALossAsSoon(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me, next := w.client(), w.caller(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.LockFor(me, time.Hour))
		waiter := start(func() error { return lock.Lock(next) })
		time.Sleep(5 * time.Minute)
		require.True(t, pending(waiter))
		assert.InDelta(t, 55*time.Minute, w.ttl(key), float64(time.Second), "a query must not extend the lease")
		w.Del(key)
		within(t, 0, 10*time.Second+10*time.Millisecond, func() { require.NoError(t, <-waiter) })
		assert.False(t, lock.IsHeld(me))
		synctest.Wait() // until the loss is logged
		assert.Equal(t, 1, p.logged("level=WARN msg=\"rlock: lock lost\""), "unlike the end of the lease, the loss is logged as a warning")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.NoError(t, lock.Unlock(next))
	})
}

func TestUnlockOfALockThatAnotherOwnerHasReportsALoss(t *testing.T) {
	for name, replace := range map[string]func(w *world){
		"gone":                  func(w *world) { w.Del(key) },
		"another's":             func(w *world) { w.Del(key); w.HSet(key, "another:7", "1") },
		"a string in its place": func(w *world) { w.Del(key); _ = w.Set(key, "text") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				lock, me := w.client().NewLock(key), w.caller()
				require.NoError(t, lock.Lock(me))
				replace(w)
				before := w.Dump()
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
				assert.Equal(t, before, w.Dump(), "the new value must not change")
			})
		})
	}
}

func TestALossFreesTheLocalQueue(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		if len(w.worlds) > 1 {
			return // a part that is lost without the client's knowledge may be handed off
		}
		p, me, next := w.process(), w.caller(), w.caller()
		lock := p.lock(key)
		require.NoError(t, lock.Lock(me))
		result := start(func() error { return lock.rival.Lock(next) })
		require.True(t, pending(result))
		w.forget(key)
		within(t, 0, 10*time.Second+10*time.Millisecond, func() { require.NoError(t, <-result, "the renewal does not find the loss") })
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		assert.True(t, lock.rival.IsHeld(next), "the next holder's lock is touched")
		require.NoError(t, lock.rival.Unlock(next))
	})
}

func TestAfterALossTheOwnerMustUnlockBeforeItMayLockAgain(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		w.forget(key)
		time.Sleep(11 * time.Second)
		for range 2 {
			require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
			_, err := lock.TryLock(me)
			require.ErrorIs(t, err, rlock.ErrLost)
			require.NoError(t, lock.Lock(w.caller()), "others may")
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			w.forget(key)
			time.Sleep(11 * time.Second)
		}
		require.NoError(t, lock.Lock(me), "after all levels are unlocked")
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAfterAFixedLeaseHasEndedTheOwnerMayLockAgainAtOnce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.LockFor(me, time.Second))
		time.Sleep(time.Second)
		assert.False(t, lock.IsHeld(me))
		require.NoError(t, lock.LockFor(me, time.Second))
		require.NoError(t, lock.Unlock(me), "the second")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost, "the first")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
	})
}

func TestTheEndOfAFixedLeaseIsLoggedForDebuggingOnly(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.caller(), rlock.WithLease(time.Second))
		require.NoError(t, err)
		<-hold.Context().Done()
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		synctest.Wait()
		assert.Equal(t, 1, p.logged("level=DEBUG msg=\"rlock: lock lost\""))
		assert.Zero(t, p.logged("level=WARN"))
	})
}

// When a fixed lease ends by the client's clock, the client releases the lock: no waiter
// waits for the rest of the lease in Redis, or for a watchdog's lease that a mirror left
// there.
func TestTheEndOfAFixedLeaseFreesTheLock(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other := w.process(), w.process()
		lock, me := p.lock(key), w.caller()
		begin := time.Now()
		require.NoError(t, lock.LockFor(me, 100*time.Second))
		here, there := w.caller(), w.caller()
		require.NoError(t, other.lock(key).rival.Lock(there))
		assert.Less(t, time.Since(begin), 100*time.Second, "before the key expires")
		assert.Greater(t, time.Since(begin), 98*time.Second)
		require.NoError(t, other.lock(key).rival.Unlock(there))

		require.NoError(t, lock.Lock(here))
		require.NoError(t, lock.Unlock(here))
	})
}

func TestLeasesHaveBounds(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		lock := p.lock(key)
		before := p.scripts()
		for _, lease := range []time.Duration{-1, -time.Hour, 1, time.Microsecond, 999 * time.Microsecond, 24 * time.Millisecond} {
			require.ErrorIs(t, lock.LockFor(me, lease), rlock.ErrInvalidLease, lease)
			_, err := lock.TryLockFor(me, time.Second, lease)
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
			_, err = lock.Acquire(me, rlock.WithLease(lease))
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
		}
		assert.Equal(t, before, p.scripts(), "no command")
		require.NoError(t, lock.LockFor(me, 25*time.Millisecond), "the shortest lease that the message names")
		w.settle()
		assert.Equal(t, 25*time.Millisecond, w.ttl())
		require.NoError(t, lock.Unlock(me))
	})
}

func TestALeaseMayLastAYear(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		needsWideNumbers(t, redistest.KindEmbedded)
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.LockFor(me, 25*time.Millisecond))
		w.settle()
		require.NoError(t, lock.LockFor(me, 365*24*time.Hour))
		synctest.Wait()
		assert.Equal(t, 365*24*time.Hour, w.ttl())
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAFailedRenewalIsTriedAgainSoon(t *testing.T) {
	for name, fail := range map[string]func(*world, *testClient){
		"cut":    func(_ *world, p *testClient) { p.net.Refuse() },
		"silent": func(_ *world, p *testClient) { p.net.Rule(network.Silence) },
		"loading": func(w *world, _ *testClient) {
			w.answerScripts("LOADING Redis is loading the dataset in memory")
		},
		"read only": func(w *world, _ *testClient) {
			w.answerScripts("READONLY You can't write against a read only replica.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				lock := p.NewLock(key)
				require.NoError(t, lock.Lock(me))
				time.Sleep(9 * time.Second)
				fail(w, p)
				time.Sleep(18 * time.Second) // the renewal was due 17 s ago
				w.answerScripts("")
				p.net.Heal()
				time.Sleep(time.Second + 50*time.Millisecond)
				assert.GreaterOrEqual(t, w.ttl(key), 28*time.Second, "a failed renewal is retried after a second at most")
				assert.True(t, lock.IsHeld(me))
				require.NoError(t, lock.Unlock(me))
				assert.Zero(t, p.logged("lock lost"))
			})
		})
	}
}

// One connection, cut between the replies to the two renewals of a batch.
func TestARenewalWhoseReplyAloneIsLostIsTriedAgainSoon(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		one, other := p.NewLock("one"), p.NewLock("other")
		require.NoError(t, one.Lock(me))
		require.NoError(t, other.Lock(me))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		renewed := len(p.mirrors())
		p.net.Rule(scripts(2, network.Cut, network.Reply, "mirrored"))
		time.Sleep(9500 * time.Millisecond)
		require.Greater(t, len(p.mirrors()), renewed, "the second renewal was not sent")
		time.Sleep(5 * time.Minute)
		assert.True(t, one.IsHeld(me))
		assert.True(t, other.IsHeld(me))
		require.NoError(t, one.Unlock(me))
		require.NoError(t, other.Unlock(me))
	})
}

func TestAfterUnlockNothingIsRenewedEver(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		lock := p.lock(key)
		for range w.times(50) {
			require.NoError(t, lock.Lock(me))
			require.NoError(t, lock.Lock(me)) // the mirror of the second level may still be in flight when both levels are unlocked
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, lock.Unlock(me))
			w.settle()
			sent := p.scripts()
			time.Sleep(time.Minute)
			require.Empty(t, w.keys())
			require.Equal(t, sent, p.scripts(), "a mirror was sent after Unlock")
		}
	})
}

func TestAfterAnUnlockThatWasNotConfirmedNothingIsRenewedEither(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(12 * time.Second)
		p.net.Rule(network.Silence)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed)
		sent := len(p.mirrors())
		p.net.Heal()
		time.Sleep(time.Minute)
		assert.Len(t, p.mirrors(), sent)
		assert.Empty(t, w.Keys())
	})
}

// The section "Levels and leases" of the package comment.

func TestANestedFixedLeaseNeverShortensNorStopsTheWatchdog(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.LockFor(me, time.Second))
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			require.GreaterOrEqual(t, w.ttl(), 20*time.Second-50*time.Millisecond)
			require.Equal(t, 2, lock.HoldCount(me))
		}
		require.NoError(t, lock.Unlock(me), "a level whose own lease has ended is kept by the outer one")
		require.NoError(t, lock.Unlock(me))
	})
}

func TestANestedFixedLeaseThatIsLongerThanTheWatchdogsIsShownInRedis(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		w.settle()
		require.NoError(t, lock.LockFor(me, time.Hour))
		synctest.Wait()
		assert.Equal(t, time.Hour, w.ttl())
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Millisecond) // the pause between mirrors
		synctest.Wait()
		assert.Equal(t, 30*time.Second, w.ttl())
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAWatchdogInsideAFixedLeaseKeepsItUntilTheInnerUnlock(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		begin := time.Now()
		outer, err := lock.Acquire(me, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		require.NoError(t, lock.Lock(me))
		time.Sleep(40 * time.Second)
		require.NoError(t, lock.Unlock(me))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, 20*time.Second, w.ttl(), float64(2*time.Millisecond), "the lease of the outer level")
		<-outer.Context().Done()
		assert.InDelta(t, time.Minute, time.Since(begin), float64(700*time.Millisecond))
		assert.Less(t, time.Since(begin), time.Minute)
		require.ErrorIs(t, outer.Release(w.ctx), rlock.ErrLost)
	})
}

func TestAFixedLeaseThatEndedInsideAWatchdogsIsLostAtTheInnerUnlock(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		outer, err := lock.Acquire(me, rlock.WithLease(time.Second))
		require.NoError(t, err)
		require.NoError(t, lock.Lock(me))
		time.Sleep(65 * time.Second) // no renewal is in flight
		assert.True(t, lock.IsHeld(me))
		assert.True(t, outer.Valid(), "the lock is kept for the longest lease of its levels")
		require.NoError(t, lock.Unlock(me))
		assert.False(t, lock.IsHeld(me))
		require.ErrorIs(t, context.Cause(outer.Context()), rlock.ErrLost)
		synctest.Wait()
		assert.Empty(t, w.keys())
		require.ErrorIs(t, outer.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, outer.Release(w.ctx), rlock.ErrNotHeld)
	})
}

func TestTheLongestOpenLevelWins(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		leases := []time.Duration{5 * time.Second, time.Hour, 10 * time.Second}
		holds := make([]*rlock.Hold, len(leases))
		for i, lease := range leases {
			var err error
			holds[i], err = lock.Acquire(me, rlock.WithLease(lease))
			require.NoError(t, err)
			w.settle()
		}
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, time.Hour, w.ttl(), float64(3*time.Millisecond))

		require.NoError(t, holds[1].Release(w.ctx), "levels may be released in any order")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, 10*time.Second, w.ttl(), float64(5*time.Millisecond))
		assert.False(t, holds[1].Valid())
		assert.True(t, holds[0].Valid())
		assert.True(t, holds[2].Valid())

		require.NoError(t, holds[0].Release(w.ctx))
		assert.Equal(t, 1, lock.HoldCount(me))
		require.NoError(t, holds[2].Release(w.ctx))
		w.drain()
		assert.Empty(t, w.keys())
		for _, h := range holds {
			require.ErrorIs(t, h.Release(w.ctx), rlock.ErrNotHeld)
			require.ErrorIs(t, context.Cause(h.Context()), rlock.ErrNotHeld)
		}
	})
}

func TestAWaiterThatIsHandedTheLockHasItsOwnLeaseFromThatMoment(t *testing.T) {
	for name, c := range map[string]struct{ former, own time.Duration }{
		"watchdog to fixed":    {0, 10 * time.Second},
		"fixed to watchdog":    {10 * time.Second, 0},
		"long to short":        {time.Hour, time.Second},
		"short to long":        {10 * time.Second, time.Hour},
		"watchdog to watchdog": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				lock, me, next := p.NewLock(key), w.caller(), w.caller()
				require.NoError(t, lock.LockFor(me, c.former))
				var hold *rlock.Hold
				result := start(func() (err error) {
					hold, err = lock.Acquire(next, rlock.WithLease(c.own))
					return err
				})
				require.True(t, pending(result))
				time.Sleep(5 * time.Second)
				handed := time.Now()
				require.NoError(t, lock.Unlock(me))
				require.NoError(t, <-result)
				assert.Empty(t, p.releases(), "the lock was not handed off")
				synctest.Wait()
				own := c.own
				if own == 0 {
					own = 30 * time.Second
				}
				assert.Equal(t, own, w.ttl(key))
				assert.False(t, hold.ValidUntil().After(handed.Add(own)))
				if c.own > 0 {
					<-hold.Context().Done()
					assert.LessOrEqual(t, time.Since(handed), own)
					assert.GreaterOrEqual(t, time.Since(handed), own-own/100-12*time.Millisecond)
					require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
					return
				}
				time.Sleep(5 * time.Minute)
				require.NoError(t, hold.Release(w.ctx))
			})
		})
	}
}

func TestAWaiterThatIsHandedTheLockTrustsOnlyWhatRedisHasConfirmed(t *testing.T) {
	eachExclusiveVirtualKind(t, func(t *testing.T, w *virtualKind) {
		if len(w.worlds)*len(w.kind.keysOf(key)) > 1 {
			return // with several parts the waiter is handed the part that it waits for
		}
		if w.kind.strict {
			return // the lock is never handed off
		}
		p := w.process()
		lock, me, first := p.lock(key), w.caller(), w.caller()
		require.NoError(t, lock.Lock(first))
		result := start(func() error { return lock.LockFor(me, 10*time.Second) })
		require.True(t, pending(result))
		begin := time.Now()
		require.NoError(t, lock.Unlock(first)) // a fenced lock has tokens for a hand-off now
		require.NoError(t, <-result)
		var hold *rlock.Hold
		result = start(func() (err error) {
			hold, err = lock.rival.Acquire(w.caller())
			return err
		})
		require.True(t, pending(result))
		time.Sleep(2 * time.Second)
		p.refuse()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-result)
		assert.True(t, hold.ValidUntil().Before(begin.Add(10*time.Second)))
		<-hold.Context().Done()
		assert.Less(t, time.Since(begin), 10*time.Second)
		p.heal()
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

func TestALevelThatIsOpenedWhileAMirrorIsTriedAgainIsMirroredToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock, me := w.client().NewLock(key), w.caller()
		require.NoError(t, lock.LockFor(me, 20*time.Second))
		w.answerScripts(passing[0])
		require.NoError(t, lock.LockFor(me, 30*time.Second))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, lock.LockFor(me, 40*time.Second))
		w.answerScripts("")
		time.Sleep(time.Second)
		assert.InDelta(t, 39*time.Second, w.ttl(key), float64(2*time.Millisecond))
		assert.Equal(t, 3, lock.HoldCount(me))
		for range 3 {
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestLocksThatAreDueAtAboutTheSameTimeAreRenewedInFewCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		const n = 100
		for i := range n {
			require.NoError(t, p.NewLock(fmt.Sprint(key, i)).Lock(me))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(11 * time.Second)
		renewed, calls := 0, 0
		for _, f := range p.mirrors() {
			if f.Is("EVAL") {
				continue // the server had not seen the script yet
			}
			calls++
			keys, err := strconv.Atoi(f.Args[2])
			require.NoError(t, err)
			assert.LessOrEqual(t, keys, 32, "larger calls would block Redis for too long")
			renewed += keys
		}
		assert.Equal(t, n, renewed)
		assert.LessOrEqual(t, calls, 11, "at most one call for each tick of the wheel in a tenth of a second")
		for i := range n {
			assert.Greater(t, w.ttl(fmt.Sprint(key, i)), 28*time.Second)
			require.NoError(t, p.NewLock(fmt.Sprint(key, i)).Unlock(me))
		}
	})
}

// One lock that cannot be renewed does not affect the others, though they share a call.
func TestALockThatCannotBeRenewedAffectsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	for name, spoil := range map[string]func(s *site, name string) (mend func()){
		"its key is gone": func(s *site, name string) func() {
			s.number("DEL", name)
			return nil
		},
		"its key is of another type": func(s *site, name string) func() {
			require.NoError(s.t, s.do("SET", name, "x").Error())
			return nil
		},
		"the ACL excludes its name": func(s *site, name string) func() {
			s.admin("ACL", "SETUSER", "default", "resetkeys", "~even:*", "~redisson_lock__channel:*")
			return func() { s.admin("ACL", "SETUSER", "default", "allkeys") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := at(t, redistest.Standalone(t, "--save", ""))
			client := s.client(withLease(lease))
			me := rlock.WithOwner(s.ctx, rlock.NewOwner())
			s.ctx = me
			var holds []*rlock.Hold
			take := func(name string) {
				hold, err := client.NewLock(name).Acquire(me)
				require.NoError(t, err)
				holds = append(holds, hold)
			}
			take("odd")
			for i := range 8 {
				take(fmt.Sprint("even:", i))
			}
			mend := spoil(s, "odd")
			renewed := time.Now().Add(lease)
			for _, hold := range holds[1:] {
				require.Eventually(t, func() bool { return hold.ValidUntil().After(renewed) }, hang, time.Millisecond)
			}
			if mend == nil {
				<-holds[0].Context().Done()
				assert.ErrorIs(t, context.Cause(holds[0].Context()), rlock.ErrLost)
				s.do("DEL", "odd")
			} else {
				assert.NoError(t, context.Cause(holds[0].Context()), "an error is not a loss")
				mend()
				require.Eventually(t, func() bool { return holds[0].ValidUntil().After(renewed) }, hang, time.Millisecond)
				assert.NoError(t, holds[0].Release(me))
			}
			for _, hold := range holds[1:] {
				assert.NoError(t, hold.Release(me))
			}
		})
	}
}
