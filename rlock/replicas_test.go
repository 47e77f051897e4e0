package rlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAGrantCountsOnceSoManyReplicasHaveIt(t *testing.T) {
	t.Parallel()
	replicated(t, func(t *testing.T, s *site) {
		all := replicasOf[s.Kind]
		lock, other, any := s.lock(withReplicas(all)), s.lock(withReplicas(all)), s.lock()
		require.NoError(t, lock.Lock(s.ctx))
		assert.EqualValues(t, 1, s.number("HLEN", key))
		assert.False(t, s.isFree(any))
		require.NoError(t, lock.Unlock(s.ctx))

		resume := s.pauseReplicas()
		begin := time.Now()
		ok, err := lock.TryLock(s.ctx)
		t.Logf("TryLock with the replicas paused: %v after %v", err, time.Since(begin).Round(time.Millisecond))
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		assert.ErrorContains(t, err, "0 of ")
		assert.False(t, ok)
		assert.False(t, lock.IsHeld(s.ctx))
		assert.Zero(t, s.number("EXISTS", key), "the lock is released before the error is returned")

		limited, cancel := context.WithTimeout(s.ctx, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, lock.Lock(limited), context.DeadlineExceeded)
		waiter := background(func() error { return lock.Do(s.ctx, func(context.Context) error { return nil }) })
		_, err = other.Acquire(s.ctx, rlock.WithWait(time.Second))
		require.Error(t, err)
		resume()
		require.NoError(t, s.await(waiter), "a waiter gets the lock when the replicas are back")
		assert.True(t, s.isFree(any))
	})
}

func TestAllButOneReplicaAreEnoughWhereSoManyAreAskedFor(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	one, all := s.lock(withReplicas(1)), s.lock(withReplicas(2))
	s.replicas()[0].Pause()
	require.NoError(t, one.Lock(s.ctx))
	require.NoError(t, one.Unlock(s.ctx))
	_, err := all.TryLock(s.ctx)
	require.ErrorIs(t, err, rlock.ErrNotReplicated)
	assert.ErrorContains(t, err, "1 of 2")
}

func TestClientsThatWaitForReplicasExcludeEachOther(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		all := replicasOf[s.Kind]
		if all == 0 {
			return
		}
		r := new(record)
		for range 3 {
			r.work(s, s.lock(withReplicas(all)), 4, 12)
		}
		r.work(s, s.lock(), 4, 12)
		r.check(t, 4*4*12)
	})
}

// A client that does not know yet that a slot has moved asks the old node, whose replica has
// all writes of that node, and answers so.
func TestTheReplicasOfANodeThatHasLostTheSlotDoNotCount(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	lock := s.lock(withReplicas(1), func(c *rlock.Config) {
		c.Redis.ClusterOption.ShardsRefreshInterval = time.Hour
	})
	require.NoError(t, lock.Lock(s.ctx))
	require.NoError(t, lock.Unlock(s.ctx))
	old := s.replicaOf(s.Primary(key))
	s.MoveSlot(key)
	defer s.pauseReplicas()()
	old.Resume()
	for range 2 {
		ok, err := lock.TryLock(s.ctx)
		require.Error(t, err)
		assert.False(t, ok)
	}
}

// A query that New may send to any node goes to the next one if a node is silent.
func TestAClientIsMadeWhileTheReplicasOfAClusterAreSilent(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	defer s.pauseReplicas()()
	var made []<-chan error
	for range 6 {
		made = append(made, background(func() error {
			client, err := rlock.New(rlock.Config{Redis: s.Options(), Logger: quiet})
			if err != nil {
				return err
			}
			return client.Close()
		}))
	}
	for _, result := range made {
		assert.NoError(t, s.await(result))
	}
}

func TestWithoutReplicasNoGrantCounts(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) { // its WAIT returns 0
		p, me := w.client(withReplicas(1)), w.caller()
		ok, err := p.NewLock(key).TryLock(me)
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		assert.False(t, ok)
		assert.False(t, w.Exists(key))

		_, err = p.NewLock(key).Acquire(me, rlock.WithWait(time.Minute))
		require.ErrorIs(t, err, rlock.ErrNotReplicated, "the error must not say that another owner holds the lock")
		assert.False(t, w.Exists(key))

		limited, cancel := context.WithTimeout(me, time.Minute)
		defer cancel()
		err = p.NewLock(key).Lock(limited)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		assert.False(t, w.Exists(key))
		require.NoError(t, p.Close())
	})
}

// Redis has the grant, too few replicas have it, and the release cannot be sent.
func TestAGrantThatDoesNotCountIsReleasedUntilRedisAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(withReplicas(1)), w.caller()
		p.net.Rule(scripts(1, network.Cut, network.Request, "released"))
		_, err := p.NewLock(key).TryLock(me)
		require.ErrorIs(t, err, rlock.ErrNotReplicated)
		within(t, 0, 5*time.Second, func() {
			w.eventually(func() bool { return !w.Exists(key) }, "the key is gone")
		})
		require.NoError(t, p.Close())
	})
}

