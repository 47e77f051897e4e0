package servers_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// change changes the servers while one client holds the lock and another waits for it, and
// then releases the lock. It returns the error of the release, once the waiter has had the
// lock.
func change(s *testbed.Site, here, there *rlock.Client, change func()) error {
	s.T.Helper()
	hold := testbed.Take(s.T, s.Ctx, here.NewLock(testbed.Key))
	waiter := testbed.Start(func() error {
		if err := there.NewLock(testbed.Key).Lock(s.Ctx); err != nil {
			return err
		}
		return there.NewLock(testbed.Key).Unlock(s.Ctx)
	})
	s.AwaitWaiters(1, testbed.Key)
	change()
	released := hold.Release(s.Ctx)
	if err := redistest.Await(s.T, waiter); err != nil && !errors.Is(err, rlock.ErrLost) {
		require.NoError(s.T, err)
	}
	return released
}

// settle returns when both clients use the same primary.
func settle(s *testbed.Site, here, there *rlock.Client) {
	s.T.Helper()
	for round := 0; ; round++ {
		name := fmt.Sprintf("settling:%d", round) // a lost lock is left alone
		require.NoError(s.T, here.NewLock(name).Lock(s.Ctx))
		taken, err := there.NewLock(name).TryLock(s.Ctx)
		unlocked := here.NewLock(name).Unlock(s.Ctx)
		if err == nil && !taken && unlocked == nil {
			return
		}
		if taken {
			_ = there.NewLock(name).Unlock(s.Ctx)
		}
		require.NoError(s.T, s.Ctx.Err(), "the clients use different primaries")
	}
}

func TestACluster(t *testing.T) {
	t.Parallel()
	server := redistest.Cluster(t)
	sub := func(name string, run func(t *testing.T, s *testbed.Site)) {
		t.Run(name, func(t *testing.T) { run(t, testbed.At(t, server)) })
	}
	sub("the counter has the slot of the lock", func(t *testing.T, s *testbed.Site) {
		client := s.NewClient()
		for _, name := range []string{"a", "{a}:b", "b:{a}", "a{b}c"} {
			assert.EqualValues(t, 1, testbed.OneSection(s.Ctx, t, client.NewFencedLock(name)))
			tagged := name
			if !strings.Contains(name, "{") {
				tagged = "{" + name + "}"
			}
			assert.EqualValues(t, 1, s.Number("GET", "redisson_lock_token:"+tagged))
		}
		assert.ErrorIs(t, client.NewFencedLock("a{b").Lock(s.Ctx), rlock.ErrInvalidName)
	})
	sub("with plain pub/sub no subscribers are counted", func(t *testing.T, s *testbed.Site) {
		c := s.NewCrowd(3, 3, func(c *rlock.Config) { c.Advanced.PubSub = rlock.PubSubPlain })
		c.GoesOn(100)
		c.End()
	})
	sub("a lazy client finds out that it is one", func(t *testing.T, s *testbed.Site) {
		gate := make(chan struct{}) // the mode of the server is not known when the names are made
		client := s.NewClient(lazy, func(c *rlock.Config) {
			c.Redis.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
				<-gate
				return dialer.DialContext(ctx, "tcp", address)
			}
		})
		whole, torn := client.NewLock(testbed.Key), client.NewLock("a{b")
		waits := testbed.Start(func() error { return whole.Do(s.Ctx, testbed.Nothing) })
		fails := testbed.Start(func() error { return torn.Do(s.Ctx, testbed.Nothing) })
		close(gate)
		require.NoError(t, redistest.Await(t, waits))
		require.ErrorIs(t, redistest.Await(t, fails), rlock.ErrInvalidName)
		require.ErrorIs(t, testbed.ErrorOf(client.NewLock("a{b").TryLock(s.Ctx)), rlock.ErrInvalidName)
	})
	sub("New asks the next node where one is silent", func(t *testing.T, s *testbed.Site) {
		defer s.PauseReplicas()()
		for range 3 {
			client, err := rlock.New(rlock.Config{Redis: s.Options(), Logger: testbed.Quiet})
			require.NoError(t, err)
			require.NoError(t, client.Close())
		}
	})
	// A client that does not know yet that a slot has moved asks the old node, whose replica has
	// all writes of that node, and answers so.
	sub("the replicas of a node that has lost the slot do not count", func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock(testbed.WithReplicas(1), func(c *rlock.Config) {
			c.Redis.ClusterOption.ShardsRefreshInterval = time.Hour
		})
		require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
		old := s.ReplicaOf(s.Primary(testbed.Key))
		s.MoveSlot(testbed.Key)
		defer s.PauseReplicas()()
		old.Resume()
		for range 2 {
			ok, err := lock.TryLock(s.Ctx)
			require.Error(t, err)
			assert.False(t, ok)
		}
	})
}

