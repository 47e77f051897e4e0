package rlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
)

// A locker has the methods of a lock that the tests use.
type locker interface {
	Name() string
	Lock(ctx context.Context) error
	LockFor(ctx context.Context, lease time.Duration) error
	TryLock(ctx context.Context) (bool, error)
	TryLockFor(ctx context.Context, wait, lease time.Duration) (bool, error)
	Unlock(ctx context.Context) error
	Acquire(ctx context.Context, options ...rlock.AcquireOption) (*rlock.Hold, error)
	Do(ctx context.Context, fn func(ctx context.Context) error, options ...rlock.AcquireOption) error
	IsHeld(ctx context.Context) bool
	HoldCount(ctx context.Context) int
	Token(ctx context.Context) (uint64, error)
	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// A kind is one kind of lock under test. To test another one, add a row to kinds: every test
// that begins with eachKind runs over it on servers, and every test that begins with
// eachVirtualKind in virtual time.
type kind struct {
	name string
	// lock returns the lock of that name, in a process that has a client of each server.
	lock func(clients []*rlock.Client, name string) locker
	// rival returns a lock that excludes the lock under test: by default the lock itself, or
	// one of another kind. It must be another one where owners share the lock.
	rival func(clients []*rlock.Client, name string) locker
	// lingers is Config.Linger of all clients.
	lingers time.Duration
	// strict locks are granted in the order of all waiters, and never handed off.
	strict bool
	// many says that several owners may hold the lock at once: a process asks Redis for each
	// of them.
	many bool
	// servers is the number of independent servers; 0 is one.
	servers int
	// where tells on which servers the tests run. The plain lock runs on all, the other kinds
	// where they differ from it.
	where []redistest.Kind
	// keys returns the keys of the lock in Redis; by default its name.
	keys func(name string) []string
	// channel is the channel that waiters for the tests' lock subscribe to, if there is one.
	channel string
}

var (
	everyServer = []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}
	oneOrMany   = []redistest.Kind{redistest.KindEmbedded, redistest.KindCluster}
	simulated   = []redistest.Kind{redistest.KindEmbedded}
)

var kinds = []kind{
	{name: "plain", where: everyServer, lock: plainLock, channel: channel},
	{name: "plain that lingers", where: simulated, lock: plainLock, channel: channel, lingers: 10 * time.Minute},
	{name: "fenced", where: oneOrMany, lock: fencedLock, channel: channel},
	{name: "fenced beside plain", where: simulated, lock: fencedLock, rival: plainLock},
	{name: "write", where: oneOrMany, lock: writeLock, channel: "redisson_rwlock:{orders:42}"},
	{name: "write beside read", where: simulated, lock: writeLock, rival: readLock},
	{name: "read", where: oneOrMany, lock: readLock, rival: writeLock, channel: "redisson_rwlock:{orders:42}"},
	{name: "fair", where: everyServer, lock: fairLock, channel: channel, strict: true},
	{name: "fair beside plain", where: simulated, lock: fairLock, rival: plainLock, strict: true},
	{name: "plain beside fair", where: simulated, lock: plainLock, rival: fairLock},
	{name: "semaphore of one", where: oneOrMany, lock: semaphoreOfOne, strict: true, many: true},
	{name: "multi", where: simulated, lock: multiLock, servers: 2},
	{name: "multi of two names", where: oneOrMany, lock: multiLockOfTwo, keys: func(name string) []string { return []string{name, beside(name)} }},
	{name: "multi beside a part", where: simulated, lock: multiLock, servers: 2, rival: plainLock},
	{name: "red", where: simulated, lock: redLock, servers: 3},
}

func plainLock(clients []*rlock.Client, name string) locker { return clients[0].NewLock(name) }

func fencedLock(clients []*rlock.Client, name string) locker {
	return clients[0].NewFencedLock(name)
}

func writeLock(clients []*rlock.Client, name string) locker {
	return clients[0].NewReadWriteLock(name).Write()
}

func readLock(clients []*rlock.Client, name string) locker {
	return clients[0].NewReadWriteLock(name).Read()
}

func multiLock(clients []*rlock.Client, name string) locker {
	return rlock.NewMultiLock(clients[1].NewLock(name), clients[0].NewLock(name))
}

func multiLockOfTwo(clients []*rlock.Client, name string) locker {
	return rlock.NewMultiLock(clients[0].NewLock(name), clients[0].NewFencedLock(beside(name)))
}

// beside returns the name of the other part, which is no longer than a name may be.
func beside(name string) string { return "beside " + name[:min(len(name), 20)] }

func redLock(clients []*rlock.Client, name string) locker {
	return majority{rlock.NewRedLock(clients, name)}
}

// A majority is a lock over several servers.
type majority struct{ locker }

func (k kind) keysOf(name string) []string {
	if k.keys == nil {
		return []string{name}
	}
	return k.keys(name)
}

func fairLock(clients []*rlock.Client, name string) locker { return clients[0].NewFairLock(name) }

func semaphoreOfOne(clients []*rlock.Client, name string) locker {
	return clients[0].NewSemaphore(name, 1)
}

// A trial is a lock of the kind under test, in one process.
type trial struct {
	locker
	kind  kind
	rival locker // see kind
}

func (k kind) trial(clients []*rlock.Client, name string) *trial {
	l := &trial{locker: k.lock(clients, name), kind: k}
	l.rival = l.locker
	if k.rival != nil {
		l.rival = k.rival(clients, name)
	}
	return l
}

