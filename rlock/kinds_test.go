package rlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
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
		if testing.Short() && k.besideAnother() {
			continue // the whole suite runs it
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

// A virtualKind is a world in which one kind of lock is tested, in virtual time.
type virtualKind struct {
	*world
	kind   kind
	worlds []*world // one for each server; the world is the first
}

// eachVirtualKind runs a test in virtual time over all kinds.
func eachVirtualKind(t *testing.T, run func(t *testing.T, w *virtualKind)) {
	t.Helper()
	inVirtualKinds(t, kinds, run)
}

// eachExclusiveVirtualKind is eachVirtualKind for the kinds that are their own rivals, for
// tests where the lock is passed on inside a process.
func eachExclusiveVirtualKind(t *testing.T, run func(t *testing.T, w *virtualKind)) {
	t.Helper()
	inVirtualKinds(t, ownRivals(), run)
}

func inVirtualKinds(t *testing.T, kinds []kind, run func(t *testing.T, w *virtualKind)) {
	t.Helper()
	for _, k := range kinds {
		if fewer() && k.besideAnother() {
			continue // the tests without the race detector run it
		}
		t.Run(k.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				r := &virtualKind{world: w, kind: k, worlds: []*world{w}}
				for len(r.worlds) < k.servers {
					r.worlds = append(r.worlds, newWorld(t, w.ctx))
				}
				run(t, r)
			})
		})
	}
}

// settle returns when every server has answered: a compound lock may wait only for most of
// them, and a second ticket of an owner leaves the queue in the background.
func (w *virtualKind) settle() { synctest.Wait() }

// drain is settle for releases too that the keeper sends, one batch in a millisecond.
func (w *virtualKind) drain() {
	time.Sleep(2 * time.Millisecond)
	synctest.Wait()
}

// times returns how often a test repeats something that it does n times with a plain lock:
// less often with the other kinds, since there are many.
func (w *virtualKind) times(n int) int {
	if w.kind.name == "plain" {
		return n
	}
	return n / 5
}

// A peer is a process with a network of its own to each server.
type peer struct {
	process
	testClients []*testClient
}

// process returns a new one. The changes are made to the config of its clients.
func (w *virtualKind) process(changes ...func(*rlock.Config)) *peer {
	w.t.Helper()
	p := &peer{process: process{kind: w.kind}}
	for _, world := range w.worlds {
		client := world.client(changes...)
		p.testClients = append(p.testClients, client)
		p.clients = append(p.clients, client.Client)
	}
	return p
}

// networks calls do for each network of the process.
func (p *peer) networks(do func(*network.Network)) {
	for _, client := range p.testClients {
		do(client.net)
	}
}

func (p *peer) refuse()  { p.networks((*network.Network).Refuse) }
func (p *peer) silence() { p.networks(func(n *network.Network) { n.Rule(network.Silence) }) }
func (p *peer) heal()    { p.networks((*network.Network).Heal) }

