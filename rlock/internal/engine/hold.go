package engine

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A hold is the handle of one level of a lock of one key.
type hold struct {
	Base
	lock  Lock
	owner Owner
	token uint64 // set when the lock was granted, and never changed; 0: it has none

	// The mutex of the name's shard protects following.

	tenure   *tenure // set when the lock was granted
	released bool
	lost     error // why it is over without a release, nil if it is not
}

var (
	_ Handle = (*hold)(nil)
	_ Ending = (*hold)(nil)
)

// Title implements [Handle] and [Ending], as all exported methods here.
func (h *hold) Title() string { return h.lock.Name.Key }

func (h *hold) FencingToken() uint64 { return h.token }

// isPart reports whether a whole tells of the hold. A nil hold is no part.
func (h *hold) isPart() bool { return h != nil && h.Whole != nil }

func (h *hold) ValidUntil() time.Time {
	if r := h.enter(); r != nil {
		defer r.exit()
		return h.tenure.validUntilFor(h.owner)
	}
	return time.Time{}
}

// enter enters the room if the hold is valid.
func (h *hold) enter() *room {
	r := h.lock.Client.enterIfAny(h.lock.Name)
	if r == nil {
		return nil
	}
	if t := r.current(time.Now()); t == nil || t != h.tenure || h.released || h.lost != nil {
		r.exit()
		return nil
	}
	return r
}

func (h *hold) Unlock(ctx context.Context) error {
	return h.lock.unlock(ctx, h.owner, h)
}

func (h *hold) Cause() error {
	s := h.lock.Name.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.released {
		return nil
	}
	return h.lost
}

// giveBack releases a hold that is over already, and returns why it was; nil if
// it had been released before.
func (h *hold) giveBack() error {
	s := h.lock.Name.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.released {
		return nil
	}
	h.released = true
	return h.lost
}

func (h *hold) Err() error { return WhyOver(h) }

func (h *hold) Release(ctx context.Context) error { return Release(ctx, h) }

func (h *hold) ReleaseLater() {
	h.End(terms.Released(h.Title()))
	r := h.enter()
	if r == nil {
		_ = h.giveBack()
		return
	}
	defer r.exit()
	t, now := h.tenure, time.Now()
	was, _ := t.close(h.owner, h.lock.Shared, h)
	r.shard.counts.closed(was.way)
	h.released = true
	if !r.goesOn(t, &was, now) {
		r.letGo(t, now)
	}
}

func (h *hold) SetLease(lease time.Duration) {
	r := h.enter()
	if r == nil {
		return
	}
	defer r.exit()
	now := time.Now()
	for i := range h.tenure.levels {
		if l := &h.tenure.levels[i]; l.hold == h {
			h.tenure.let(l, now, lease)
		}
	}
	h.tenure.changed(now)
}