// The acquire has a connection of its own, so that its release takes another one, and
// overtakes it.
func TestAnAcquireThatIsOvertakenByItsReleaseIsFreed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withReplicas(1))
		_, err := p.NewLock(key).TryLock(w.caller()) // the script is known, and the connection open
		require.ErrorIs(t, err, rlock.ErrNotReplicated)

		ctx, cancel := context.WithCancel(w.caller())
		p.net.Rule(scripts(1, network.Hold, network.Request, "acquired"))
		result := start(func() error { return p.NewLock(key).Lock(ctx) })
		require.True(t, pending(result))
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		p.net.Rule(nil)
		time.Sleep(5 * time.Second) // the client has given up the answer
		p.net.Deliver()
		synctest.Wait()
		require.True(t, w.Exists(key), "the late acquire is executed")
		within(t, 0, 10*time.Second, func() {
			w.eventually(func() bool { return !w.Exists(key) }, "the key is gone")
		})
	})
}

func TestACallThatIsCancelledWhileItWaitsForReplicasReturnsAtOnceAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	lock := s.lock(withReplicas(2))
	defer s.pauseReplicas()()
	ctx, cancel := context.WithCancel(s.ctx)
	waiter := background(func() error { return lock.Lock(ctx) })
	require.Eventually(t, func() bool { return s.number("EXISTS", key) == 1 }, hang, time.Millisecond, "the lock is granted, and the call waits for replicas")
	cancel()
	require.ErrorIs(t, s.await(waiter), context.Canceled)
	require.Eventually(t, func() bool { return s.number("EXISTS", key) == 0 }, hang, time.Millisecond)
}

// WAIT counts the writes of its own connection only.
func TestTheWaitForReplicasIsForTheGrantAndNoOlderWrite(t *testing.T) {
	t.Parallel()
	replicated(t, func(t *testing.T, s *site) {
		for what, known := range map[string]bool{"a script that is known": true, "a script that was forgotten": false} {
			t.Run(what, func(t *testing.T) {
				s := s.in(t)
				lock := s.lock(withReplicas(replicasOf[s.Kind]))
				require.NoError(t, lock.Lock(s.ctx))
				require.NoError(t, lock.Unlock(s.ctx))
				if !known {
					s.forget()
				}
				defer s.pauseReplicas()()
				_, err := lock.TryLock(s.ctx)
				require.ErrorIs(t, err, rlock.ErrNotReplicated)
			})
		}
	})
}

func TestAServerThatRefusesWaitIsTheErrorOfNew(t *testing.T) {
	t.Run("renamed away", func(t *testing.T) {
		server := redistest.Standalone(t, "--rename-command", "WAIT", "")
		_, err := rlock.New(rlock.Config{Redis: server.Options(), SyncReplicas: 1, Logger: quiet})
		require.ErrorIs(t, err, rlock.ErrUnsupported)
		assert.ErrorContains(t, err, "SyncReplicas")
		dial(t, server.Options()) // no WAIT is sent without SyncReplicas
	})
	t.Run("not permitted", func(t *testing.T) {
		server, admin := standalone(t)
		permit := func(right string) {
			require.NoError(t, admin.Do(t.Context(), admin.B().Arbitrary("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", right).Build()).Error())
		}
		option := server.Options()
		option.Username, option.Password = "limited", "secret"
		config := rlock.Config{Redis: option, SyncReplicas: 1, Logger: quiet}
		permit("-wait")
		_, err := rlock.New(config)
		require.ErrorIs(t, err, rlock.ErrNoPermission)

		permit("+wait")
		client, err := rlock.New(config)
		require.NoError(t, err)
		defer client.Close()
		permit("-wait")
		err = client.NewLock(key).Lock(t.Context())
		require.ErrorIs(t, err, rlock.ErrNoPermission, "a later refusal is returned at once")
		n, err := admin.Do(t.Context(), admin.B().Exists().Key(key).Build()).AsInt64()
		require.NoError(t, err)
		assert.Zero(t, n)
	})
}

// With SyncReplicas a client that was granted the lock still waits for replicas.
func TestAFairGrantWaitsForReplicas(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	c := s.crowd(2, 3, func(c *rlock.Config) { c.SyncReplicas = 1 })
	c.goesOn(100)
	c.end()
}

// The tokens that a tenure may hand out are reserved by its grant, which is replicated; no
// later write matters.
func TestWithReplicasAFailoverLosesNoToken(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	lock := s.fenced(withReplicas(2), withLease(2*time.Second))
	var last atomic.Uint64
	crowd := func() {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				hold, err := lock.Acquire(s.ctx)
				if !assert.NoError(t, err) {
					return
				}
				token, err := hold.Token()
				assert.NoError(t, err)
				if before := last.Swap(token); before >= token {
					assert.Fail(t, "tokens do not grow", "%d after %d", token, before)
				}
				if err := hold.Release(s.ctx); err != nil {
					told := errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed)
					assert.True(t, told, err) // the primary was demoted, or was one for a moment only
				}
			})
		}
		all.Wait()
	}
	crowd()
	s.Failover(key)
	crowd()
}
