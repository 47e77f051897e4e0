package servers_test

import (
	"context"
	"errors"
	"fmt"
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

// The machine of the primary dies, with the writes that its replicas do not have yet. With all
// replicas no grant is lost; -v shows how many are with fewer.
func TestGrantsLostInAFailover(t *testing.T) {
	for behind, which := range map[int]string{1: "the preferred replica", 2: "both replicas"} {
		for replicas := range 3 {
			t.Run(fmt.Sprintf("50 ms ahead of %s, SyncReplicas %d", which, replicas), func(t *testing.T) {
				t.Parallel()
				primary, all := own(t), []*testbed.Site{own(t), own(t)}
				far, err := network.Listen(primary.Addr())
				require.NoError(t, err)
				defer far.Close()
				far.SetRoundTrip(100 * time.Millisecond)
				for i, replica := range all {
					follow(t, replica, []string{primary.Addr(), far.Addr()}[min(1, behind/(i+1))])
				}
				var e endpoint
				e.at.Store(primary)
				client := e.client(t, func(c *rlock.Config) { c.SyncReplicas = replicas })

				grants := make(chan string, 10_000)
				var workers sync.WaitGroup
				for w := range 8 {
					workers.Go(func() {
						for n := 0; ; n++ {
							name := fmt.Sprint(w, ":", n)
							if _, err := client.NewLock(name).Acquire(primary.Ctx, rlock.WithWait(0), rlock.WithLease(time.Hour)); err != nil {
								return
							}
							grants <- name
							time.Sleep(8 * time.Millisecond)
						}
					})
				}
				require.Eventually(t, func() bool { return len(grants) >= 150 }, testbed.Hang, time.Millisecond)
				far.Cut()
				primary.Stop()
				defer primary.Start() // the end of the test looks at the keys that are left
				workers.Wait()
				close(grants)
				var granted []string
				for name := range grants {
					granted = append(granted, name)
				}
				e.at.Store(all[0])
				require.NoError(t, all[0].Do("REPLICAOF", "NO", "ONE").Error())
				there, err := all[0].Do("EXISTS", granted[0], granted[1:]...).AsInt64()
				require.NoError(t, err)
				t.Logf("%d of %d grants are lost", len(granted)-int(there), len(granted))
				if replicas == 2 {
					assert.Len(t, granted, int(there))
				}
			})
		}
	}
}

// replacePrimary makes a replica the primary, and returns when the old primary follows it. Until
// then the old primary takes writes that are lost.
func replacePrimary(s *testbed.Site) {
	s.T.Helper()
	old := s.Primary(testbed.Key)
	s.Failover(testbed.Key)
	require.Eventually(s.T, func() bool {
		role := s.Role(old)
		return role["role"] == "slave" && role["master_link_status"] == "up"
	}, testbed.Hang, 10*time.Millisecond)
}

// Behind Sentinel the old primary takes writes that are lost later, and a lock with them; no
// other error occurs.
func TestTheLockGoesOnAfterAPlannedFailoverBySentinel(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Sentinel(t))
	here, there := s.NewClient(testbed.WithLease(2*time.Second)), s.NewClient(testbed.WithLease(2*time.Second))
	err := change(s, here, there, func() { replacePrimary(s) })
	assert.True(t, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), err)
	settle(s, here, there)
	s.Wakes(here, there, s.Family())
	assert.Eventually(t, func() bool {
		left, err := s.Do("EXISTS", testbed.Key).AsInt64()
		return err == nil && left == 0
	}, testbed.Hang, 10*time.Millisecond, "a key whose release was lost ends with its lease")
}

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
		require.NoError(t, redistest.Await(t, waiter), "a waiter gets the lock when the replicas are back")
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
	server := redistest.Sentinel(t)
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
		require.ErrorIs(t, redistest.Await(t, waiter), context.Canceled)
		require.Eventually(t, is(0), testbed.Hang, time.Millisecond)
	})
	t.Run("a grant by the queue waits for them", func(t *testing.T) {
		c := testbed.At(t, server).NewCrowd(2, 3, func(c *rlock.Config) { c.SyncReplicas = 1 })
		c.GoesOn(100)
		c.End()
	})
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
