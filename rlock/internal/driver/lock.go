package driver

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Name is a lock's name with what is computed from it.
type Name struct {
	wire.Keys
	KindID  KindID
	Hash    uint32 // the hash of the key, which is the same for all kinds
	Permits int    // the number of permits of a semaphore
	Err     error  // the error that each call returns, if no lock can have the name
}

// NewName returns the name of a lock of the kind. It sends no command.
func (c *Client) NewName(id KindID, key string) *Name {
	n := &Name{KindID: id, Hash: c.hashOf(key)}
	n.Keys, n.Err = c.Redis.KeysOf(key, kinds[id].wire.Layout, c.ID.Prefix)
	return n
}

// hashOf returns the hash of a key, as a Name has it.
func (c *Client) hashOf(key string) uint32 { return uint32(maphash.String(c.seed, key)) }

// A NamedLock is a lock of one key.
type NamedLock struct {
	Name   *Name
	Shared bool // the lock is the read lock of its name
	driver *Client
}

// NewLock returns the lock of that kind and name. It sends no command.
func NewLock(c *Client, id KindID, key string) NamedLock {
	return NamedLock{Name: c.NewName(id, key), driver: c}
}

// NewSemaphore returns the lock for the permits of a semaphore.
func NewSemaphore(c *Client, key string, permits int) NamedLock {
	l := NewLock(c, SemaphoreKind, key)
	l.Name.Permits = permits
	if (permits < 1 || permits > math.MaxInt32) && l.Name.Err == nil {
		l.Name.Err = fmt.Errorf("rlock: semaphore %q: %w: %d permits: use 1 to %d", key, wire.ErrInvalidConfig, permits, math.MaxInt32)
	}
	return l
}

// ForReaders returns the read lock that belongs to a write lock.
func (l *NamedLock) ForReaders() NamedLock {
	return NamedLock{Name: l.Name, Shared: true, driver: l.driver}
}

// Title returns the name that the lock was made with.
func (l *NamedLock) Title() string { return l.Name.Key }

// modeFor returns the mode of a read lock, or of any other lock.
func modeFor(shared bool) core.Mode {
	if shared {
		return core.Shared
	}
	return core.Alone
}

// Take acquires the lock without a handle.
func (l *NamedLock) Take(ctx context.Context, req Request) error {
	req.Shared = l.Shared
	return l.driver.acquire(ctx, l.Name, &req, nil)
}

// Hold acquires the lock with a handle, whose context is derived from parent.
func (l *NamedLock) Hold(ctx, parent context.Context, req Request) (Handle, error) {
	h := l.newHold(parent, &req)
	if err := h.endIfFailed(l.driver.acquire(ctx, l.Name, &req, h)); err != nil {
		return nil, err
	}
	return h, nil
}

// Unlock closes the owner's innermost level without a handle.
func (l *NamedLock) Unlock(ctx context.Context, o contract.Owner) error {
	return l.unlockLevel(ctx, o, nil)
}

// read calls read with the lock of this client, if there is one, after holds whose time is over
// have ended.
func (l *NamedLock) read(o core.OwnerID, read func(one *lockState, now core.Now)) {
	if one, now := l.driver.enterIfAny(l.Name, o); one != nil {
		one.Settle(now)
		read(one, now)
		one.shard.exit(one)
	}
}

// Depth returns the number of levels that the owner has.
func (l *NamedLock) Depth(o contract.Owner) (n int) {
	l.read(core.OwnerID(o.ID), func(one *lockState, _ core.Now) { n = one.depth(o, modeFor(l.Shared)) })
	return n
}

// State returns what this client knows of the lock. A call that waits for a silent server does not
// count as a waiter.
func (l *NamedLock) State(o contract.Owner) (s contract.State) {
	s.Silent = l.driver.wire.Limits(l.Name.Slot).Asks.Silent()
	l.read(core.OwnerID(o.ID), func(one *lockState, _ core.Now) {
		s.Depth = one.depth(o, modeFor(l.Shared))
		if one.IsHeld() {
			s.Taken = !one.Hosts(core.OwnerID(o.ID), o.Guest)
		} else {
			s.Freeing = one.Busy()
			for w := range one.Waiters {
				if w.Outcome == core.Waiting { // the first call that has not ended
					s.Taken, s.Freeing = w.Waits && !s.IsSilent(), false
					break
				}
			}
		}
	})
	return s
}

// depth returns the number of the owner's levels in the mode, without levels that are parts of a
// whole which is not held.
//
// REQUIRES: shard.mu.
func (l *lockState) depth(o contract.Owner, mode core.Mode) (n int) {
	levels := l.Levels()
	for i := range levels {
		v := &levels[i]
		h, _ := v.Handle.(*hold)
		if v.Owner == core.OwnerID(o.ID) && v.Mode == mode && (o.Guest || !v.Guest) && (h == nil || h.isHeld()) {
			n++
		}
	}
	return n
}