// A Cluster's planned failover loses no write, nor does a move.
func TestAHoldAndItsWaitersOutliveAFailoverAndAMoveOfTheirSlot(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Cluster(t))
	here, there := s.NewClient(), s.NewClient()
	for _, how := range []func(string){s.Failover, s.MoveSlot, s.Failover, s.MoveSlot} { // there and back
		assert.NoError(t, change(s, here, there, func() { how(testbed.Key) }))
		settle(s, here, there)
		s.Wakes(here, there, s.Family())
	}
}

// Valkey 9 hands a slot over at once, with all keys in it, and ends its sharded subscriptions.
func TestAHoldAndItsWaitersOutliveAnAtomicMoveOfTheirSlot(t *testing.T) {
	t.Parallel()
	redistest.NeedValkey(t, 9)
	s := testbed.At(t, redistest.Cluster(t))
	here, there := s.NewClient(), s.NewClient()
	for range 2 { // there and back
		assert.NoError(t, change(s, here, there, func() { s.MoveSlotAtomically(testbed.Key) }))
		settle(s, here, there)
		s.Wakes(here, there, s.Family())
	}
}

func TestTheLockGoesOnWhenThePrimaryOfAClusterDies(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Cluster(t))
	here, there := s.NewClient(), s.NewClient()
	err := change(s, here, there, func() { s.TakeForDead(2 * time.Second); s.Primary(testbed.Key).Stop() })
	assert.True(t, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), err)
	settle(s, here, there)
}

// Databases of a Cluster have keys of their own and share all channels: the locks of one name in
// two databases neither exclude nor wake each other.
func TestTheDatabasesOfAClusterHaveLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	redistest.NeedValkey(t, 9)
	s := testbed.At(t, redistest.Cluster(t, "--cluster-databases", "2"))
	first := func(c *rlock.Config) { c.Redis.SelectDB = 1 }
	zero, one := []*rlock.Client{s.NewClient(), s.NewClient()}, []*rlock.Client{s.NewClient(first), s.NewClient(first)}

	held := testbed.Take(t, s.Ctx, zero[0].NewLock(testbed.Key))
	beside, err := one[0].NewLock(testbed.Key).Acquire(s.Ctx, rlock.WithWait(0))
	require.NoError(t, err, "the lock is another one in the other database")
	waiters := []<-chan error{
		testbed.Start(func() error { return zero[1].NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing) }),
		testbed.Start(func() error { return one[1].NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing) }),
	}
	s.AwaitWaiters(1, testbed.Key)
	s.AwaitListeners(1, s.Family(), "rlock_grants:{"+testbed.Key+"}:"+inspect.Of(one[1]).ID())
	require.NoError(t, held.Release(s.Ctx))
	require.NoError(t, redistest.Await(t, waiters[0]))
	assert.True(t, beside.Valid())
	assert.Empty(t, waiters[1])
	require.NoError(t, beside.Release(s.Ctx))
	require.NoError(t, redistest.Await(t, waiters[1]))
}
