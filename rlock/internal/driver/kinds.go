package driver

import (
	"context"
	"strconv"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The kinds. Locks of one name and different kinds have rooms of their own: what
// one of them is in Redis decides whether they exclude each other.
const (
	PlainKind KindID = iota
	FencedKind
	ReadWriteKind
	FairKind
	SemaphoreKind

	KindCount = iota // how many there are
)

// A KindID is the index of a kind among the kinds.
type KindID uint8

// A kind is what one sort of lock is in Redis, and what package core has to know of it.
type kind struct {
	public terms.Kind  // what users call it; the read lock is a kind of its own to them
	layout wire.Layout // of its names
	core   core.Kind   // the number of permits comes with the name

	step    *wire.Script
	acquire func(r *redis, c *exchange) wire.Call
	resume  func(r *redis, c *exchange) wire.Call
	mirror  func(r *redis, part []*exchange) wire.Call // of locks of one slot

	acquireAll *wire.Script // of several locks of one slot: see HoldAll

	guard func(c *exchange) guard // of a guarded write
	asks  questions

	foreign bool // clients of Redisson may hold the lock
	readers bool // it has a read lock beside the write lock
	permits bool // each owner has a lock of its own: see pool
}

// kinds are all kinds of locks.
var kinds = [KindCount]*kind{
	PlainKind:  hashKind(terms.KindPlain, "", core.Kind{}, acquirePlain),
	FencedKind: hashKind(terms.KindFenced, "redisson_lock_token:", core.Kind{Fenced: true}, acquireFenced),
	FairKind:   hashKind(terms.KindFair, "", core.Kind{Strict: true}, acquirePlain),
	ReadWriteKind: {
		public: terms.KindWrite, layout: wire.Layout{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
		step: wire.ReadWriteStep, acquire: acquireReadWrite, resume: resumeReadWrite, mirror: mirrorReadWrite, guard: guardReadWrite, acquireAll: wire.ReadWriteAcquireAll,
		asks: questions{readersOrWriters, readOrWritten, keyTTL}, foreign: true, readers: true,
	},
	SemaphoreKind: {
		public: terms.KindSemaphore, layout: wire.Layout{Channel: "rlock_grants:semaphore:", Suffix: "sem"},
		core: core.Kind{Strict: true},
		step: wire.SemaphoreStep, acquire: acquirePermit, resume: resumePermit, mirror: mirrorPermits, guard: guardPermits, acquireAll: wire.SemaphoreAcquireAll,
		asks: questions{permitHolders, allPermitsHeld, firstPermitEnds}, permits: true,
	},
}

// hashKind returns a kind of locks that are a hash of one owner. extra begins the name of its second key, "" if it
// has none.
func hashKind(public terms.Kind, extra string, k core.Kind, acquire func(r *redis, c *exchange) wire.Call) *kind {
	return &kind{
		public: public, layout: wire.Layout{Channel: plainChannel, Fair: true, Extra: extra, HasExtra: extra != ""},
		core: k,
		step: wire.PlainStep, acquire: acquire, resume: resumePlain, mirror: mirrorPlain, guard: guardPlain, acquireAll: wire.AcquireAll,
		asks: questions{fields, keyExists, keyTTL}, foreign: true,
	}
}

const plainChannel = "redisson_lock__channel:"

// KindOf returns the kind of the lock as users see it.
func (n *Name) KindOf(shared bool) terms.Kind {
	if shared {
		return terms.KindRead
	}
	return kinds[n.KindID].public
}

// A plain lock is a hash of one owner and its count, as Redisson's RLock. A fair lock is one as well, and a fenced lock
// has a counter beside it.

func acquirePlain(r *redis, c *exchange) wire.Call {
	return acquireScript(c).Call(2, c.name.Key, c.name.Queue(), r.milliseconds(c.cmd.Lease), c.text)
}

func acquireScript(c *exchange) *wire.Script {
	if c.cmd.Takes {
		return wire.AskAcquire
	}
	return wire.Acquire
}

func acquireFenced(r *redis, c *exchange) wire.Call {
	return acquireScript(c).Call(3, c.name.Key, c.name.Queue(), c.name.Extra(), r.milliseconds(c.cmd.Lease), c.text, number(&c.cmd))
}

func resumePlain(r *redis, c *exchange) wire.Call {
	return r.Resume(&c.name.Keys, wire.Resumption{Lease: r.milliseconds(c.cmd.Lease), From: c.passed, To: c.text, Polls: r.polls(c)})
}

func mirrorPlain(r *redis, part []*exchange) wire.Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.Family())
	var more []string // keys, of those that ask for others
	for _, c := range part {
		asks := r.asks(c)
		more = append(more, asks.Keys...)
		keys = append(keys, c.name.Key)
		args = append(args, r.mirrorLease(&c.cmd), c.text, strconv.Itoa(c.cmd.Writes), asks.How, asks.Channel)
	}
	return wire.Call{Script: wire.Mirror, Keys: append(keys, more...), Args: args}
}

