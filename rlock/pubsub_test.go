package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// refusePubSub makes the server refuse subscriptions.
func refusePubSub(command string, _ ...string) string {
	if command == "subscribe" {
		return "NOPERM User default has no permissions to run the 'subscribe' command"
	}
	return ""
}

func TestWithoutWaitersNothingIsSubscribed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		for range 10 {
			require.NoError(t, p.NewLock(key).Lock(me))
			require.NoError(t, p.NewLock(key).Unlock(me))
			ok, err := p.NewLock(key).TryLock(me)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, p.NewLock(key).Unlock(me))
		}
		assert.Empty(t, p.subscribed())
	})
}

func TestManyWaitersShareOneSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, them := w.client(), w.client(), w.caller()
		require.NoError(t, other.NewLock(key).Lock(them))
		var r turns
		for range 20 {
			r.join(w, p, "")
		}
		assert.Len(t, p.subscribed(), 1)
		asked := len(p.acquires())
		time.Sleep(4*time.Second + 100*time.Millisecond) // no look is in flight
		assert.Equal(t, 2, len(p.acquires())-asked, "one ticket for all waiters is looked for every two seconds")
		within(t, 0, 20*section, func() {
			require.NoError(t, other.NewLock(key).Unlock(them))
			r.wg.Wait()
		})
		assert.LessOrEqual(t, len(p.acquires()), asked+2, "one waiter asks for all")
	})
}

func TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, them := w.client(), w.client(), w.caller()
		w.answer(refusePubSub)
		names := []string{"one", "two", "three"}
		var results []<-chan error
		owners := []context.Context{w.caller(), w.caller(), w.caller()}
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Lock(them))
			results = append(results, start(func() error { return p.NewLock(name).Lock(owners[i]) }))
		}
		time.Sleep(time.Second)
		asked := len(p.acquires())
		time.Sleep(time.Minute)
		polls := len(p.acquires()) - asked
		assert.Less(t, polls, 3*1000, "at intervals of 64 to 128 ms")
		assert.Greater(t, polls, 3*400)
		assert.Equal(t, 1, p.logged("refuses a subscription"))
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Unlock(them))
			within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-results[i]) })
			require.NoError(t, p.NewLock(name).Unlock(owners[i]))
		}
		assert.Empty(t, w.Keys())
	})
}

func TestWherePubSubIsRefusedAllWaitersGetTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var r turns
		first := w.caller()
		here, there := w.client(), w.client()
		w.answer(refusePubSub)
		require.NoError(t, here.NewLock(key).Lock(first))
		for range 20 {
			r.join(w, here, "here")
			r.join(w, there, "there")
		}
		require.NoError(t, here.NewLock(key).Unlock(first))
		r.wg.Wait()
		assert.Len(t, r.order, 40)
		assert.Empty(t, w.Keys())
	})
}

func TestWhereNoMessageArrivesAWaiterLooksWhenTheHoldersLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me := w.client(), w.client(), w.caller()
		p.net.Rule(network.Deaf)
		begin := time.Now()
		require.NoError(t, other.NewLock(key).LockFor(w.caller(), 3*time.Second))
		other.net.Refuse()
		require.NoError(t, p.NewLock(key).Lock(me))
		assert.LessOrEqual(t, time.Since(begin), 3*time.Second+21*time.Millisecond)
		assert.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
		assert.Less(t, len(p.acquires()), 8, "the waiter polled")
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

func TestWhereNoMessageArrivesAWaiterLooksAfterTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		p.net.Rule(network.Deaf)
		require.NoError(t, other.NewLock(key).LockFor(them, time.Hour))
		result := start(func() error { return p.NewLock(key).Lock(me) })
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(key).Unlock(them))
		within(t, 0, 5*time.Second, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

// The connection of the subscription ends before the message. The renewed subscription makes
// the waiter look, long before the fallback.
func TestAMessageThatIsLostWithItsConnectionIsMadeGoodByTheNextConfirmation(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, other.NewLock(key).Lock(them))
		result := start(func() error { return p.NewLock(key).Lock(me) })
		require.True(t, pending(result))
		p.net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Push && f.Is("message") {
				return network.Cut
			}
			return network.Pass
		})
		require.NoError(t, other.NewLock(key).Unlock(them))
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

// The lock is released between the refused acquire and the confirmation of the subscription.
func TestAReleaseBeforeTheSubscriptionIsConfirmedIsNotMissed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, other.NewLock(key).Lock(them))
		p.net.Rule(network.All(network.Hold, network.Request, "SUBSCRIBE"))
		result := start(func() error { return p.NewLock(key).Lock(me) })
		require.True(t, pending(result))
		require.NoError(t, other.NewLock(key).Unlock(them))
		synctest.Wait()
		p.net.Heal()
		within(t, 0, 0, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

// The same with an access rule of a real server.
func TestAUserThatMayNotSubscribeStillGetsTheLock(t *testing.T) {
	server, admin := standalone(t)
	ctx := context.Background()
	require.NoError(t, admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-subscribe").Build()).Error())
	option := server.Options()
	option.Username, option.Password = "limited", "secret"
	p, other := dial(t, option), dial(t, server.Options())
	require.NoError(t, other.NewLock(key).Lock(ctx))
	me := rlock.WithOwner(ctx, rlock.NewOwner())
	result := start(func() error { return p.NewLock(key).Lock(me) })
	require.NoError(t, other.NewLock(key).Unlock(ctx))
	require.NoError(t, <-result)
	require.NoError(t, p.NewLock(key).Unlock(me))
}

// A client that may not count subscribers assumes that every waiter is subscribed.
func TestAUserThatMayNotCountSubscribersReleasesForOthers(t *testing.T) {
	server, admin := standalone(t)
	ctx := context.Background()
	require.NoError(t, admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-pubsub").Build()).Error())
	option := server.Options()
	option.Username, option.Password = "limited", "secret"
	limited, other := dial(t, option), dial(t, server.Options())
	for range 10 {
		for _, pair := range [][2]*rlock.Client{{limited, other}, {other, limited}} {
			require.NoError(t, pair[0].NewLock(key).Lock(ctx))
			waiter := start(func() error { return pair[1].NewLock(key).Do(ctx, nothing) })
			at(t, server).awaitWaiters(1, key)
			require.NoError(t, pair[0].NewLock(key).Unlock(ctx))
			require.NoError(t, <-waiter)
		}
	}
}
