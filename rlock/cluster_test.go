package rlock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// change changes the servers while one client holds the lock and another waits for it, and
// then releases the lock. It returns the error of the release, once the waiter has had the
// lock.
func (s *site) change(here, there *rlock.Client, change func()) error {
	s.t.Helper()
	hold, err := here.NewLock(key).Acquire(s.ctx)
	require.NoError(s.t, err)
	waiter := background(func() error {
		if err := there.NewLock(key).Lock(s.ctx); err != nil {
			return err
		}
		return there.NewLock(key).Unlock(s.ctx)
	})
	s.awaitWaiters(1, key)
	change()
	released := hold.Release(s.ctx)
	if err := s.await(waiter); err != nil && !errors.Is(err, rlock.ErrLost) {
		require.NoError(s.t, err)
	}
	return released
}

// settle returns when both clients use the same primary.
func (s *site) settle(here, there *rlock.Client) {
	s.t.Helper()
	for round := 0; ; round++ {
		name := fmt.Sprintf("settling:%d", round) // a lost lock is left alone
		require.NoError(s.t, here.NewLock(name).Lock(s.ctx))
		taken, err := there.NewLock(name).TryLock(s.ctx)
		unlocked := here.NewLock(name).Unlock(s.ctx)
		if err == nil && !taken && unlocked == nil {
			return
		}
		if taken {
			_ = there.NewLock(name).Unlock(s.ctx)
		}
		require.NoError(s.t, s.ctx.Err(), "the clients use different primaries")
	}
}

// A Cluster's planned failover loses no write.
func TestAHoldAndItsWaitersOutliveAPlannedFailoverOfACluster(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	here, there := s.client(), s.client()
	for range 2 { // there and back
		assert.NoError(t, s.change(here, there, func() { s.Failover(key) }))
		s.settle(here, there)
		s.wakes(here, there, s.family())
	}
}

func TestAHoldAndItsWaitersOutliveAMoveOfTheirSlot(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	here, there := s.client(), s.client()
	for range 2 { // there and back
		assert.NoError(t, s.change(here, there, func() { s.MoveSlot(key) }))
		s.settle(here, there)
		s.wakes(here, there, s.family())
	}
}

// What only Valkey 9 has. `.ci/servers valkey` runs these tests with the newest one.

// Valkey 9 hands a slot over at once, with all keys in it, and ends its sharded subscriptions.
func TestHoldsAndTheirWaitersOutliveAnAtomicMoveOfTheirSlot(t *testing.T) {
	t.Parallel()
	redistest.NeedValkey(t, 9)
	s := at(t, calm(redistest.Cluster(t)))
	here, there := s.client(), s.client()
	kinds := []struct {
		name, queue string // in the slot of key
		lock        func(clients []*rlock.Client, name string) locker
	}{
		{key, "rlock_queue:{" + key + "}", plainLock},
		{"{" + key + "}fenced", "rlock_queue:{" + key + "}fenced:", fencedLock},
		{"{" + key + "}fair", "rlock_queue:{" + key + "}fair:", fairLock},
		{"{" + key + "}written", "rlock_queue:{" + key + "}written:rw", writeLock},
		{"{" + key + "}permits", "rlock_queue:{" + key + "}permits:sem", semaphoreOfOne},
	}
	for range 2 { // there and back
		var holds []*rlock.Hold
		var waiters []<-chan error
		for _, k := range kinds {
			hold, err := k.lock([]*rlock.Client{here}, k.name).Acquire(s.ctx)
			require.NoError(t, err)
			holds = append(holds, hold)
			waiters = append(waiters, background(func() error { return k.lock([]*rlock.Client{there}, k.name).Do(s.ctx, nothing) }))
			require.Eventually(t, func() bool { return s.number("ZCOUNT", k.queue, "1", "+inf") == 1 }, hang, time.Millisecond)
		}
		s.MoveSlotAtomically(key)
		for i, k := range kinds {
			assert.True(t, holds[i].Valid(), k.name)
			assert.NoError(t, holds[i].Release(s.ctx), k.name)
			assert.NoError(t, s.await(waiters[i]), k.name)
		}
		s.settle(here, there)
		s.wakes(here, there, s.family())
	}
	require.NoError(t, s.do("DEL", "redisson_lock_token:{"+key+"}fenced").Error())
}

func TestTheLockGoesOnWhenThePrimaryOfAClusterDies(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Cluster(t))
	here, there := s.client(), s.client()
	err := s.change(here, there, func() { s.Primary(key).Stop() })
	assert.True(t, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), err)
	s.settle(here, there)
}

// Databases of a Cluster have keys of their own and share all channels: the locks of one name in
// two databases neither exclude nor wake each other.
func TestTheDatabasesOfAClusterHaveLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	redistest.NeedValkey(t, 9)
	s := at(t, calm(redistest.Cluster(t, "--cluster-databases", "2")))
	first := func(c *rlock.Config) { c.Redis.SelectDB = 1 }
	zero, one := []*rlock.Client{s.client(), s.client()}, []*rlock.Client{s.client(first), s.client(first)}

	held, err := zero[0].NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	beside, err := one[0].NewLock(key).Acquire(s.ctx, rlock.WithWait(0))
	require.NoError(t, err, "the lock is another one in the other database")
	waiters := []<-chan error{
		background(func() error { return zero[1].NewLock(key).Do(s.ctx, nothing) }),
		background(func() error { return one[1].NewLock(key).Do(s.ctx, nothing) }),
	}
	s.awaitWaiters(1, key)
	s.awaitListeners(1, s.family(), "rlock_grants:{"+key+"}:"+one[1].ID())
	require.NoError(t, held.Release(s.ctx))
	require.NoError(t, s.await(waiters[0]))
	assert.True(t, beside.Valid())
	require.NoError(t, beside.Release(s.ctx))
	require.NoError(t, s.await(waiters[1]))

	r := new(record)
	for _, client := range one {
		r.work(s, client.NewLock(key), 4, 12)
	}
	for _, client := range zero {
		require.NoError(t, client.NewLock(key).Do(s.ctx, nothing))
	}
	r.check(t, 2*4*12)
}

func TestInAClusterWithPlainPubSubNoSubscribersAreCounted(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	c := s.crowd(3, 3, func(c *rlock.Config) { c.PubSub = rlock.PubSubPlain })
	c.goesOn(300)
	c.end()
}

func TestInAClusterTheCounterHasTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	client := s.client()
	for _, name := range []string{"a", "{a}:b", "b:{a}", "a{b}c"} {
		lock := client.NewFencedLock(name)
		assert.EqualValues(t, 1, oneSection(s.ctx, t, lock))
		tagged := name
		if !strings.Contains(name, "{") {
			tagged = "{" + name + "}"
		}
		assert.EqualValues(t, 1, s.number("GET", "redisson_lock_token:"+tagged))
	}
	assert.ErrorIs(t, client.NewFencedLock("a{b").Lock(s.ctx), rlock.ErrInvalidName)
}
