package rlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

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
	s.awaitListeners(1, s.family(), "rlock_turn:{"+key+"}:"+one[1].ID())
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
