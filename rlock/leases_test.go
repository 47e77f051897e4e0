package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/relay"
	"github.com/go-rlock/rlock/rlock"
)

// drift is what a hold of the default lease ends before Redis' lease does:
// a hundredth, 2 ms and a tick of the wheel.
const drift = 300*time.Millisecond + 2*time.Millisecond + 10*time.Millisecond

func TestTheWatchdogKeepsALockForAnHour(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock, me := w.client().NewLock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		for range 3600 {
			time.Sleep(time.Second)
			require.GreaterOrEqual(t, w.ttl(key), 20*time.Second-50*time.Millisecond, "renewed at a third")
			require.True(t, lock.IsHeld(me))
		}
		require.NoError(t, lock.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestTheWatchdogRenewsNoMoreOftenThanAtAThird(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(time.Hour)
		synctest.Wait()
		n := len(p.mirrors())
		assert.LessOrEqual(t, n, 361, "the first is an EVALSHA and an EVAL")
		assert.GreaterOrEqual(t, n, 359)
		require.NoError(t, lock.Unlock(me))
	})
}

func TestADeadHoldersLockGoesToTheWaiterWhenItsLeaseHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dead, p := w.client(), w.client()
		begin := time.Now()
		require.NoError(t, dead.NewLock(key).Lock(w.caller()))
		dead.net.Cut()
		me := w.caller()
		require.NoError(t, p.NewLock(key).Lock(me))
		assert.GreaterOrEqual(t, time.Since(begin), 30*time.Second)
		assert.LessOrEqual(t, time.Since(begin), 30*time.Second+50*time.Millisecond)
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

func TestValidityIsCountedFromBeforeTheSend(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		p.net.Rule(scripts(1, relay.Hold, relay.Reply, "acquired"))
		begin := time.Now()
		result := start(func() error {
			hold, err := lock.Acquire(me, rlock.WithLease(10*time.Second))
			if err == nil {
				assert.Equal(t, begin.Add(10*time.Second-100*time.Millisecond-2*time.Millisecond-10*time.Millisecond), hold.ValidUntil())
				<-hold.Done()
				assert.Less(t, time.Since(begin), 10*time.Second)
			}
			return err
		})
		time.Sleep(2 * time.Second)
		p.net.Heal()
		require.NoError(t, <-result)
	})
}

func TestARenewalIsCountedFromBeforeItsSendToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.caller())
		require.NoError(t, err)
		p.net.Rule(scripts(1, relay.Hold, relay.Reply, "mirrored"))
		time.Sleep(12 * time.Second)
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
		p.net.Rule(scripts(1, relay.Hold, relay.Reply, "acquired"))
		result := start(func() error { return lock.LockFor(me, time.Second) })
		time.Sleep(time.Second)
		p.net.Heal()
		require.NoError(t, <-result, "it was asked for again")
		assert.True(t, lock.IsHeld(me))
		assert.Len(t, p.acquires(), 3, "EVALSHA, EVAL, EVALSHA")
		require.NoError(t, lock.Unlock(me))
	})
}

// The bytes are held in both directions: nothing says to the holder that anything
// is wrong, except the clock.
func TestALossIsToldBeforeRedisCanGrantToAnother(t *testing.T) {
	for name, fail := range map[string]func(*relay.Network){
		"silent": func(n *relay.Network) { n.Rule(relay.Silence) },
		"cut":    (*relay.Network).Cut,
		"replies lost": func(n *relay.Network) {
			n.Rule(func(f relay.Frame) relay.Fate {
				if f.Stage == relay.Request && isScript(f, "mirrored") {
					return relay.Cut
				}
				return relay.Pass
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other := w.client(), w.client()
				owner := rlock.WithOwner(w.ctx, rlock.NewOwner())
				lock := p.NewLock(key)
				hold, err := lock.Acquire(owner)
				require.NoError(t, err)
				require.NoError(t, lock.Lock(owner))
				time.Sleep(15 * time.Second)

				fail(p.net)
				granted := make(chan time.Time, 1)
				them := w.caller()
				taken := start(func() error {
					err := other.NewLock(key).Lock(them)
					granted <- time.Now()
					return err
				})
				<-hold.Done()
				lost := time.Now()
				assert.False(t, lock.IsHeld(owner))
				assert.Zero(t, lock.HoldCount(owner))
				assert.False(t, hold.Valid())
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
				require.ErrorIs(t, hold.Err(), rlock.ErrLost)

				require.NoError(t, <-taken)
				assert.True(t, lost.Before(<-granted))
				assert.Equal(t, 1, p.log.count("lock lost"))
				require.NoError(t, other.NewLock(key).Unlock(them))
			})
		})
	}
}