// A subject is a site where one kind of lock is tested.
type subject struct {
	*site
	kind  kind
	sites []*site // one for each server; the site is the first
}

// eachKind runs a test over all kinds and their servers.
func eachKind(t *testing.T, run func(t *testing.T, s *subject)) {
	over(t, kinds, run)
}

// eachExclusiveKind is eachKind for the kinds that are their own rivals, for tests in which
// each owner excludes the others.
func eachExclusiveKind(t *testing.T, run func(t *testing.T, s *subject)) {
	over(t, ownRivals(), run)
}

func ownRivals() []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.rival != nil })
}

// besideAnother reports whether the row tests a lock against one of another kind.
func (k kind) besideAnother() bool { return k.rival != nil && k.name != "read" }

func over(t *testing.T, kinds []kind, run func(t *testing.T, s *subject)) {
	for _, k := range kinds {
		if (testing.Short() || fewer()) && k.besideAnother() {
			continue // the tests without the race detector run it
		}
		t.Run(k.name, func(t *testing.T) {
			if !redistest.Installed() && !redistest.UnderRace {
				t.Parallel() // each kind has an embedded server of its own
			}
			redistest.Over(t, k.where, func(t *testing.T, server *redistest.Server) {
				s := &subject{site: at(t, server), kind: k}
				s.lingers = k.lingers
				s.sites = append(s.sites, s.site)
				for len(s.sites) < k.servers {
					s.sites = append(s.sites, at(t, another(t, server)))
				}
				s.leavesNothing()
				run(t, s)
			})
		})
	}
}

// another returns a server like s, independent of it.
func another(t *testing.T, s *redistest.Server) *redistest.Server {
	if s.Kind == redistest.KindEmbedded {
		return redistest.Embedded(t)
	}
	return redistest.Standalone(t)
}

// A process has the clients of one process: one for each server.
type process struct {
	kind    kind
	clients []*rlock.Client
}

// process returns a new one, whose clients are closed when the test ends.
func (s *subject) process(changes ...func(*rlock.Config)) *process {
	s.t.Helper()
	return s.with(func(site *site) *rlock.Client { return site.client(changes...) })
}

// with returns a process that has such a client at each site.
func (s *subject) with(client func(*site) *rlock.Client) *process {
	p := &process{kind: s.kind}
	for _, site := range s.sites {
		p.clients = append(p.clients, client(site))
	}
	return p
}

func (p *process) lock(name string) *trial { return p.kind.trial(p.clients, name) }

// lock returns the lock of a new process.
func (s *subject) lock(changes ...func(*rlock.Config)) *trial {
	s.t.Helper()
	return s.process(changes...).lock(key)
}

// isFree reports whether another owner, in the lock's own process, gets the rival of the
// lock.
func (s *subject) isFree(lock *trial) (free bool) {
	s.t.Helper()
	if len(s.sites) == 1 {
		return s.site.isFree(lock.rival)
	}
	elsewhere(func() {
		for s.ctx.Err() == nil {
			var err error
			free, err = try(s.ctx, lock.rival, 50*time.Millisecond, 0)
			if !assert.NoError(s.t, err) {
				return
			}
			if free {
				assert.NoError(s.t, lock.rival.Unlock(s.ctx))
				return
			}
			locked, err := lock.rival.IsLocked(s.ctx)
			if !assert.NoError(s.t, err) || locked {
				return
			}
			// An answer without a waiter may still be on its way.
		}
	})
	return free
}

// try is TryLockFor, repeated while servers are too slow: a process that is suspended for a
// moment takes most servers of a compound lock for silent, and has too few replicas in time.
func try(ctx context.Context, lock locker, wait, lease time.Duration) (taken bool, err error) {
	_, several := lock.(majority)
	if tried, ok := lock.(*trial); ok {
		_, several = tried.locker.(majority)
	}
	for {
		taken, err = lock.TryLockFor(ctx, wait, lease)
		slow := several || errors.Is(err, rlock.ErrNotReplicated)
		if err == nil || !slow || ctx.Err() != nil {
			return taken, err
		}
	}
}

// count returns how many of these commands the servers execute during run.
func (s *subject) count(run func(), commands ...string) (n int64) {
	s.t.Helper()
	for _, site := range s.sites {
		inner := run
		run = func() {
			calls := site.CountCalls(s.t, inner)
			for _, command := range commands {
				n += calls[command]
			}
		}
	}
	run()
	return n
}

// leavesNothing asserts, once the clients are closed, that no server has a key left. Token
// counters outlive their locks, so that no token is given twice.
func (s *subject) leavesNothing() {
	for _, site := range s.sites {
		nodes := site.nodes() // their clients are closed after this cleanup
		s.t.Cleanup(func() {
			assert.EventuallyWithT(s.t, func(t *assert.CollectT) {
				for _, node := range nodes {
					keys, err := node.Do(s.ctx, node.B().Keys().Pattern("*").Build()).AsStrSlice()
					assert.NoError(t, err)
					assert.Empty(t, slices.DeleteFunc(keys, isCounter), "keys are left behind")
				}
			}, 10*time.Second, time.Millisecond)
		})
	}
}

func isCounter(key string) bool { return strings.HasPrefix(key, "redisson_lock_token:") }