// Token returns the fencing token of the owner's innermost level.
func (l *NamedLock) Token(o contract.Owner) (token uint64, _ error) {
	switch k := kinds[l.Name.KindID]; {
	case l.Name.Err != nil:
		return 0, l.Name.Err
	case !k.core.Fenced:
		return 0, contract.NoToken(l.Name.Key)
	}
	l.read(core.OwnerID(o.ID), func(one *lockState, _ core.Now) {
		levels := one.Levels()
		for i := range levels {
			if v := &levels[i]; v.Owner == core.OwnerID(o.ID) && (o.Guest || !v.Guest) {
				token = v.Token
			}
		}
	})
	losses := &l.driver.Losses
	if token > 0 {
		return token, nil
	}
	if cause := losses.Cause(l.Name.lossKey(o)); cause != nil {
		return 0, cause
	}
	return 0, fmt.Errorf("rlock: token of %q: %s: %w", l.Name.Key, o.Title(), losses.NotHeld())
}

// The kinds. Locks of one name and of different kinds are different locks of a client; Redis
// decides whether they exclude each other.
const (
	PlainKind KindID = iota
	FencedKind
	ReadWriteKind
	FairKind
	SemaphoreKind

	kindCount = iota // the number of kinds
)

// A KindID is the index of a kind among the kinds.
type KindID uint8

// A kind has what is special to one sort of lock.
type kind struct {
	public  contract.Kind // the kind that users see; they see a read lock as a kind of its own
	wire    *wire.Kind    // the scripts and names of the kind
	core    core.Kind     // the kind for package core, without the number of permits, which comes with the name
	asks    questions
	readers bool // the kind has a read lock beside the write lock
	permits bool // each owner has a lock of its own: see pool
}

// kinds are all kinds of locks.
var kinds = [kindCount]*kind{
	PlainKind:     {public: contract.KindPlain, wire: wire.Plain, asks: questions{fields, keyExists, keyTTL}},
	FencedKind:    {public: contract.KindFenced, wire: wire.Fenced, core: core.Kind{Fenced: true}, asks: questions{fields, keyExists, keyTTL}},
	FairKind:      {public: contract.KindFair, wire: wire.Plain, core: core.Kind{Strict: true}, asks: questions{fields, keyExists, keyTTL}},
	ReadWriteKind: {public: contract.KindWrite, wire: wire.ReadWrite, asks: questions{readersOrWriters, readOrWritten, keyTTL}, readers: true},
	SemaphoreKind: {public: contract.KindSemaphore, wire: wire.Semaphore, core: core.Kind{Strict: true}, asks: questions{permitHolders, allPermitsHeld, firstPermitEnds}, permits: true},
}

// KindOf returns the kind of the lock as users see it.
func (n *Name) KindOf(shared bool) contract.Kind {
	if shared {
		return contract.KindRead
	}
	return kinds[n.KindID].public
}

// The two locks of a read-write lock are one lock of package core, in two modes.

// knownHere reports whether an owner of this client has the lock in the mode of l. If known, Redis
// need not be asked: this client holds the lock, and Redis may not show its modes yet, since a
// nested lock and a downgrade wait for no command.
func (l *NamedLock) knownHere() (locked, known bool) {
	if !kinds[l.Name.KindID].readers || l.Name.Err != nil {
		return false, false
	}
	l.read(0, func(one *lockState, now core.Now) {
		levels := one.Levels()
		for i := range levels {
			locked = locked || levels[i].Mode == modeFor(l.Shared)
		}
		known = one.IsHeld() && !one.IsShown(now)
	})
	return locked, known
}

// To package core the permits of each owner of a semaphore are a lock of their own. The locks of
// one name are together in a pool, with one mutex and one subscription: a grant names its owner, so
// that it costs no more if thousands wait.

// A pool has the locks of one semaphore.
type pool struct {
	locks map[core.OwnerID]*lockState // the owners that hold a permit or wait for one
	sub   subscription                // the subscription; nil if no lock is subscribed
	users int                         // the number of locks that are subscribed
}

// textOf returns the text of a tenure's owner in Redis; more is the number of permits beside the
// first.
func (c *Client) textOf(id core.ID, o core.OwnerID, more int32) wire.OwnerText {
	return c.ID.Text(id.N, uint64(o)).WithMore(more)
}

// eachPermit calls yield with each lock of the pool.
func (s *shard) eachPermit(key string, yield func(*lockState) bool) bool {
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

// A poolShare is the part of one lock in the subscription of its pool.
type poolShare struct {
	subscription
	pool *pool
}

// subscribePool subscribes one more lock of the pool.
//
// REQUIRES: shard.mu.
func (s *shard) subscribePool(n *Name, listen func() subscription) subscription {
	p := s.pools[n.Key]
	if p.sub == nil {
		p.sub = listen()
	}
	p.users++
	return &poolShare{p.sub, p}
}

func (s *poolShare) close() {
	if s.pool.users--; s.pool.users == 0 {
		s.pool.sub.close()
		s.pool.sub = nil
	}
}
