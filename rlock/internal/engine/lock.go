package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A Lock is a lock of one key.
type Lock struct {
	Client *Client
	Name   *Name
	Shared bool // whether it is the read lock of its name
}

var _ Form = (*Lock)(nil)

// NewLock returns the lock of that kind and name. It asks Redis nothing.
func NewLock(c *Client, id KindID, key string) Lock {
	return Lock{Client: c, Name: c.NewName(id, key)}
}

// ForReaders returns the read lock beside a write lock.
func (l *Lock) ForReaders() Lock { return Lock{Client: l.Client, Name: l.Name, Shared: true} }

// Title implements [Form], as the exported methods that follow, to Token.
func (l *Lock) Title() string { return l.Name.Key }

func (l *Lock) Base() *Lock { return l }

// of returns the lock with the room that o has its tenure in.
func (l *Lock) of(o Owner) Lock {
	return Lock{l.Client, l.Client.nameFor(l.Name, o), l.Shared}
}

// Same reports whether both are the same lock.
func (l *Lock) Same(other *Lock) bool { return l.SameName(other) && l.Shared == other.Shared }

// SameName reports whether both are the same lock, or a reader's and a writer's.
func (l *Lock) SameName(other *Lock) bool {
	return l.Client == other.Client && l.Name.KindID == other.Name.KindID && l.Name.Key == other.Name.Key
}

func (l *Lock) Take(ctx context.Context, req Request) error {
	req.Shared = l.Shared
	return l.Client.acquire(ctx, l.Client.nameFor(l.Name, req.Owner), req)
}

func (l *Lock) Hold(ctx, parent context.Context, req Request) (Handle, error) {
	req.Shared = l.Shared
	h := &hold{lock: l.of(req.Owner), owner: req.Owner}
	h.Begin(parent, &req)
	req.hold = h
	err := l.Client.acquire(ctx, h.lock.Name, req)
	if errors.Is(err, ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", l.Name.Key, err)
	}
	if err != nil {
		h.End(err)
		return nil, err
	}
	return h, nil
}

func (l *Lock) Unlock(ctx context.Context, o Owner) error {
	mine := l.of(o)
	return mine.unlock(ctx, o, nil)
}

func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.Name.kind().locked(ctx, l) }

func (l *Lock) TTL(ctx context.Context) (time.Duration, error) { return l.Name.kind().ttl(ctx, l) }

func (l *Lock) Depth(o Owner) int {
	r := l.Client.enterIfAny(l.Client.nameFor(l.Name, o))
	if r == nil {
		return 0
	}
	defer r.exit()
	t := r.current(time.Now())
	if t == nil {
		return 0
	}
	return t.depth(o, l.Shared)
}

func (l *Lock) Token(o Owner) (uint64, error) {
	if l.Name.Err != nil {
		return 0, l.Name.Err
	}
	if !l.Name.kind().fenced {
		return 0, NoToken(l.Name.Key)
	}
	if r := l.Client.enterIfAny(l.Name); r != nil {
		defer r.exit()
		if t := r.current(time.Now()); t != nil && t.holds(o) {
			return t.tokens.current, nil
		}
	}
	if cause := l.Client.Losses.look(l.Name.lossKey(o)).cause; cause != nil {
		return 0, cause
	}
	return 0, fmt.Errorf("rlock: token of %q: owner %s: %w", l.Name.Key, o, l.Client.Losses.NotHeld())
}

// State implements [Form]. Where the server is silent no call counts as one that waits.
func (l *Lock) State(o Owner) (s terms.State) {
	s.Silent = l.Client.Redis.Limits(l.Name.Slot).Asks.Silent()
	r := l.Client.enterIfAny(l.Client.nameFor(l.Name, o))
	if r == nil {
		return s
	}
	defer r.exit()
	if t := r.current(time.Now()); t != nil {
		s.Depth = t.depth(o, l.Shared)
		s.Taken = t.phase == held && !t.holds(o)
		return s
	}
	head := r.head()
	live := head != nil && !head.over() // or it is on its way out
	s.Taken = live && head.Wait > 0 && !s.IsSilent()
	s.Freeing = !live && (head != nil || r.inFlight > 0)
	return s
}
