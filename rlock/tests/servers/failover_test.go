package servers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A failover makes another node the primary while grants go on.
type failover struct {
	what   string
	before func(s *testbed.Site)
	run    func(s *testbed.Site, g *grabber) // returns when the new primary is known
}

var failovers = []failover{
	// Sentinel promotes a replica, reconfigures the other one, and reaches the old primary
	// last: grants of the old primary are lost meanwhile.
	{"planned", func(*testbed.Site) {}, func(s *testbed.Site, g *grabber) {
		replacePrimary(s)
		g.until(g.count() + 100) // granted by the new primary
	}},
	// The machine of the primary dies, with the writes that its replicas do not have yet.
	{"machine dies 50 ms ahead of its replicas", func(*testbed.Site) {}, func(s *testbed.Site, g *grabber) {
		dies(s, g, s.Replicas()...)
	}},
	// Only one replica is that far behind, and Sentinel prefers it.
	{"machine dies 50 ms ahead of the preferred replica", func(s *testbed.Site) { prefer(s, s.Replicas()[0]) }, func(s *testbed.Site, g *grabber) {
		dies(s, g, s.Replicas()[0])
	}},
}

// With all replicas no grant is lost. The losses with fewer replicas are measured by
//
//	go test -v -run TestGrantsLostInAFailover ./rlock/tests/servers -long
func TestGrantsLostInAFailover(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{0, 1, 2} {
		if replicas < 2 && !*testbed.Long {
			continue
		}
		var all sync.WaitGroup
		for _, f := range failovers {
			all.Go(func() { // it mostly waits for the sentinels
				t.Run(fmt.Sprintf("%s, %d of 2 replicas", f.what, replicas), func(t *testing.T) { f.measure(t, replicas) })
			})
		}
		all.Wait()
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

func (f failover) measure(t *testing.T, replicas int) {
	s := testbed.At(t, redistest.Sentinel(t))
	f.before(s)
	g := grab(s, replicas)
	g.until(100)
	f.run(s, g)
	granted, failed := g.stop()
	lost := missing(s, granted)
	t.Logf("%s, SyncReplicas %d: %d granted, %d of them lost; %d attempts had too few replicas", f.what, replicas, len(granted), lost, failed)
	if replicas == 2 {
		assert.Zero(t, lost)
	}
}

// dies delays the replicas behind the primary by 50 ms, while grants go on, and then kills
// the primary with all writes that are on their way.
func dies(s *testbed.Site, g *grabber, replicas ...*redistest.Server) {
	s.T.Helper()
	primary := s.Primary(testbed.Key)
	far, err := network.Listen(primary.Addr())
	require.NoError(s.T, err)
	defer far.Close()
	far.SetRoundTrip(100 * time.Millisecond)
	host, port, err := net.SplitHostPort(far.Addr())
	require.NoError(s.T, err)
	for _, r := range replicas {
		client := r.Client(s.T)
		require.NoError(s.T, client.Do(s.Ctx, client.B().Arbitrary("REPLICAOF", host, port).Build()).Error())
		require.Eventually(s.T, func() bool {
			role := s.Role(r)
			return role["master_port"] == port && role["master_link_status"] == "up"
		}, testbed.Hang, time.Millisecond)
	}
	g.until(g.count() + 30)
	far.Cut()
	primary.Stop()
	s.TakeForDead(time.Second)
	require.Eventually(s.T, func() bool { return s.Primary(testbed.Key).Addr() != primary.Addr() }, testbed.Hang, 10*time.Millisecond)
}

// prefer returns when every sentinel prefers to promote this replica.
func prefer(s *testbed.Site, replica *redistest.Server) {
	s.T.Helper()
	client := replica.Client(s.T)
	require.NoError(s.T, client.Do(s.Ctx, client.B().ConfigSet().ParameterValue().ParameterValue("replica-priority", "1").Build()).Error())
	for _, sentinel := range s.Options().InitAddress {
		option := s.Options()
		option.InitAddress, option.Sentinel, option.ForceSingleClient = []string{sentinel}, rueidis.SentinelOption{}, true
		observer, err := rueidis.NewClient(option)
		require.NoError(s.T, err)
		defer observer.Close()
		require.Eventually(s.T, func() bool {
			known, err := observer.Do(s.Ctx, observer.B().SentinelReplicas().Master("rlock").Build()).ToArray()
			return err == nil && slices.ContainsFunc(known, func(m rueidis.RedisMessage) bool {
				fields, _ := m.AsStrMap()
				return fields["slave-priority"] == "1" && net.JoinHostPort(fields["ip"], fields["port"]) == replica.Addr()
			})
		}, testbed.Hang, 10*time.Millisecond)
	}
}

// A grabber takes one lock after the other, a thousand a second, and releases none.
type grabber struct {
	s       *testbed.Site
	workers sync.WaitGroup
	cancel  context.CancelFunc
	failed  atomic.Int64 // attempts that had too few replicas
	mu      sync.Mutex   // guards the fields below
	granted []string
}

func grab(s *testbed.Site, replicas int) *grabber {
	s.T.Helper()
	client, err := rlock.New(rlock.Config{Redis: s.Options(), SyncReplicas: replicas, Logger: testbed.Quiet})
	require.NoError(s.T, err)
	s.T.Cleanup(func() { _ = client.Close() }) // lost locks cannot be released
	ctx, cancel := context.WithCancel(s.Ctx)
	g := &grabber{s: s, cancel: cancel}
	for w := range 4 {
		g.workers.Go(func() {
			pace := time.NewTicker(4 * time.Millisecond)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("grabbed:%d:%d", w, n)
				_, err := client.NewLock(name).Acquire(ctx, rlock.WithWait(0), rlock.WithLease(time.Hour))
				switch {
				case err == nil:
					g.mu.Lock()
					g.granted = append(g.granted, name)
					g.mu.Unlock()
				case errors.Is(err, rlock.ErrNotReplicated):
					g.failed.Add(1)
				}
				<-pace.C
			}
		})
	}
	return g
}

func (g *grabber) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.granted)
}

// until returns when n locks have been granted.
func (g *grabber) until(n int) {
	g.s.T.Helper()
	require.Eventually(g.s.T, func() bool { return g.count() >= n }, testbed.Hang, time.Millisecond)
}

func (g *grabber) stop() (granted []string, failed int64) {
	g.cancel()
	g.workers.Wait()
	return g.granted, g.failed.Load()
}

// missing returns how many of the keys are absent.
func missing(s *testbed.Site, keys []string) (missing int) {
	s.T.Helper()
	for len(keys) > 0 {
		n := min(len(keys), 1000)
		some := s.Outside.B().Exists().Key(keys[:n]...).Build()
		there, err := s.Outside.Do(s.Ctx, some).AsInt64()
		require.NoError(s.T, err)
		missing += n - int(there)
		keys = keys[n:]
	}
	return missing
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

func TestClientsThatWaitForReplicasExcludeEachOther(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		all := testbed.ReplicasOf[s.Kind]
		if all == 0 {
			return
		}
		locks := []testbed.Locker{s.NewLock()}
		for range 3 {
			locks = append(locks, s.NewLock(testbed.WithReplicas(all)))
		}
		s.Exclude(12, locks...)
	})
}

// The tokens that a tenure may hand out are reserved by its grant, which is replicated; no
// later write matters.
func TestWithReplicasAFailoverLosesNoToken(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Sentinel(t))
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