func guardPlain(c *exchange) guard {
	return guard{wire.PlainGuard, []string{c.name.Key}, []string{c.text}}
}

// A read-write lock is a hash of the mode, the readers and the writer, and a key for each reader that lives as long as
// its lease, as Redisson's RReadWriteLock. Its two locks are one lock of package core, in two modes.

func acquireReadWrite(r *redis, c *exchange) wire.Call {
	n, mode := c.name, "write"
	if c.cmd.Mode == core.Shared {
		mode = "read"
	}
	return wire.ReadWriteAcquire.Call(4, n.Key, n.Queue(), n.Extra(), n.Extra()+":"+c.text+":rwlock_timeout:1", r.milliseconds(c.cmd.Lease), c.text, mode)
}

func resumeReadWrite(r *redis, c *exchange) wire.Call {
	s := wire.Resumption{Lease: r.milliseconds(c.cmd.Lease), From: c.passed, To: c.text, Polls: r.polls(c)}
	if c.cmd.Mode == core.Alone {
		s.From, s.To = s.From+":write", s.To+":write"
	} else {
		s.FromLease, s.ToLease = c.name.Extra()+":"+c.passed+":rwlock_timeout:1", c.name.Extra()+":"+c.text+":rwlock_timeout:1"
	}
	return r.Resume(&c.name.Keys, s)
}

func mirrorReadWrite(r *redis, part []*exchange) wire.Call {
	keys, args := make([]string, 0, 3*len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.Family())
	var more []string // keys, of those that ask for others
	for _, c := range part {
		asks := r.asks(c)
		more = append(more, asks.Keys...)
		keys = append(keys, c.name.Key, c.name.Extra(), c.name.Channel())
		args = append(args, r.mirrorLease(&c.cmd), c.text, strconv.Itoa(c.cmd.Writes), wire.Flag(c.cmd.Reads), asks.How)
	}
	return wire.Call{Script: wire.ReadWriteMirror, Keys: append(keys, more...), Args: args}
}

func guardReadWrite(c *exchange) guard {
	mode := "x"
	if c.cmd.Mode == core.Shared {
		mode = "s"
	}
	return guard{wire.ReadWriteGuard, []string{c.name.Extra(), c.name.Key}, []string{mode, c.text}}
}

// knownHere reports whether an owner of this client has the lock in the mode, and whether this client has to be believed:
// it holds the lock, and Redis has not confirmed yet that it shows in which modes. To nest, and to unlock the write lock
// and read on, waits for no command.
func (l *Lock) knownHere() (locked, known bool) {
	if !kinds[l.Name.KindID].readers || l.Name.Err != nil {
		return false, false
	}
	one, now := l.driver.enterIfAny(l.Name, 0)
	if one == nil {
		return false, false
	}
	one.Look(now)
	levels := one.Levels()
	for i := range levels {
		locked = locked || levels[i].Mode == l.mode()
	}
	known = one.IsHeld() && !one.IsShown(now)
	one.shard.exit(one)
	return locked, known
}

