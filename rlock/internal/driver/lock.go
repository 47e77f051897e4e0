package driver

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Name is a lock's name and the values that follow from it, computed once for a Lock.
type Name struct {
	wire.Keys
	KindID  KindID
	Hash    uint32 // of the key, the same for all kinds
	Permits int    // of a semaphore
	Err     error  // why no lock can have it: every call returns it
}

// NewName returns the name of a lock of the kind. It asks Redis nothing.
func (c *Client) NewName(id KindID, key string) *Name {
	n := &Name{KindID: id, Hash: c.hashOf(key)}
	n.Keys, n.Err = c.Redis.KeysOf(key, kinds[id].wire.Layout, c.ID.Prefix)
	return n
}

// hashOf returns the hash of a key, as in its names.
func (c *Client) hashOf(key string) uint32 { return uint32(maphash.String(c.seed, key)) }

// A Lock is a lock of one key.
type Lock struct {
	Name   *Name
	Shared bool // whether it is the read lock of its name
	driver *Client
}

// NewLock returns the lock of that kind and name. It asks Redis nothing.
func NewLock(c *Client, id KindID, key string) Lock {
	return Lock{Name: c.NewName(id, key), driver: c}
}

// NewSemaphore returns the lock of the permits of a semaphore of so many.
func NewSemaphore(c *Client, key string, permits int) Lock {
	l := NewLock(c, SemaphoreKind, key)
	l.Name.Permits = permits
	if (permits < 1 || permits > math.MaxInt32) && l.Name.Err == nil {
		l.Name.Err = fmt.Errorf("rlock: semaphore %q: %w: %d permits: use 1 to %d", key, wire.ErrInvalidConfig, permits, math.MaxInt32)
	}
	return l
}

// ForReaders returns the read lock beside a write lock.
func (l *Lock) ForReaders() Lock { return Lock{Name: l.Name, Shared: true, driver: l.driver} }

// Title returns the name that the lock was made with.
func (l *Lock) Title() string { return l.Name.Key }

// modeOf is the mode of a read lock, or of any other lock.
func modeOf(shared bool) core.Mode {
	if shared {
		return core.Shared
	}
	return core.Alone
}

// Take acquires the lock without a handle.
func (l *Lock) Take(ctx context.Context, req Request) error {
	req.Shared = l.Shared
	return l.driver.acquire(ctx, l.Name, &req, nil)
}

// Hold acquires the lock with a handle, whose context is made from parent.
func (l *Lock) Hold(ctx, parent context.Context, req Request) (Handle, error) {
	h := l.newHold(parent, &req)
	if err := h.begun(l.driver.acquire(ctx, l.Name, &req, h)); err != nil {
		return nil, err
	}
	return h, nil
}

func (l *Lock) Unlock(ctx context.Context, o terms.Owner) error {
	return l.unlock(ctx, o, nil)
}

func (l *Lock) Depth(o terms.Owner) (n int) {
	if one, now := l.driver.enterIfAny(l.Name, core.OwnerID(o.ID)); one != nil {
		one.Settle(now)
		n = one.depth(o, modeOf(l.Shared))
		one.shard.exit(one)
	}
	return n
}

// State counts no call as one that waits where the server is silent.
func (l *Lock) State(o terms.Owner) (s terms.State) {
	s.Silent = l.driver.wire.Limits(l.Name.Slot).Asks.Silent()
	one, now := l.driver.enterIfAny(l.Name, core.OwnerID(o.ID))
	if one == nil {
		return s
	}
	one.Settle(now)
	s.Depth = one.depth(o, modeOf(l.Shared))
	switch live, waits := one.first(); {
	case one.Owner() != nil:
		s.Taken = one.IsHeld() && !one.Hosts(core.OwnerID(o.ID), o.Guest)
	case live:
		s.Taken = waits && !s.IsSilent()
	default:
		s.Freeing = one.Busy()
	}
	one.shard.exit(one)
	return s
}

// depth counts the owner's levels of the mode, without the parts of an attempt of a lock over several.
func (l *lock) depth(o terms.Owner, mode core.Mode) (n int) {
	levels := l.Levels()
	for i := range levels {
		if v := &levels[i]; v.Owner == core.OwnerID(o.ID) && v.Mode == mode && (o.Guest || !v.Guest) && !isLoose(v) {
			n++
		}
	}
	return n
}

