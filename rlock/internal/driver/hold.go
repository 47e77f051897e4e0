package driver

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A hold is the handle of one level of a lock of one key.
type hold struct {
	client.Base
	lock  Lock
	owner terms.Owner
	by    uint64 // the goroutine that has called, 0 if it is not known
	token uint64 // set when the lock was granted, and never changed; 0: it has none

	// The mutex of the lock's shard protects following.

	released bool
	lost     error // why it is over without a release, nil if it is not
}

// newHold returns the handle of a call, whose context is made from parent.
func (l *Lock) newHold(parent context.Context, req *client.Request) *hold {
	req.Shared = l.Shared
	h := &hold{lock: *l, owner: req.Owner, by: req.Goroutine()}
	h.Begin(l.driver.witness.watched(parent), req)
	return h
}

var (
	_ client.Handle = (*hold)(nil)
	_ client.Ending = (*hold)(nil)
)

// Title implements [client.Handle] and [client.Ending], as all exported methods here.
func (h *hold) Title() string { return h.lock.Name.Key }

func (h *hold) FencingToken() uint64 { return h.token }

// isPart reports whether a whole tells of the hold. A nil hold is no part.
func (h *hold) isPart() bool { return h != nil && h.Whole != nil }

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

func (h *hold) Unlock(ctx context.Context) error {
	return h.lock.unlock(ctx, h.owner, h)
}

func (h *hold) Cause() (cause error) {
	h.lock.driver.shardOf(h.lock.Name).glance(func() {
		if !h.released || errors.Is(h.lost, terms.ErrPassed) {
			cause = h.lost
		}
	})
	return cause
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

func (h *hold) Err() error { return client.WhyOver(h) }

func (h *hold) Release(ctx context.Context) error { return client.Release(ctx, h) }

func (h *hold) ReleaseLater() {
	h.End(terms.Released(h.Title()))
	l, now := h.enter()
	if l == nil {
		_ = h.giveBack()
		return
	}
	l.mayLinger(now)
	was, t, _ := l.Unlock(core.OwnerID(h.owner.ID), h.lock.mode(), h, now)
	l.shard.counts.Closed(was.First)
	h.released = true
	if t != nil {
		l.LeaveToKeeper(t, now)
	}
	l.shard.exit(l)
}

func (h *hold) SetLease(lease time.Duration) {
	if l, now := h.enter(); l != nil {
		l.SetLease(core.OwnerID(h.owner.ID), h.lock.mode(), h, core.Span(lease), now)
		l.shard.exit(l)
	}
}
