package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
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

func (l *Lock) Beneath() []*Lock { return []*Lock{l} }

func (l *Lock) Unusable() error { return l.Name.Err }

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
	h.Begin(parent, req.Whole)
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

// Here reports whether another owner of this process has the lock or waits for it,
// and whether this client is about to free it. Where the server is silent nobody waits.
func (l *Lock) Here(o Owner) (taken, freeing bool) {
	r := l.Client.enterIfAny(l.Name)
	if r == nil {
		return false, false
	}
	defer r.exit()
	now := time.Now()
	if t := r.current(now); t != nil {
		return t.phase == held && !t.holds(o), false
	}
	head := r.head()
	live := head != nil && !head.over() // or it is on its way out
	return live && head.Wait > 0 && !l.IsSilent(), !live && (head != nil || r.inFlight > 0)
}

// IsSilent reports whether the server is taken for dead: it leaves commands for this or any
// other name unanswered.
func (l *Lock) IsSilent() bool { return l.Unanswered(Silence) }

// Unanswered reports whether the server has answered nothing for at least so long.
func (l *Lock) Unanswered(least time.Duration) bool {
	return l.Client.Redis.Limits(l.Name.Slot).Asks.Unanswered(least)
}
