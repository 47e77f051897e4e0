package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A failover makes another node the primary while grants go on.
type failover struct {
	what   string
	before func(s *site)
	run    func(s *site, g *grabber) // returns when the new primary is known
}

var failovers = []failover{
	// Sentinel promotes a replica, reconfigures the other one, and reaches the old primary
	// last: grants of the old primary are lost meanwhile.
	{"planned", func(*site) {}, func(s *site, g *grabber) {
		s.replace()
		g.until(g.count() + 100) // granted by the new primary
	}},
	// The machine of the primary dies, with the writes that its replicas do not have yet.
	{"machine dies 50 ms ahead of its replicas", func(*site) {}, func(s *site, g *grabber) {
		s.dies(g, s.replicas()...)
	}},
	// Only one replica is that far behind, and Sentinel prefers it.
	{"machine dies 50 ms ahead of the preferred replica", func(s *site) { s.prefer(s.replicas()[0]) }, func(s *site, g *grabber) {
		s.dies(g, s.replicas()[0])
	}},
}

// With all replicas no grant is lost. The losses with fewer replicas are measured by
//
//	go test -v -run TestGrantsLostInAFailover ./rlock -long
func TestGrantsLostInAFailover(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{0, 1, 2} {
		if replicas < 2 && !*long {
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

// replace makes a replica the primary, and returns when the old primary follows it. Until
// then the old primary takes writes that are lost.
func (s *site) replace() {
	s.t.Helper()
	old := s.Primary(key)
	s.Failover(key)
	require.Eventually(s.t, func() bool {
		role := s.role(old)
		return role["role"] == "slave" && role["master_link_status"] == "up"
	}, hang, 10*time.Millisecond)
}

func (f failover) measure(t *testing.T, replicas int) {
	s := at(t, calm(redistest.Sentinel(t)))
	f.before(s)
	g := s.grab(replicas)
	g.until(100)
	f.run(s, g)
	granted, failed := g.stop()
	lost := s.missing(granted)
	t.Logf("%s, SyncReplicas %d: %d granted, %d of them lost; %d attempts had too few replicas", f.what, replicas, len(granted), lost, failed)
	if replicas == 2 {
		assert.Zero(t, lost)
	}
}

// dies delays the replicas behind the primary by 50 ms, while grants go on, and then kills
// the primary with all writes that are on their way.
func (s *site) dies(g *grabber, replicas ...*redistest.Server) {
	s.t.Helper()
	primary := s.Primary(key)
	far, err := network.Listen(primary.Addr())
	require.NoError(s.t, err)
	defer far.Close()
	far.SetRoundTrip(100 * time.Millisecond)
	host, port, err := net.SplitHostPort(far.Addr())
	require.NoError(s.t, err)
	for _, r := range replicas {
		client := r.Client(s.t)
		require.NoError(s.t, client.Do(s.ctx, client.B().Arbitrary("REPLICAOF", host, port).Build()).Error())
		require.Eventually(s.t, func() bool {
			role := s.role(r)
			return role["master_port"] == port && role["master_link_status"] == "up"
		}, hang, time.Millisecond)
	}
	g.until(g.count() + 30)
	far.Cut()
	primary.Stop()
	s.TakeForDead(time.Second)
	require.Eventually(s.t, func() bool { return s.Primary(key).Addr() != primary.Addr() }, hang, 10*time.Millisecond)
}

// prefer returns when every sentinel prefers to promote this replica.
func (s *site) prefer(replica *redistest.Server) {
	s.t.Helper()
	client := replica.Client(s.t)
	require.NoError(s.t, client.Do(s.ctx, client.B().ConfigSet().ParameterValue().ParameterValue("replica-priority", "1").Build()).Error())
	for _, sentinel := range s.Options().InitAddress {
		option := s.Options()
		option.InitAddress, option.Sentinel, option.ForceSingleClient = []string{sentinel}, rueidis.SentinelOption{}, true
		observer, err := rueidis.NewClient(option)
		require.NoError(s.t, err)
		defer observer.Close()
		require.Eventually(s.t, func() bool {
			known, err := observer.Do(s.ctx, observer.B().SentinelReplicas().Master("rlock").Build()).ToArray()
			return err == nil && slices.ContainsFunc(known, func(m rueidis.RedisMessage) bool {
				fields, _ := m.AsStrMap()
				return fields["slave-priority"] == "1" && net.JoinHostPort(fields["ip"], fields["port"]) == replica.Addr()
			})
		}, hang, 10*time.Millisecond)
	}
}

// A grabber takes one lock after the other, a thousand a second, and releases none.
type grabber struct {
	s       *site
	workers sync.WaitGroup
	cancel  context.CancelFunc
	failed  atomic.Int64 // attempts that had too few replicas
	mu      sync.Mutex   // protects following
	granted []string
}

func (s *site) grab(replicas int) *grabber {
	s.t.Helper()
	client, err := rlock.New(rlock.Config{Redis: s.Options(), SyncReplicas: replicas, Logger: quiet})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() }) // lost locks cannot be released
	ctx, cancel := context.WithCancel(s.ctx)
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
	g.s.t.Helper()
	require.Eventually(g.s.t, func() bool { return g.count() >= n }, hang, time.Millisecond)
}

func (g *grabber) stop() (granted []string, failed int64) {
	g.cancel()
	g.workers.Wait()
	return g.granted, g.failed.Load()
}

// missing returns how many of the keys are absent.
func (s *site) missing(keys []string) (missing int) {
	s.t.Helper()
	for len(keys) > 0 {
		n := min(len(keys), 1000)
		some := s.outside.B().Exists().Key(keys[:n]...).Build()
		there, err := s.outside.Do(s.ctx, some).AsInt64()
		require.NoError(s.t, err)
		missing += n - int(there)
		keys = keys[n:]
	}
	return missing
}

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

// Behind Sentinel the old primary takes writes that are lost later, and a lock with them; no
// other error occurs.
func TestTheLockGoesOnAfterAPlannedFailoverBySentinel(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	here, there := s.client(withLease(2*time.Second)), s.client(withLease(2*time.Second))
	err := s.change(here, there, s.replace)
	assert.True(t, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), err)
	s.settle(here, there)
	s.wakes(here, there, s.family())
	assert.Eventually(t, func() bool {
		left, err := s.do("EXISTS", key).AsInt64()
		return err == nil && left == 0
	}, hang, 10*time.Millisecond, "a key whose release was lost ends with its lease")
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

func TestTheLockGoesOnWhenThePrimaryOfAClusterDies(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Cluster(t))
	here, there := s.client(), s.client()
	err := s.change(here, there, func() { s.Primary(key).Stop() })
	assert.True(t, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), err)
	s.settle(here, there)
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

