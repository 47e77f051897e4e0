package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Locker has the methods of a lock that the tests use.
type Locker interface {
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
	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// A Kind is one kind of lock under test. To test another one, add a row to kinds: every test that
// begins with EachKind runs over it on servers, and every test that begins with EachVirtualKind in
// virtual time.
type Kind struct {
	Name string
	// lock returns the lock of that name, in a process that has a client of each server.
	Lock func(clients []*rlock.Client, name string) Locker
	// rival returns a lock that excludes the lock under test: by default the lock itself, or a lock
	// of another kind. It must be another lock where owners share the lock.
	rival func(clients []*rlock.Client, name string) Locker
	// servers is the number of independent servers; 0 is one.
	Servers int
	// where names the servers on which the tests run. The plain lock runs on all, the other kinds
	// where they differ from it.
	where []redistest.Kind
	// keys returns the keys of the lock in Redis; by default its name.
	Keys func(name string) []string
}

var (
	EveryServer = []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}
	OneOrMany   = []redistest.Kind{redistest.KindEmbedded, redistest.KindCluster}
	simulated   = []redistest.Kind{redistest.KindEmbedded}
)

var Kinds = []Kind{
	{Name: "plain", where: EveryServer, Lock: of("plain")},
	{Name: "fenced", where: OneOrMany, Lock: of("fenced")},
	{Name: "fenced beside plain", where: simulated, Lock: of("fenced"), rival: of("plain")},
	{Name: "write", where: OneOrMany, Lock: of("write")},
	{Name: "write beside read", where: simulated, Lock: of("write"), rival: of("read")},
	{Name: "read", where: OneOrMany, Lock: of("read"), rival: of("write")},
	{Name: "fair", where: EveryServer, Lock: of("fair")},
	{Name: "fair beside plain", where: simulated, Lock: of("fair"), rival: of("plain")},
	{Name: "plain beside fair", where: simulated, Lock: of("plain"), rival: of("fair")},
	{Name: "semaphore of one", where: OneOrMany, Lock: of("semaphore")},
	{Name: "multi", where: simulated, Lock: multiLock, Servers: 2},
	{Name: "multi of two names", where: OneOrMany, Lock: multiLockOfTwo, Keys: func(name string) []string { return []string{name, beside(name)} }},
	{Name: "multi beside a part", where: simulated, Lock: multiLock, Servers: 2, rival: of("plain")},
	{Name: "red", where: simulated, Lock: RedLock, Servers: 3},
}

// Locks are the constructors of the locks of one key. The semaphore has one permit.
var Locks = map[string]func(c *rlock.Client, name string) *rlock.Lock{
	"plain":     (*rlock.Client).NewLock,
	"fenced":    (*rlock.Client).NewFencedLock,
	"fair":      (*rlock.Client).NewFairLock,
	"write":     func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Write() },
	"read":      func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Read() },
	"semaphore": func(c *rlock.Client, name string) *rlock.Lock { return c.NewSemaphore(name, 1) },
}

func of(kind string) func(clients []*rlock.Client, name string) Locker {
	return func(clients []*rlock.Client, name string) Locker { return Locks[kind](clients[0], name) }
}

func multiLock(clients []*rlock.Client, name string) Locker {
	return rlock.NewMultiLock(clients[1].NewLock(name), clients[0].NewLock(name))
}

func multiLockOfTwo(clients []*rlock.Client, name string) Locker {
	return rlock.NewMultiLock(clients[0].NewLock(name), clients[0].NewFencedLock(beside(name)))
}

// beside returns the name of the other part, which is no longer than a name may be.
func beside(name string) string { return "beside " + name[:min(len(name), 20)] }

func RedLock(clients []*rlock.Client, name string) Locker {
	return majority{rlock.NewRedLock(clients, name)}
}

// A majority is a lock over several servers.
type majority struct{ Locker }

func (k Kind) KeysOf(name string) []string {
	if k.Keys == nil {
		return []string{name}
	}
	return k.Keys(name)
}

// A Trial is a lock of the kind under test, in one process.
type Trial struct {
	Locker
	Rival Locker // see Kind
}

// A Subject is a site where one kind of lock is tested.
type Subject struct {
	*Site
	KindOfLock Kind
	Sites      []*Site // one for each server; the site is the first
}

// EachKind runs a test over all kinds and their servers.
func EachKind(t *testing.T, run func(t *testing.T, s *Subject)) {
	for _, k := range Kinds {
		if (testing.Short() || Fewer()) && k.besideAnother() {
			continue // the tests without the race detector run it
		}
		t.Run(k.Name, func(t *testing.T) {
			if !redistest.Installed() && !redistest.UnderRace {
				t.Parallel() // each kind has an embedded server of its own
			}
			redistest.Over(t, k.where, func(t *testing.T, server *redistest.Server) {
				s := &Subject{Site: At(t, server), KindOfLock: k}
				s.Sites = append(s.Sites, s.Site)
				for len(s.Sites) < k.Servers {
					another := redistest.Embedded
					if server.Kind != redistest.KindEmbedded {
						another = func(t testing.TB) *redistest.Server { return redistest.Standalone(t) }
					}
					s.Sites = append(s.Sites, At(t, another(t)))
				}
				s.LeavesNothing()
				run(t, s)
			})
		})
	}
}

// besideAnother reports whether the row tests a lock against a lock of another kind.
func (k Kind) besideAnother() bool { return k.rival != nil && k.Name != "read" }

// A Process has the clients of one process: one for each server.
type Process struct {
	kind    Kind
	Clients []*rlock.Client
}