// tend sends the step that lets readers elsewhere in after a downgrade, if one is due: the keeper, which has just sent a mirror
// of the tenure, would pause before.
func (l *lock) tend(k *work, now core.Now) {
	if op, _ := l.Peek(k.tenure, now); op != core.Step {
		return
	}
	c := l.shard.client
	w := c.newCall(&core.Call{Until: core.Never})
	l.Tend(k.tenure, &w.Call)
	if !c.wire.Start(func() {
		l.run(context.Background(), w, l.again())
		l.shard.exit(l)
		c.done(w)
	}) {
		l.Leave(&w.Call, core.Closed, now)
		l.Next(&w.Call, false, now)
		c.done(w)
	}
}

// A semaphore is a sorted set of the owners that have permits, and of the ends of their leases. To package core the permits
// of each owner are a lock of their own: of the name and the owner. Those of one name are together in a pool, under one mutex and
// with one subscription: a grant names its owner, and costs no more where thousands wait.

// A pool has the permits of one name.
type pool struct {
	locks map[core.OwnerID]*lock // that hold a permit or wait for one
	sub   subscription           // nil for none
	users int                    // locks that are subscribed
}

func acquirePermit(r *redis, c *exchange) wire.Call {
	return wire.SemaphoreAcquire.Call(2, c.name.Key, c.name.Queue(), r.milliseconds(c.cmd.Lease), c.text, number(&c.cmd))
}

func resumePermit(r *redis, c *exchange) wire.Call {
	return wire.SemaphoreResume.Call(2, c.name.Key, c.name.Queue(), r.milliseconds(c.cmd.Lease), c.passed, c.text)
}

func mirrorPermits(r *redis, part []*exchange) wire.Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 2*len(part))
	for _, c := range part {
		keys = append(keys, c.name.Key)
		args = append(args, r.mirrorLease(&c.cmd), c.text)
	}
	return wire.Call{Script: wire.SemaphoreMirror, Keys: keys, Args: args}
}

func guardPermits(c *exchange) guard {
	return guard{wire.SemaphoreGuard, []string{c.name.Key}, []string{c.text}}
}

// ownerIn returns the owner that the text of a tenure names, "<uuid>:<owner>" or "<uuid>:<owner>*k"; 0 for none.
func ownerIn(text string) core.OwnerID {
	text, _ = wire.CutMore(text)
	if len(text) < wire.TenureLen {
		return 0
	}
	o, err := strconv.ParseUint(text[wire.TenureLen:], 10, 64)
	if err != nil {
		return 0
	}
	return core.OwnerID(o)
}

// permit returns the lock of the owner's permit, nil if there is none.
func (s *shard) permit(key string, o core.OwnerID) *lock {
	if p := s.pools[key]; p != nil {
		return p.locks[o]
	}
	return nil
}

func (s *shard) addPermit(l *lock) {
	p := s.pools[l.name.Key]
	if p == nil {
		p = &pool{locks: make(map[core.OwnerID]*lock)}
		s.pools[l.name.Key] = p
	}
	p.locks[l.owner] = l
}

func (s *shard) removePermit(l *lock) {
	p := s.pools[l.name.Key]
	delete(p.locks, l.owner)
	if len(p.locks) == 0 {
		delete(s.pools, l.name.Key)
	}
}

// eachPermit calls yield with each lock of the name.
func (s *shard) eachPermit(key string, yield func(*lock) bool) bool {
	p := s.pools[key]
	if p == nil {
		return true
	}
	for _, l := range p.locks {
		if !yield(l) {
			return false
		}
	}
	return true
}

// A share is one lock's part of the subscription of its pool.
type share struct {
	subscription
	pool *pool
}

// share subscribes for one more lock of the name.
func (s *shard) share(n *Name, listen func() subscription) subscription {
	p := s.pools[n.Key]
	if p.sub == nil {
		p.sub = listen()
	}
	p.users++
	return &share{p.sub, p}
}

func (s *share) close() {
	if s.pool.users--; s.pool.users == 0 {
		s.pool.sub.close()
		s.pool.sub = nil
	}
}