// The kernel cuts the network between Redis and some of its clients, in both directions and
// silently: a holder on the far side has lost the lock before it is granted on the near side,
// and a far waiter goes on when the network is back.
func TestTwoNetworksThatAreCutApart(t *testing.T) {
	t.Parallel()
	server, link := redistest.Apart(t)
	s := at(t, server)
	far := func(c *rlock.Config) {
		c.Lease = 3 * time.Second
		c.Redis.DialCtxFn = link.Dial
		c.Redis.ConnWriteTimeout, c.Redis.Dialer.Timeout = 0, 0 // the client notices the silence
	}
	holder, waiter, near := s.lock(far), s.lock(far), s.lock()
	here, there := rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner())

	hold, err := holder.Acquire(s.ctx)
	require.NoError(t, err)
	granted := background(func() error {
		err := near.Lock(here)
		assert.False(t, hold.Valid(), "two holders at once")
		return err
	})
	s.awaitWaiters(1, key)
	waits := background(func() error { return waiter.Lock(there) })
	s.awaitWaiters(2, key)

	cut := time.Now()
	link.Cut()
	<-hold.Context().Done()
	lost := time.Since(cut)
	require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	require.NoError(t, s.await(granted))
	t.Logf("after the cut the far holder lost the lock in %v, and the near client had it in %v", lost, time.Since(cut))
	require.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)

	require.NoError(t, near.Unlock(here)) // the message of the release does not arrive
	assert.Empty(t, waits)
	healed := time.Now()
	link.Heal()
	require.NoError(t, s.await(waits))
	t.Logf("after the cut was healed the far waiter had the lock in %v", time.Since(healed))
	require.NoError(t, waiter.Unlock(there))
}

