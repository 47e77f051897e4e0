package rlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// refusePubSub makes the server refuse subscriptions.
func refusePubSub(command string, _ ...string) string {
	if command == "subscribe" {
		return "NOPERM User default has no permissions to run the 'subscribe' command"
	}
	return ""
}

func TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce(t *testing.T) {
	redistest.Slow(t)
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
		time.Sleep(time.Minute)
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

func TestAWaiterIsWokenByTheMessageOfTheRelease(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) { s.wakes(s.client(), s.client(), s.family()) })
}

func TestAReleaseTakesNoTimeToReachAWaiter(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(context.Background()))
		waiter := background(func() error {
			if err := there.Lock(context.Background()); err != nil {
				return err
			}
			return there.Unlock(context.Background())
		})
		time.Sleep(time.Second) // in virtual time: the waiter sleeps by now
		released := time.Now()
		require.NoError(t, here.Unlock(context.Background()))
		require.NoError(t, <-waiter)
		assert.Zero(t, time.Since(released))
	})
}

func TestEveryWaiterOfEveryClientGetsTheLock(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		const clients, waiters = 3, 4
		holder := s.lock()
		require.NoError(t, holder.Lock(s.ctx))
		var served int // protected by the lock under test
		var all sync.WaitGroup
		for range clients {
			lock := s.lock()
			for range waiters {
				ctx, queued := queueing(s.ctx)
				all.Go(func() {
					if assert.NoError(t, lock.Lock(ctx)) {
						served++
						assert.NoError(t, lock.Unlock(ctx))
					}
				})
				<-queued
			}
		}
		require.NoError(t, holder.Unlock(s.ctx))
		all.Wait()
		assert.Equal(t, clients*waiters, served)
	})
}

// Redisson: testAutoExpire.
func TestAWaiterGetsTheLockWhenTheLeaseOfADeadHolderEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.lock()
		s.set(key, "a-process-that-died:1", time.Hour)
		assert.False(t, s.isFree(lock))
		s.number("PEXPIRE", key, "100")
		require.NoError(t, lock.Lock(s.ctx))
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// The keys, channels and messages that Redisson does not share belong to one name alone. "x"
// and "{x}" share a hash tag and Redisson's channels, and nothing else.

func TestAReleaseGrantsNoLockOfAnotherName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, other, third := w.client(), w.client(), w.client()
		a, b, c := w.caller(), w.caller(), w.caller()
		require.NoError(t, one.NewFairLock("x").Lock(a))
		require.NoError(t, third.NewFairLock("{x}").Lock(c))
		waiting := start(func() error { return other.NewFairLock("{x}").Lock(b) })
		require.True(t, pending(waiting))

		require.NoError(t, one.NewFairLock("x").Unlock(a))
		require.True(t, pending(waiting), "{x} is held")
		assert.False(t, w.Exists("x"), "x has no waiter")

		require.NoError(t, third.NewFairLock("{x}").Unlock(c))
		within(t, 0, 0, func() { require.NoError(t, <-waiting) })
		require.NoError(t, other.NewFairLock("{x}").Unlock(b))
		assert.Empty(t, w.Keys())
	})
}

func TestAWriterHoldsBackNoReadersOfAnotherName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing := w.client().NewReadWriteLock("x").Read(), w.client().NewReadWriteLock("x").Write()
		me, writer := w.caller(), w.caller()
		require.NoError(t, reading.Lock(me))
		waiting := start(func() error { return writing.Lock(writer) })
		require.True(t, pending(waiting))
		assert.True(t, w.try(w.client().NewReadWriteLock("{x}").Read()))
		assert.False(t, w.try(w.client().NewReadWriteLock("x").Read()))
		require.NoError(t, reading.Unlock(me))
		require.NoError(t, <-waiting)
		require.NoError(t, writing.Unlock(writer))
	})
}