// first reports whether there is a call that waits for the lock, and whether the first of them may wait for longer than
// an attempt.
func (l *lock) first() (live, waits bool) {
	for w := range l.Waiters {
		if w.Outcome == core.Waiting {
			return true, w.Waits
		}
	}
	return false, false
}

// isLoose reports whether the level is a part of a whole that is not held: of an attempt that goes on, or was given
// up and is about to be released.
func isLoose(v *core.Level) bool {
	h, _ := v.Handle.(*hold)
	return h != nil && !h.isHeld()
}

func (l *Lock) Token(o terms.Owner) (token uint64, err error) {
	switch k := kinds[l.Name.KindID]; {
	case l.Name.Err != nil:
		return 0, l.Name.Err
	case !k.core.Fenced:
		return 0, terms.NoToken(l.Name.Key)
	}
	one, now := l.driver.enterIfAny(l.Name, core.OwnerID(o.ID))
	if one != nil {
		one.Settle(now)
		levels := one.Levels()
		for i := range levels {
			if v := &levels[i]; v.Owner == core.OwnerID(o.ID) && (o.Guest || !v.Guest) {
				token = v.Token
			}
		}
		one.shard.exit(one)
	}
	losses := &l.driver.Losses
	if token > 0 {
		return token, nil
	} else if err = losses.Cause(l.Name.lossKey(o)); err == nil {
		err = fmt.Errorf("rlock: token of %q: %s: %w", l.Name.Key, o.Title(), losses.NotHeld())
	}
	return 0, err
}

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

// A kind is what one sort of lock is here, and what package core has to know of it.
type kind struct {
	public  terms.Kind // what users call it; the read lock is a kind of its own to them
	wire    *wire.Kind // what it is in Redis
	core    core.Kind  // the number of permits comes with the name
	asks    questions
	readers bool // it has a read lock beside the write lock
	permits bool // each owner has a lock of its own: see pool
}

// kinds are all kinds of locks.
var kinds = [KindCount]*kind{
	PlainKind:     {public: terms.KindPlain, wire: wire.Plain, asks: questions{fields, keyExists, keyTTL}},
	FencedKind:    {public: terms.KindFenced, wire: wire.Fenced, core: core.Kind{Fenced: true}, asks: questions{fields, keyExists, keyTTL}},
	FairKind:      {public: terms.KindFair, wire: wire.Plain, core: core.Kind{Strict: true}, asks: questions{fields, keyExists, keyTTL}},
	ReadWriteKind: {public: terms.KindWrite, wire: wire.ReadWrite, asks: questions{readersOrWriters, readOrWritten, keyTTL}, readers: true},
	SemaphoreKind: {public: terms.KindSemaphore, wire: wire.Semaphore, core: core.Kind{Strict: true}, asks: questions{permitHolders, allPermitsHeld, firstPermitEnds}, permits: true},
}

// KindOf returns the kind of the lock as users see it.
func (n *Name) KindOf(shared bool) terms.Kind {
	if shared {
		return terms.KindRead
	}
	return kinds[n.KindID].public
}

// The two locks of a read-write lock are one lock of package core, in two modes.

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
	one.Settle(now)
	levels := one.Levels()
	for i := range levels {
		locked = locked || levels[i].Mode == modeOf(l.Shared)
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
		l.run(context.Background(), w, l.shard.take())
		l.shard.exit(l)
		c.done(w)
	}) {
		l.Leave(&w.Call, core.Closed, now)
		l.Next(&w.Call, false, now)
		c.done(w)
	}
}

// To package core the permits of each owner are a lock of their own: of the name and the owner. Those of one name are together
// in a pool, under one mutex and with one subscription: a grant names its owner, and costs no more where thousands wait.

// A pool has the permits of one name.
type pool struct {
	locks map[core.OwnerID]*lock // that hold a permit or wait for one
	sub   subscription           // nil for none
	users int                    // locks that are subscribed
}

// textOf returns the owner of a tenure of this client as it stands in Redis, with so many permits beside the first.
func (c *Client) textOf(id core.ID, o core.OwnerID, more int32) string {
	return wire.WithMore(c.ID.Text(id.N, uint64(o)), more)
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
