package servers_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, them := w.NewClient(), w.NewClient(), w.Caller()
		w.Answer(testbed.RefusePubSub)
		names := []string{"one", "two", "three"}
		var results []<-chan error
		owners := []context.Context{w.Caller(), w.Caller(), w.Caller()}
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Lock(them))
			results = append(results, testbed.Start(func() error { return p.NewLock(name).Lock(owners[i]) }))
		}
		time.Sleep(time.Second)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.Logged("refuses a subscription"))
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Unlock(them))
			testbed.Within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-results[i]) })
			require.NoError(t, p.NewLock(name).Unlock(owners[i]))
		}
		assert.Empty(t, w.Keys())
	})
}

func TestWherePubSubIsRefusedAllWaitersGetTheLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var r testbed.Turns
		first := w.Caller()
		here, there := w.NewClient(), w.NewClient()
		w.Answer(testbed.RefusePubSub)
		require.NoError(t, here.NewLock(testbed.Key).Lock(first))
		for range 20 {
			r.Join(w, here, "here")
			r.Join(w, there, "there")
		}
		require.NoError(t, here.NewLock(testbed.Key).Unlock(first))
		r.Wg.Wait()
		assert.Len(t, r.Order, 40)
		assert.Empty(t, w.Keys())
	})
}

func TestWhereNoMessageArrivesAWaiterLooksWhenTheHoldersLeaseEnds(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me := w.NewClient(), w.NewClient(), w.Caller()
		p.Net.Rule(network.Deaf)
		begin := time.Now()
		require.NoError(t, other.NewLock(testbed.Key).LockFor(w.Caller(), 3*time.Second))
		other.Net.Refuse()
		require.NoError(t, p.NewLock(testbed.Key).Lock(me))
		assert.LessOrEqual(t, time.Since(begin), 3*time.Second+21*time.Millisecond)
		assert.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
	})
}

func TestWhereNoMessageArrivesAWaiterLooksAfterTwoSeconds(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		p.Net.Rule(network.Deaf)
		require.NoError(t, other.NewLock(testbed.Key).LockFor(them, time.Hour))
		result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		testbed.Within(t, 0, 5*time.Second, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
	})
}

// The connection of the subscription ends before the message. The renewed subscription makes
// the waiter look, long before the fallback.
func TestAMessageThatIsLostWithItsConnectionIsMadeGoodByTheNextConfirmation(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(them))
		result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
		require.True(t, testbed.Pending(result))
		p.Net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Push && f.Is("message") {
				return network.Cut
			}
			return network.Pass
		})
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
	})
}

// The same with an access rule of a real server.
func TestAUserThatMayNotSubscribeStillGetsTheLock(t *testing.T) {
	server, admin := testbed.Standalone(t)
	ctx := context.Background()
	require.NoError(t, admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-subscribe").Build()).Error())
	option := server.Options()
	option.Username, option.Password = "limited", "secret"
	p, other := testbed.Dial(t, option), testbed.Dial(t, server.Options())
	require.NoError(t, other.NewLock(testbed.Key).Lock(ctx))
	me := rlock.WithOwner(ctx, rlock.NewOwner())
	result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
	require.NoError(t, other.NewLock(testbed.Key).Unlock(ctx))
	require.NoError(t, <-result)
	require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
}

// A client that may not count subscribers assumes that every waiter is subscribed.
func TestAUserThatMayNotCountSubscribersReleasesForOthers(t *testing.T) {
	server, admin := testbed.Standalone(t)
	ctx := context.Background()
	require.NoError(t, admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-pubsub").Build()).Error())
	option := server.Options()
	option.Username, option.Password = "limited", "secret"
	limited, other := testbed.Dial(t, option), testbed.Dial(t, server.Options())
	for range 10 {
		for _, pair := range [][2]*rlock.Client{{limited, other}, {other, limited}} {
			require.NoError(t, pair[0].NewLock(testbed.Key).Lock(ctx))
			waiter := testbed.Start(func() error { return pair[1].NewLock(testbed.Key).Do(ctx, testbed.Nothing) })
			testbed.At(t, server).AwaitWaiters(1, testbed.Key)
			require.NoError(t, pair[0].NewLock(testbed.Key).Unlock(ctx))
			require.NoError(t, <-waiter)
		}
	}
}

func TestAWaiterIsWokenByTheMessageOfTheRelease(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) { s.Wakes(s.NewClient(), s.NewClient(), s.Family()) })
}

func TestAReleaseTakesNoTimeToReachAWaiter(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there := s.NewLock(), s.NewLock()
		require.NoError(t, here.Lock(context.Background()))
		waiter := testbed.Start(func() error {
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
	testbed.EachExclusiveKind(t, func(t *testing.T, s *testbed.Subject) {
		const clients, waiters = 3, 4
		holder := s.NewLock()
		require.NoError(t, holder.Lock(s.Ctx))
		var served int // protected by the lock under test
		var all sync.WaitGroup
		for range clients {
			lock := s.NewLock()
			for range waiters {
				ctx, queued := testbed.Queueing(s.Ctx)
				all.Go(func() {
					if assert.NoError(t, lock.Lock(ctx)) {
						served++
						assert.NoError(t, lock.Unlock(ctx))
					}
				})
				<-queued
			}
		}
		require.NoError(t, holder.Unlock(s.Ctx))
		all.Wait()
		assert.Equal(t, clients*waiters, served)
	})
}

// Redisson: testAutoExpire.
func TestAWaiterGetsTheLockWhenTheLeaseOfADeadHolderEnds(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		s.Set(testbed.Key, "a-process-that-died:1", time.Hour)
		assert.False(t, s.IsFree(lock))
		s.Number("PEXPIRE", testbed.Key, "100")
		require.NoError(t, lock.Lock(s.Ctx))
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}

// The keys, channels and messages that Redisson does not share belong to one name alone. "x"
// and "{x}" share a hash tag and Redisson's channels, and nothing else.

func TestAReleaseGrantsNoLockOfAnotherName(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		one, other, third := w.NewClient(), w.NewClient(), w.NewClient()
		a, b, c := w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, one.NewFairLock("x").Lock(a))
		require.NoError(t, third.NewFairLock("{x}").Lock(c))
		waiting := testbed.Start(func() error { return other.NewFairLock("{x}").Lock(b) })
		require.True(t, testbed.Pending(waiting))

		require.NoError(t, one.NewFairLock("x").Unlock(a))
		require.True(t, testbed.Pending(waiting), "{x} is held")
		assert.False(t, w.Exists("x"), "x has no waiter")

		require.NoError(t, third.NewFairLock("{x}").Unlock(c))
		testbed.Within(t, 0, 0, func() { require.NoError(t, <-waiting) })
		require.NoError(t, other.NewFairLock("{x}").Unlock(b))
		assert.Empty(t, w.Keys())
	})
}

func TestAWriterHoldsBackNoReadersOfAnotherName(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		reading, writing := w.NewClient().NewReadWriteLock("x").Read(), w.NewClient().NewReadWriteLock("x").Write()
		me, writer := w.Caller(), w.Caller()
		require.NoError(t, reading.Lock(me))
		waiting := testbed.Start(func() error { return writing.Lock(writer) })
		require.True(t, testbed.Pending(waiting))
		assert.True(t, w.IsFree(w.NewClient().NewReadWriteLock("{x}").Read()))
		assert.False(t, w.IsFree(w.NewClient().NewReadWriteLock("x").Read()))
		require.NoError(t, reading.Unlock(me))
		require.NoError(t, <-waiting)
		require.NoError(t, writing.Unlock(writer))
	})
}