// NewProcess returns a new Process, whose clients are closed when the test ends.
func (s *Subject) NewProcess(changes ...func(*rlock.Config)) *Process {
	s.T.Helper()
	p := &Process{kind: s.KindOfLock}
	for _, site := range s.Sites {
		p.Clients = append(p.Clients, site.NewClient(changes...))
	}
	return p
}

func (p *Process) NewLock(name string) *Trial {
	l := &Trial{Locker: p.kind.Lock(p.Clients, name)}
	l.Rival = l.Locker
	if p.kind.rival != nil {
		l.Rival = p.kind.rival(p.Clients, name)
	}
	return l
}

// NewLock returns the lock of a new process.
func (s *Subject) NewLock(changes ...func(*rlock.Config)) *Trial {
	s.T.Helper()
	return s.NewProcess(changes...).NewLock(Key)
}

// IsFree reports whether another owner, in the lock's own process, gets the rival of the
// lock.
func (s *Subject) IsFree(lock *Trial) bool {
	s.T.Helper()
	if len(s.Sites) == 1 {
		return s.Site.IsFree(lock.Rival)
	}
	owner := rlock.NewOwner()
	me := rlock.WithOwner(s.Ctx, owner)
	for {
		free, err := Try(me, lock.Rival, 50*time.Millisecond, 0)
		require.NoError(s.T, err)
		if free {
			require.NoError(s.T, lock.Rival.Unlock(me))
		}
		if free || s.isHeldByOthers(lock.Rival, owner) {
			return free
		}
	}
}

// isHeldByOthers reports whether other owners have the lock over several servers. An attempt of the
// owner itself that was given up may have parts of it for a moment.
func (s *Subject) isHeldByOthers(lock Locker, owner rlock.Owner) bool {
	held, need := 0, 1
	if _, red := lock.(majority); red {
		need = len(s.Sites)/2 + 1
	}
	for _, site := range s.Sites {
		owners, err := site.Do("HKEYS", Key).AsStrSlice()
		require.NoError(s.T, err)
		if len(owners) > 0 && !strings.HasSuffix(owners[0], fmt.Sprint(":", owner)) {
			held++
		}
	}
	return held >= need
}

// Try is TryLockFor, repeated while servers are too slow.
func Try(ctx context.Context, lock Locker, wait, lease time.Duration) (taken bool, err error) {
	return Repeat(ctx, lock, func(ctx context.Context) (bool, error) { return lock.TryLockFor(ctx, wait, lease) })
}

// Repeat makes attempts while servers are too slow: a process that is suspended for a moment takes
// most servers of a compound lock for silent, has too few replicas in time, and waits in vain for
// the answer to a ticket that was given up. A part of a lock over several may be lost meanwhile.
func Repeat[T any](ctx context.Context, lock Locker, attempt func(context.Context) (T, error)) (taken T, err error) {
	_, several := lock.(majority)
	if tried, ok := lock.(*Trial); ok {
		_, several = tried.Locker.(majority)
	}
	for {
		taken, err = attempt(ctx)
		slow := several || errors.Is(err, rlock.ErrNotReplicated) || errors.Is(err, rlock.ErrLost) || errors.Is(err, contract.ErrUnanswered)
		if err == nil || errors.Is(err, rlock.ErrNotAcquired) || !slow || ctx.Err() != nil {
			return taken, err
		}
	}
}

// LeavesNothing asserts, once the clients are closed, that no server has a key left. Token
// counters outlive their locks, so that no token is given twice.
func (s *Subject) LeavesNothing() {
	for _, site := range s.Sites {
		nodes := site.EachNode() // their clients are closed after this cleanup
		s.T.Cleanup(func() {
			assert.EventuallyWithT(s.T, func(t *assert.CollectT) {
				for _, node := range nodes {
					keys, err := node.Do(s.Ctx, node.B().Keys().Pattern("*").Build()).AsStrSlice()
					assert.NoError(t, err)
					assert.Empty(t, slices.DeleteFunc(keys, IsCounter), "keys are left behind")
				}
			}, 10*time.Second, time.Millisecond)
		})
	}
}

func IsCounter(key string) bool { return strings.HasPrefix(key, "redisson_lock_token:") }

// TokenKey is the key of the fencing tokens of the lock named key.
const TokenKey = "redisson_lock_token:{orders:42}"

// NewFencedLock returns the fenced lock of that name, of a client of its own.
func (s *Site) NewFencedLock(changes ...func(*rlock.Config)) *rlock.Lock {
	s.T.Helper()
	return s.NewClient(changes...).NewFencedLock(Key)
}

// LocksOf returns the constructors of the locks named Key of these kinds; without an argument, of
// all kinds of one key.
func LocksOf(kinds ...string) map[string]func(*rlock.Client) *rlock.Lock {
	some := make(map[string]func(*rlock.Client) *rlock.Lock)
	for kind, lock := range Locks {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			some[kind] = func(c *rlock.Client) *rlock.Lock { return lock(c, Key) }
		}
	}
	return some
}

// RivalOf returns the constructor of the lock that excludes the holder of a lock of that kind.
func RivalOf(kind string) func(*rlock.Client) *rlock.Lock {
	if kind == "read" {
		kind = "write"
	}
	return LocksOf()[kind]
}

// Modes has the endings of the keys of a kind's queue and of its channels.
var Modes = map[string]string{"write": "rw", "read": "rw", "semaphore": "sem"}

const RWChannel = "redisson_rwlock:{orders:42}"
