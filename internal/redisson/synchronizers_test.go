package redisson_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	jvm "github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// The synchronizers of both languages wait for each other.
func TestSynchronizersAreSharedWithRedisson(t *testing.T) {
	withOldAndNew(t, setting{}, func(s *scene) {
		ctx, c, java := s.ctx, redisson.New(s.client), s.java.Thread("a")
		s.run("a semaphore", func(s *scene) {
			t, sem := s.t, c.Semaphore("sem")
			gives(t, true)(sem.TrySetPermits(ctx, 2))
			require.NoError(t, java.Acquire("sem", 1))
			require.NoError(t, sem.Acquire(ctx, 1))
			gives(t, false)(java.TryAcquire("sem", 1, 0))

			here := s.start(func() error { return sem.Acquire(ctx, 2) })
			require.NoError(t, java.Release("sem", 1))
			require.NoError(t, java.AddPermits("sem", 1)) // also while it is waited for
			here.succeeds()

			there := s.start(func() error { return java.Acquire("sem", 2) })
			s.awaitAsleep(java, "")
			require.NoError(t, sem.Release(ctx, 2))
			there.succeeds()
			gives(t, 0)(s.java.Thread("b").AvailablePermits("sem"))
		})

		s.run("permits with leases", func(s *scene) {
			t, sem := s.t, c.PermitSemaphore("permits")
			gives(t, true)(sem.TrySetPermits(ctx, 1))
			mine, err := sem.Acquire(ctx, 0)
			require.NoError(t, err)
			gives(t, true)(java.UpdateLease("permits", mine.ID(), time.Minute)) // Redisson knows its id
			var theirs string
			there := s.start(func() (err error) {
				theirs, err = java.AcquirePermit("permits", 2*time.Second)
				return err
			})
			s.awaitAsleep(java, "")
			require.NoError(t, mine.Release(ctx))
			there.succeeds()
			assert.Len(t, theirs, 32)
			again, err := sem.Acquire(ctx, time.Minute) // its lease ends
			require.NoError(t, err)
			gives(t, 0)(java.FreePermits("permits"))
			gives(t, false)(java.TryReleasePermit("permits", theirs))
			gives(t, true)(java.TryReleasePermit("permits", again.ID()))
			require.Error(t, again.Release(ctx))
		})

		s.run("a latch", func(s *scene) {
			t, latch := s.t, c.CountDownLatch("latch")
			gives(t, true)(java.TrySetCount("latch", 2))
			here := s.start(func() error { return latch.Await(ctx) })
			there := s.start(func() error { return s.java.Thread("b").Await("latch") })
			s.awaitAsleep(s.java.Thread("b"), "")
			require.NoError(t, java.CountDown("latch"))
			gives(t, int64(1))(latch.Count(ctx))
			require.NoError(t, latch.CountDown(ctx))
			here.succeeds()
			there.succeeds()
		})

		s.run("both take turns", func(s *scene) {
			t, sem := s.t, c.Semaphore("turns")
			gives(t, true)(sem.TrySetPermits(ctx, 3))
			var inside, most atomic.Int64
			enter := func() {
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
			}
			var all []*call
			for range 4 {
				all = append(all, s.start(func() error {
					for range 50 {
						if err := sem.Acquire(ctx, 1); err != nil {
							return err
						}
						enter()
						time.Sleep(time.Millisecond)
						inside.Add(-1)
						if err := sem.Release(context.WithoutCancel(ctx), 1); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			for _, name := range []string{"1", "2"} {
				thread := s.java.Thread(name)
				all = append(all, s.start(func() error {
					for range 50 {
						// A wake-up of Redisson's may be lost: it would sleep until the next
						// message.
						if ok, err := thread.TryAcquire("turns", 1, 100*time.Millisecond); err != nil {
							return err
						} else if !ok {
							continue
						}
						enter()
						inside.Add(-1)
						if err := thread.Release("turns", 1); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			for _, one := range all {
				one.succeeds()
			}
			assert.LessOrEqual(t, most.Load(), int64(3))
			gives(t, 3)(sem.AvailablePermits(ctx))
		})
	})
}

// Redisson's NameMapper puts a prefix before each name, as Config.Prefix does. The oldest version
// names the leases of permits after the name without it.
func TestSynchronizersBehindANameMapperAreShared(t *testing.T) {
	withOldAndNew(t, setting{prefix: "app:"}, func(s *scene) {
		t, ctx, c, java := s.t, s.ctx, redisson.New(s.client), s.java.Thread("a")
		sem := c.Semaphore("sem")
		here := s.start(func() error { return sem.Acquire(ctx, 1) })
		require.NoError(t, java.Release("sem", 1))
		here.succeeds()
		assert.EqualValues(t, 1, s.number("EXISTS", "app:sem"))
		there := s.start(func() error { return java.Acquire("sem", 1) })
		s.awaitAsleep(java, "")
		require.NoError(t, sem.Release(ctx, 1))
		there.succeeds()

		latch := c.CountDownLatch("latch")
		gives(t, true)(java.TrySetCount("latch", 1))
		there = s.start(func() error { return java.Await("latch") })
		s.awaitAsleep(java, "")
		require.NoError(t, latch.CountDown(ctx))
		there.succeeds()
		assert.Zero(t, s.number("EXISTS", "app:latch"))

		permits, shared := c.PermitSemaphore("permits"), s.setting.version != jvm.Oldest
		require.NoError(t, permits.SetPermits(ctx, 2))
		ours, err := permits.Acquire(ctx, time.Minute)
		require.NoError(t, err)
		theirs, err := java.AcquirePermit("permits", time.Minute)
		require.NoError(t, err)
		gives(t, 0)(java.FreePermits("permits")) // both sides take from one number of permits
		gives(t, shared)(java.UpdateLease("permits", ours.ID(), time.Minute))
		gives(t, shared)(permits.Release(ctx, theirs))
	})
}

// In a Cluster both sides choose sharded channels, or are told to have plain ones, which the oldest
// version always has.
func TestSynchronizersAreSharedInACluster(t *testing.T) {
	t.Parallel()
	server := redistest.Cluster(t)
	for _, row := range []struct {
		title string
		setting
	}{
		{"4.7.0 chooses", setting{version: jvm.V4}},
		{"4.7.0 plain", setting{version: jvm.V4, sharding: jvm.ShardingOff, pubSub: rlock.PubSubPlain}},
		{"3.17.7", setting{version: jvm.Oldest, pubSub: rlock.PubSubPlain}},
	} {
		t.Run(row.title, func(t *testing.T) {
			s := stage(t, server, row.setting)
			c, java := redisson.New(s.client), s.java.Thread("a")
			for range 3 { // in as many slots
				sharedInACluster(s, c, java)
			}
		})
	}
}

func sharedInACluster(s *scene, c *redisson.Client, java jvm.Thread) {
	t, ctx, name := s.t, s.ctx, s.fresh()
	sem := c.Semaphore(name + ":{sem}")
	there := s.start(func() error { return java.Acquire(name+":{sem}", 1) })
	s.awaitAsleep(java, "")
	require.NoError(t, sem.Release(ctx, 1))
	there.succeeds()
	began := time.Now()
	here := s.start(func() error { return sem.Acquire(ctx, 1) })
	s.awaitChannel("redisson_sc:" + name + ":{sem}")
	require.NoError(t, java.Release(name+":{sem}", 1))
	here.succeeds()
	assert.Less(t, time.Since(began), fallback, "it is told, and need not look")

	permits := c.PermitSemaphore(name + ":permits")
	require.NoError(t, permits.SetPermits(ctx, 1))
	ours, err := permits.Acquire(ctx, 0)
	require.NoError(t, err)
	var theirs string
	there = s.start(func() (err error) {
		theirs, err = java.AcquirePermit(name+":permits", time.Minute)
		return err
	})
	s.awaitAsleep(java, "")
	require.NoError(t, ours.Release(ctx))
	there.succeeds()
	here = s.start(func() (err error) { ours, err = permits.Acquire(ctx, time.Minute); return err })
	s.awaitChannel("redisson_sc:{" + name + ":permits}")
	gives(t, true)(java.TryReleasePermit(name+":permits", theirs))
	here.succeeds()
	require.NoError(t, ours.Release(ctx))

	latch := c.CountDownLatch(name + ":latch")
	gives(t, true)(latch.TrySetCount(ctx, 2))
	there = s.start(func() error { return java.Await(name + ":latch") })
	s.awaitAsleep(java, "")
	here = s.start(func() error { return latch.Await(ctx) })
	require.NoError(t, s.java.Thread("b").CountDown(name+":latch"))
	require.NoError(t, latch.CountDown(ctx))
	here.succeeds()
	there.succeeds()
}
