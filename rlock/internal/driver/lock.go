package driver

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"

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
		one.Look(now)
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
	one.Look(now)
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
		one.Look(now)
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
