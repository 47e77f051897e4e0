package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A hold is the handle of one level of a lock of one key.
type hold struct {
	terms.HoldContext
	lock  Lock
	owner terms.Owner
	life  *terms.Life  // its own, or that of its whole
	whole *terms.Whole // that it was taken for, nil for none
	ended func(error)  // tells the whole of its loss, nil for none
	by    uint64       // the goroutine that has called, 0 if it is not known
	token uint64       // set when the lock was granted, and never changed; 0: it has none

	// stays is until when the lock stays also after its release; before it is acquired, for how long after that. 0: not at all.
	stays    core.Time
	standing bool // it is held for long by design

	// The mutex of the lock's shard protects following.

	released bool
	lost     error // why it is over without a release, nil if it is not
}

// newHold returns the handle of a call, whose context is made from parent.
func (l *Lock) newHold(parent context.Context, req *Request) *hold {
	req.Shared = l.Shared
	h := &hold{lock: *l, owner: req.Owner, life: req.Life, whole: req.Whole, ended: req.Lost, by: req.Goroutine(), stays: core.Time(req.Least), standing: req.Standing}
	life := req.Life
	if req.Whole != nil {
		life = nil // it ends with the whole
	}
	h.Begin(l.driver.witness.watched(parent), life)
	return h
}

// begun ends the hold if its call has failed with err, and returns the error with the name of the lock.
func (h *hold) begun(err error) error {
	if errors.Is(err, terms.ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", h.title(), err)
	}
	if err != nil {
		h.End(err)
	}
	return err
}

var _ Handle = (*hold)(nil)

// begins notes that the lock was granted.
func (h *hold) begins(token uint64, now core.Now) {
	if h.token = token; h.stays > 0 {
		h.stays += now.Time
	}
}

// staysAt reports whether the lock stays after its release at that moment.
func (h *hold) staysAt(now core.Now) bool { return h != nil && h.stays > now.Time }

// title returns the name that the lock was made with.
func (h *hold) title() string { return h.lock.Name.Key }

// FencingToken implements [Handle], as all exported methods here.
func (h *hold) FencingToken() uint64 { return h.token }

// isPart reports whether a whole tells of the hold. A nil hold is no part.
func (h *hold) isPart() bool { return h != nil && h.whole != nil }

// isHeld reports whether the hold is one of its owner's: not if it is a part of a whole that is not held.
func (h *hold) isHeld() bool { return h.whole == nil || h.whole.IsHeld() }

// lose ends the context of the handle, which has ended without a release, and tells the whole.
func (h *hold) lose(cause error) {
	h.End(cause)
	if h.ended != nil {
		h.ended(cause)
	}
}

func (h *hold) ValidUntil() (until time.Time) {
	if l, _ := h.enter(); l != nil {
		until = h.lock.driver.clock.safe(l.ValidUntil(core.OwnerID(h.owner.ID)))
		l.shard.exit(l)
	}
	return until
}

// enter enters the lock if the hold is valid.
func (h *hold) enter() (*lock, core.Now) {
	l, now := h.lock.driver.enterIfAny(h.lock.Name, core.OwnerID(h.owner.ID))
	if l == nil {
		return nil, now
	}
	l.Look(now)
	if h.released || h.lost != nil || !l.hasHandle(h) {
		l.shard.exit(l)
		return nil, now
	}
	return l, now
}

// hasHandle reports whether a level is the handle's.
func (l *lock) hasHandle(h *hold) bool {
	levels := l.Levels()
	for i := range levels {
		if levels[i].Handle == any(h) {
			return true
		}
	}
	return false
}

// isLife reports whether a level is that of the hold which has the life, or a part of it.
func (l *lock) isLife(life *terms.Life, now core.Now) bool {
	l.Look(now)
	levels := l.Levels()
	for i := range levels {
		if h, ok := levels[i].Handle.(*hold); ok && h.life == life {
			return true
		}
	}
	return false
}

func (h *hold) Err() (cause error) {
	if Valid(h) {
		return nil
	}
	h.lock.driver.shardOf(h.lock.Name).glance(func() {
		if !h.released || errors.Is(h.lost, terms.ErrPassed) {
			cause = h.lost
		}
	})
	return cmp.Or(cause, terms.Released(h.title()))
}

// giveBack releases a hold that is over already, and returns why it was; nil if it had been released before.
func (h *hold) giveBack() (cause error) {
	h.lock.driver.shardOf(h.lock.Name).glance(func() {
		if !h.released {
			h.released, cause = true, h.lost
		}
	})
	return cause
}

func (h *hold) Release(ctx context.Context) error {
	released := terms.Released(h.title())
	if Valid(h) {
		h.End(released) // before another can have it
	}
	err := h.lock.unlock(ctx, h.owner, h)
	h.End(released)
	return err
}

func (h *hold) ReleaseLater() {
	h.End(terms.Released(h.title()))
	l, now := h.enter()
	if l == nil {
		_ = h.giveBack()
		return
	}
	if !h.released {
		was, _, _ := l.Unlock(core.OwnerID(h.owner.ID), h.lock.mode(), h, now) // the keeper releases it
		l.shard.counts.Closed(was.First)
		h.released = true
	}
	l.shard.exit(l)
}

func (h *hold) SetLease(lease time.Duration) {
	if l, now := h.enter(); l != nil {
		l.SetLease(core.OwnerID(h.owner.ID), h.lock.mode(), h, core.Span(lease), now)
		l.shard.exit(l)
	}
}
