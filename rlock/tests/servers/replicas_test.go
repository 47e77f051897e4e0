package servers_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAGrantCountsOnceSoManyReplicasHaveIt(t *testing.T) {
	t.Parallel()
	testbed.Replicated(t, func(t *testing.T, s *testbed.Site) {
		all := testbed.ReplicasOf[s.Kind]
		lock, other, any := s.NewLock(testbed.WithReplicas(all)), s.NewLock(testbed.WithReplicas(all)), s.NewLock()
		require.NoError(t, lock.Lock(s.Ctx))
		assert.EqualValues(t, 1, s.Number("HLEN", testbed.Key))
		assert.False(t, s.IsFree(any))
		require.NoError(t, lock.Unlock(s.Ctx))

		resume := s.PauseReplicas()
		begin := time.Now()
		ok, err := lock.TryLock(s.Ctx)
		t.Logf("TryLock with the replicas paused: %v after %v", err, time.Since(begin).Round(time.Millisecond))
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		assert.ErrorContains(t, err, "0 of ")
		assert.False(t, ok)
		assert.False(t, lock.IsHeld(s.Ctx))
		assert.Zero(t, s.Number("EXISTS", testbed.Key), "the lock is released before the error is returned")

		limited, cancel := context.WithTimeout(s.Ctx, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, lock.Lock(limited), context.DeadlineExceeded)
		waiter := testbed.Start(func() error { return lock.Do(s.Ctx, func(context.Context) error { return nil }) })
		require.Error(t, testbed.ErrorOf(other.Acquire(s.Ctx, rlock.WithWait(time.Second))))
		resume()
		require.NoError(t, s.Await(waiter), "a waiter gets the lock when the replicas are back")
		assert.True(t, s.IsFree(any))

		// WAIT counts the writes of its own connection only: it must not be for an older write.
		require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
		s.Forget()
		defer s.PauseReplicas()()
		require.ErrorIs(t, testbed.ErrorOf(lock.TryLock(s.Ctx)), rlock.ErrNotReplicated)
	})
}

func TestReplicasBehindSentinel(t *testing.T) {
	t.Parallel()
	server := testbed.Calm(redistest.Sentinel(t))
	t.Run("all but one are enough where so many are asked for", func(t *testing.T) {
		s := testbed.At(t, server)
		one, all := s.NewLock(testbed.WithReplicas(1)), s.NewLock(testbed.WithReplicas(2))
		silent := s.Replicas()[0]
		silent.Pause()
		defer silent.Resume()
		require.NoError(t, one.Do(s.Ctx, testbed.Nothing))
		_, err := all.TryLock(s.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		assert.ErrorContains(t, err, "1 of 2")
	})
	t.Run("a call that is cancelled returns at once and leaves nothing", func(t *testing.T) {
		s := testbed.At(t, server)
		lock := s.NewLock(testbed.WithReplicas(2))
		defer s.PauseReplicas()()
		ctx, cancel := context.WithCancel(s.Ctx)
		waiter := testbed.Start(func() error { return lock.Lock(ctx) })
		is := func(n int64) func() bool { return func() bool { return s.Number("EXISTS", testbed.Key) == n } }
		require.Eventually(t, is(1), testbed.Hang, time.Millisecond, "the lock is granted, and the call waits for replicas")
		cancel()
		require.ErrorIs(t, s.Await(waiter), context.Canceled)
		require.Eventually(t, is(0), testbed.Hang, time.Millisecond)
	})
	t.Run("a grant by the queue waits for them", func(t *testing.T) {
		c := testbed.At(t, server).NewCrowd(2, 3, func(c *rlock.Config) { c.SyncReplicas = 1 })
		c.GoesOn(100)
		c.End()
	})
}

func TestClientsThatWaitForReplicasExcludeEachOther(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		all := testbed.ReplicasOf[s.Kind]
		if all == 0 {
			return
		}
		r := new(testbed.Record)
		for range 3 {
			r.Work(s, s.NewLock(testbed.WithReplicas(all)), 4, 12)
		}
		r.Work(s, s.NewLock(), 4, 12)
		r.Check(t, 4*4*12)
	})
}

// The tokens that a tenure may hand out are reserved by its grant, which is replicated; no
// later write matters.
func TestWithReplicasAFailoverLosesNoToken(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, testbed.Calm(redistest.Sentinel(t)))
	lock := s.NewFencedLock(testbed.WithReplicas(2), testbed.WithLease(2*time.Second))
	var last atomic.Uint64
	crowd := func() {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				hold, err := lock.Acquire(s.Ctx)
				if !assert.NoError(t, err) {
					return
				}
				token, err := hold.Token()
				assert.NoError(t, err)
				if before := last.Swap(token); before >= token {
					assert.Fail(t, "tokens do not grow", "%d after %d", token, before)
				}
				if err := hold.Release(s.Ctx); err != nil {
					told := errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed)
					assert.True(t, told, err) // the primary was demoted, or was one for a moment only
				}
			})
		}
		all.Wait()
	}
	crowd()
	s.Failover(testbed.Key)
	crowd()
}

func TestAServerThatRefusesWaitIsTheErrorOfNew(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t))
	config := s.Limited("~*", "&*", "+@all", "-wait")
	client, err := rlock.New(config)
	require.NoError(t, err, "no WAIT is sent without SyncReplicas")
	require.NoError(t, client.Close())
	config.SyncReplicas = 1
	_, err = rlock.New(config)
	require.ErrorIs(t, err, rlock.ErrNoPermission)
	assert.ErrorContains(t, err, "SyncReplicas")

	s.Admin("ACL", "SETUSER", config.Redis.Username, "+wait")
	client, err = rlock.New(config)
	require.NoError(t, err)
	defer client.Close()
	s.Admin("ACL", "SETUSER", config.Redis.Username, "-wait")
	require.ErrorIs(t, client.NewLock(testbed.Key).Lock(s.Ctx), rlock.ErrNoPermission, "a later refusal is returned at once")
	assert.Zero(t, s.Number("EXISTS", testbed.Key))
}