func withReplicas(n int) func(*rlock.Config) {
	return func(c *rlock.Config) { c.SyncReplicas = n }
}

// calm sets the nodes' timeout to a minute: these tests kill no node, and a machine that is
// busy for a second must not cause a failover.
func calm(s *redistest.Server) *redistest.Server {
	if s.Kind != redistest.KindStandalone {
		s.TakeForDead(time.Minute)
	}
	return s
}

// replicasOf is the number of replicas of each primary.
var replicasOf = map[redistest.Kind]int{redistest.KindSentinel: 2, redistest.KindCluster: 1}

// replicated runs a test on servers of its own whose primaries have replicas.
func replicated(t *testing.T, run func(t *testing.T, s *site)) {
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindSentinel: redistest.Sentinel,
		redistest.KindCluster:  redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			run(t, at(t, calm(start(t))))
		})
	}
}

// pauseReplicas pauses all replicas of all primaries, once the key's primary knows that they
// have all its writes: from then on a WAIT for older writes succeeds. It returns a function
// that resumes them.
func (s *site) pauseReplicas() (resume func()) {
	s.t.Helper()
	primary, replicas := s.Primary(key), s.replicas()
	require.Eventually(s.t, func() bool {
		role := s.role(primary)
		return strings.Count(fmt.Sprint(role), "state=online,offset="+role["master_repl_offset"]+",") == replicasOf[s.Kind]
	}, hang, time.Millisecond)
	for _, r := range replicas {
		r.Pause()
	}
	return func() {
		for _, r := range replicas {
			r.Resume()
		}
	}
}

// replicas returns the nodes that follow a primary, in a Cluster any primary.
func (s *site) replicas() (replicas []*redistest.Server) {
	s.t.Helper()
	for _, node := range s.Nodes() {
		if s.role(node)["role"] == "slave" {
			replicas = append(replicas, node)
		}
	}
	return replicas
}

// replicaOf returns a node that follows the primary.
func (s *site) replicaOf(primary *redistest.Server) *redistest.Server {
	s.t.Helper()
	for _, node := range s.replicas() {
		if net.JoinHostPort(s.role(node)["master_host"], s.role(node)["master_port"]) == primary.Addr() {
			return node
		}
	}
	require.FailNow(s.t, "the primary has no replica")
	return nil
}

// role returns the node's replication state from INFO. It asks until it gets an answer: a
// sentinel closes all connections to a node whose role it changes, new ones as well.
func (s *site) role(node *redistest.Server) map[string]string {
	s.t.Helper()
	for {
		client, err := rueidis.NewClient(node.Options())
		var info string
		if err == nil {
			info, err = client.Do(s.ctx, client.B().Info().Section("replication").Build()).ToString()
		}
		if client != nil {
			client.Close()
		}
		if err == nil {
			return fieldsOf(info)
		}
		require.NoError(s.t, s.ctx.Err(), err.Error())
		time.Sleep(time.Millisecond)
	}
}

// info returns the fields of a section of INFO.
func (s *site) info(client rueidis.Client, section string) map[string]string {
	s.t.Helper()
	info, err := client.Do(s.ctx, client.B().Info().Section(section).Build()).ToString()
	require.NoError(s.t, err)
	return fieldsOf(info)
}

func fieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

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
