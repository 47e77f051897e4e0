package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drift is how much earlier a hold of the default lease ends than the lease in Redis: a
// hundredth of the lease, 2 ms and a tick of the wheel.
const drift = 300*time.Millisecond + 2*time.Millisecond + 10*time.Millisecond

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
	redistest.Slow(t)
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

// The watchdog checks leases at the pace of its wheel, and not at all while the process is
// stopped; Valid and IsHeld are exact to the nanosecond.
func TestALostHoldIsInvalidByTheClockAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		p.net.Rule(network.Silence)
		until := hold.ValidUntil()
		time.Sleep(time.Until(until) - time.Nanosecond)
		assert.True(t, hold.Valid())
		time.Sleep(time.Nanosecond)
		assert.False(t, hold.Valid())
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.True(t, w.Exists(key), "the hold must end long before the lease in Redis")
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

func TestALockThatWasWaitedForIsTrustedForAClaimAndThenRenewed(t *testing.T) {
	redistest.Slow(t)
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		holder, waiter, me := w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewLock(key).Lock(me))
		granted := make(chan *rlock.Hold, 1)
		result := start(func() error {
			hold, err := waiter.NewLock(key).Acquire(w.ctx)
			granted <- hold
			return err
		})
		time.Sleep(time.Duration(rounds(60))*time.Minute + 100*time.Millisecond) // several leases, and soon after a look
		require.NoError(t, holder.NewLock(key).Unlock(me))
		require.NoError(t, <-result)
		hold := <-granted
		assert.Greater(t, time.Until(hold.ValidUntil()), time.Second)
		assert.LessOrEqual(t, time.Until(hold.ValidUntil()), 2*time.Second)
		time.Sleep(time.Second)
		assert.Greater(t, time.Until(hold.ValidUntil()), 19*time.Second)
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestTheHoldersLeaseCountsAndNotTheWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		long, short := w.client(withLease(2*time.Minute)), w.client(withLease(time.Second))
		require.NoError(t, long.NewLock(key).Lock(w.caller()))
		long.net.Refuse() // its client has died
		me := w.caller()
		within(t, 2*time.Minute, 2*time.Minute+100*time.Millisecond, func() {
			require.NoError(t, short.NewLock(key).Lock(me))
		})
		assert.LessOrEqual(t, w.ttl(key), time.Second)
		require.NoError(t, short.NewLock(key).Unlock(me))
	})
}

// Redis still counts the dead clients among the subscribers, and grants each the lock for a
// claim of two seconds.
func TestADeadWaiterCostsOneClaim(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		holder := w.client(func(c *rlock.Config) { c.HandoffLimit = -1 })
		me, next, last := w.caller(), w.caller(), w.caller()
		lock := holder.NewLock(key)
		require.NoError(t, lock.Lock(me))
		for range 3 {
			dead := w.client()
			waits := start(func() error { return dead.NewLock(key).Lock(w.ctx) })
			require.True(t, pending(waits))
			dead.net.Rule(network.Silence)
			defer func() { dead.Close(); <-waits }()
		}
		alive := w.client()
		there := start(func() error { return alive.NewLock(key).Lock(next) })
		require.True(t, pending(there))
		here := start(func() error { return lock.Lock(last) })
		require.True(t, pending(here))
		time.Sleep(11 * time.Second) // a renewal, which finds that others wait

		within(t, 6*time.Second, 7*time.Second, func() {
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-there)
		})
		require.True(t, pending(here))
		within(t, 0, 100*time.Millisecond, func() {
			require.NoError(t, alive.NewLock(key).Unlock(next))
			require.NoError(t, <-here)
		})
		require.NoError(t, lock.Unlock(last))
	})
}

// A call that fails returns no Hold, does not call Do's function, and does not report that
// another owner holds the lock.
func TestAnErrorComesWithoutAHold(t *testing.T) {
	faults := map[string]func(w *world, p *testClient){
		"refused": func(_ *world, p *testClient) { p.net.Refuse() },
		"silent":  func(_ *world, p *testClient) { p.net.Rule(network.Silence) },
		"full": func(w *world, _ *testClient) {
			w.answerScripts("OOM command not allowed when used memory > 'maxmemory'.")
		},
		"denied": func(w *world, _ *testClient) { w.answerScripts("NOPERM this user has no permissions") },
		"garbage": func(_ *world, p *testClient) {
			p.net.Rule(network.All(network.Replace("+OK\r\n"), network.Reply, "EVALSHA"))
		},
	}
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				lock := p.NewLock(key)
				fail(w, p)
				ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
				defer cancel()
				for _, wait := range []time.Duration{0, time.Second, time.Hour} {
					hold, err := lock.Acquire(ctx, rlock.WithWait(wait))
					require.Error(t, err)
					require.NotErrorIs(t, err, rlock.ErrNotAcquired)
					require.Nil(t, hold)
				}
				time.Sleep(10 * time.Second) // until acquires in flight are undone or given up
				ok, err := lock.TryLock(w.caller())
				require.Error(t, err)
				require.False(t, ok)
				err = lock.Do(ctx, func(context.Context) error {
					require.FailNow(t, "the function runs without the lock")
					return nil
				})
				require.Error(t, err)
				w.answerScripts("")
				p.net.Heal()
				time.Sleep(time.Minute)
				require.Empty(t, w.Keys())
			})
		})
	}
}