// Close closes the clients.
func (p *peer) Close() (err error) {
	for _, client := range p.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

// scripts returns how many scripts have reached the servers.
func (p *peer) scripts() (n int) {
	p.networks(func(net *network.Network) { n += len(net.Sent("EVALSHA")) + len(net.Sent("EVAL")) })
	return n
}

// logged returns how many lines of all logs contain the text.
func (p *peer) logged(text string) (n int) {
	for _, client := range p.testClients {
		n += client.logged(text)
	}
	return n
}

// everyScript is a rule for the requests, or the replies, of all scripts.
func everyScript(fate network.Fate, stage network.Stage) network.Rule {
	return network.All(fate, stage, "EVALSHA", "EVAL")
}

// ttl returns the remaining time of the lock in Redis: the shortest of its keys, 0 if one of
// them is absent.
func (w *virtualKind) ttl() time.Duration {
	left := time.Duration(1<<63 - 1)
	for _, world := range w.worlds {
		for _, k := range w.kind.keysOf(key) {
			left = min(left, world.ttl(k))
		}
	}
	return left
}

// keys returns those of all servers, but for counters.
func (w *virtualKind) keys() (names []string) {
	for _, world := range w.worlds {
		names = append(names, slices.DeleteFunc(world.Keys(), isCounter)...)
	}
	return names
}

// forget deletes the lock of that name on every server.
func (w *virtualKind) forget(name string) {
	for _, world := range w.worlds {
		for _, k := range w.kind.keysOf(name) {
			world.Del(k)
		}
	}
}

// A named is a lock's name and the channel that Redisson gives it: Redisson adds braces
// unless the name has an opening one.
var named = []struct{ what, name, channel string }{
	{"a letter", "a", "redisson_lock__channel:{a}"},
	{"a tag", "{orders}:42", "redisson_lock__channel:{orders}:42"},
	{"a tag in the middle", "a{b}c", "redisson_lock__channel:a{b}c"},
	{"spaces, colons, quotes", ` a: "b" 'c'%d * `, `redisson_lock__channel:{ a: "b" 'c'%d * }`},
	{"line ends", "a\r\nb\n", "redisson_lock__channel:{a\r\nb\n}"},
	{"not ASCII", "Größe/注文🔒", "redisson_lock__channel:{Größe/注文🔒}"},
	{"NUL", "a\x00b", "redisson_lock__channel:{a\x00b}"},
	{"not UTF-8", "a\xff\xfe\xc3", "redisson_lock__channel:{a\xff\xfe\xc3}"},
	{"64 KiB", strings.Repeat("x", 64<<10), "redisson_lock__channel:{" + strings.Repeat("x", 64<<10) + "}"},
}

// untagged are names with a brace whose hash tag differs between key and channel: in a
// Cluster the two have different slots.
var untagged = []struct{ what, name, channel string }{
	{"an opening brace", "a{b", "redisson_lock__channel:a{b"},
	{"a closing brace", "a}b", "redisson_lock__channel:{a}b}"},
	{"an empty tag", "a{}b", "redisson_lock__channel:a{}b"},
	{"braces the wrong way round", "}a{", "redisson_lock__channel:}a{"},
}

// works asserts that the lock excludes others under exactly these bytes, and that its channel
// has that name.
func (s *site) works(t *testing.T, name, channel string) {
	here, there := s.client().NewLock(name), s.client().NewLock(name)
	assert.Equal(t, name, here.Name())
	heard := s.listen(s.family(), channel)
	require.NoError(t, here.Lock(s.ctx))
	assert.EqualValues(t, 1, s.number("HLEN", name))
	assert.False(t, s.isFree(there))
	ctx, queued := queueing(s.ctx)
	waiter := background(func() error {
		if err := there.Lock(ctx); err != nil {
			return err
		}
		return there.Unlock(ctx)
	})
	<-queued
	require.NoError(t, here.Unlock(s.ctx))
	require.NoError(t, s.await(waiter))
	messages := heard.heard() // one when the lock is free at last, and more if the listener is taken for a client of Redisson
	assert.NotEmpty(t, messages)
	assert.Empty(t, slices.DeleteFunc(messages, func(m string) bool { return m == "00" }))
	assert.Zero(t, s.number("EXISTS", name))
}

func TestANameMayHaveAnyBytes(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		for _, n := range named {
			t.Run(n.what, func(t *testing.T) { s.works(t, n.name, n.channel) })
		}
	})
}

// All keys and channels of a lock are in the slot of its name, whatever the name.
func TestALockOfEachKindMayHaveAnyName(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.process(), s.process()
		for _, n := range named {
			t.Run(n.what, func(t *testing.T) {
				require.NoError(t, here.lock(n.name).Lock(s.ctx))
				assert.False(t, s.isFree(there.lock(n.name)))
				require.NoError(t, here.lock(n.name).Unlock(s.ctx))
				assert.True(t, s.isFree(there.lock(n.name)))
			})
		}
	})
}

func TestALockOfEachKindRefusesANameWithABraceButNoTagInACluster(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.Kind != redistest.KindCluster {
			return
		}
		for _, n := range untagged {
			assert.ErrorIs(t, s.process().lock(n.name).Lock(s.ctx), rlock.ErrInvalidName, n.what)
		}
	})
}

func TestANameWithABraceButNoTagIsRefusedInAClusterOnly(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		for _, n := range untagged {
			t.Run(n.what, func(t *testing.T) {
				if s.Kind == redistest.KindCluster {
					lock := s.client().NewLock(n.name)
					assert.ErrorIs(t, lock.Lock(s.ctx), rlock.ErrInvalidName)
					assert.Equal(t, n.name, lock.Name())
					return
				}
				s.works(t, n.name, n.channel)
			})
		}
	})
}

func TestANameIsNeitherEmptyNorLongerThan64KiB(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client()
		for _, name := range []string{"", strings.Repeat("x", 64<<10+1)} {
			assert.ErrorIs(t, client.NewLock(name).Lock(s.ctx), rlock.ErrInvalidName)
		}
	})
}
