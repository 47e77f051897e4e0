package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/losses"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A Hold is one level of a lock made of several: a part of each, in the name of one owner. Nothing runs while it has all.
type Hold struct {
	terms.HoldContext
	of      *Lock
	owner   terms.Owner
	options Options     // that it was taken with
	whole   terms.Whole // as its parts know it
	way     terms.Way   // as reported to the Observer; the home's mutex protects it
	quit    func()      // ends the waits for parts that are still asked for

	mu    sync.Mutex    // protects following
	lease time.Duration // 0: kept by the watchdog
	until time.Time     // the end of the lease; zero: kept by the watchdog
	since time.Time     // when the first parts were added; zero before
	parts []*member
	over  bool     // released or lost: no part may be added
	lost  error    // why it was lost, until its release has returned that
	lacks []Locker // a red lock's parts that it is without, to be taken again: see heal.go
}

var _ terms.Part = (*Hold)(nil)

// A member is a part of a hold.
type member struct {
	lock Locker
	part terms.Part
	lost error // why it has ended by loss, nil if it has not; the hold's mutex protects it
}

// take acquires one of the parts, in the name of the owner, with the lease, the wait and the end of the wait in options.
// The hold does not have it yet.
func (h *Hold) take(ctx context.Context, lock Locker, options Options) (*member, error) {
	m, options := h.asks(lock, options)
	part, err := lock.Acquire(ctx, h.owner, options)
	if err != nil {
		return nil, err
	}
	m.part = part
	return m, nil
}

// takeTogether acquires parts of one client with a lease, up to the first that is not free, whose error it returns.
func (h *Hold) takeTogether(ctx context.Context, home *Home, locks []Locker, lease time.Duration) (taken []*member, err error) {
	members, options := make([]*member, len(locks)), make([]Options, len(locks))
	for i, lock := range locks {
		members[i], options[i] = h.asks(lock, Options{Lease: lease})
	}
	parts, err := home.AcquireAll(ctx, h.owner, locks, options)
	for i, part := range parts {
		members[i].part = part
	}
	return members[:len(parts)], err
}

// asks returns a member that is to be taken, and the options for that.
func (h *Hold) asks(lock Locker, options Options) (*member, Options) {
	m := &member{lock: lock}
	options.Caller, options.Whole = h.options.Caller, &h.whole
	options.Within, options.Life = h.options.Within, h.options.Life
	options.Lost = func(cause error) { h.lose(m, cause) }
	return m, options
}

// add adds parts to the hold, which begins with the first. It reports false if the hold is over: the parts are then the
// caller's to release.
func (h *Hold) add(parts ...*member) bool {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return false
	}
	if h.since.IsZero() {
		h.since = time.Now()
		h.beginLease(h.lease)
		h.whole.SetHeld(true)
	}
	h.parts = append(h.parts, parts...)
	lease := h.lease
	var gone []*member // they ended before the hold had them
	for _, m := range parts {
		if m.lost != nil {
			gone = append(gone, m)
		}
	}
	h.mu.Unlock()
	for _, m := range parts {
		if lease != h.options.Lease { // it was changed meanwhile
			m.part.SetLease(lease)
		}
	}
	for _, m := range gone {
		h.lose(m, m.lost)
	}
	return true
}

// lose notes that a part has ended by loss, and ends the hold if too few are left. It waits for nothing.
func (h *Hold) lose(m *member, why error) {
	h.mu.Lock()
	m.lost = why
	i := slices.Index(h.parts, m)
	if h.over || i < 0 {
		h.mu.Unlock()
		return
	}
	h.parts = slices.Delete(h.parts, i, i+1)
	l, o := h.of, h.owner
	if len(h.parts) >= l.need {
		h.mu.Unlock()
		h.without(m.lock)
		return
	}
	cause := fmt.Errorf("rlock: lock %q of %s: %d of %d parts are left, and it takes %d: %w",
		l.name, o.Title(), len(h.parts), len(l.parts), l.need, why)
	until := h.until
	if !until.IsZero() && errors.Is(why, terms.ErrLeaseEnded) {
		until = time.Now()
	}
	if h.options.Whole == nil && !o.OfHandle() { // else the handle remembers, or the whole does
		l.home.Losses.Add(l.key(o), losses.Level{Until: until}, cause)
	}
	left, since := h.end(cause), h.since
	h.mu.Unlock()

	l.home.remove(l.key(o), h) // the losses remember it
	h.End(cause)
	if h.options.Lost != nil {
		h.options.Lost(cause)
	}
	h.tellLost(since, why, cause)
	h.quit()
	releaseLater(left)
}

// life returns the life that ends with the hold, nil for a part, which has that of its whole.
func (h *Hold) life() *terms.Life {
	if h.options.Whole != nil {
		return nil
	}
	return h.options.Life
}

// outlived returns why a guest may not have the lock: the hold that it is a guest of is over. A part's whole asks that.
func (h *Hold) outlived() error {
	if in := h.options.Within; in == nil || h.options.Whole != nil || !in.IsOver() {
		return nil
	}
	return fmt.Errorf("rlock: lock %q: %w", h.of.name, terms.ErrOutlived)
}

// end ends the hold, and returns the parts that it had. The mutex is held.
func (h *Hold) end(cause error) []*member {
	parts := h.parts
	h.parts, h.over, h.lost = nil, true, cause
	h.forget()
	h.whole.SetHeld(false)
	return parts
}

// Err implements [terms.Part], as all exported methods in the files of a Hold.
func (h *Hold) Err() error {
	if h.isValid() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.over: // the clock says so, and the parts' contexts are about to
		return fmt.Errorf("rlock: lock %q of %s: %w: too few parts of it are valid", h.of.name, h.owner.Title(), terms.ErrLost)
	case h.lost != nil:
		return h.lost
	}
	return terms.Released(h.of.name)
}

func (h *Hold) isValid() bool { return !h.ValidUntil().IsZero() }

// ValidUntil is when too few of the parts will be valid, as far as is confirmed by now; the zero time if the hold is
// over.
func (h *Hold) ValidUntil() time.Time {
	parts := h.has()
	until := make([]time.Time, 0, len(parts))
	for _, m := range parts {
		if t := m.part.ValidUntil(); !t.IsZero() {
			until = append(until, t)
		}
	}
	return best(until, h.of.need, time.Time.Compare)
}

// has returns a copy of the parts, which may be lost meanwhile.
func (h *Hold) has() []*member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.parts)
}

// best returns the value that so many reach, the zero value if there are fewer.
func best[T any](values []T, many int, compare func(a, b T) int) (t T) {
	if len(values) < many {
		return t
	}
	slices.SortFunc(values, func(a, b T) int { return compare(b, a) })
	return values[many-1]
}

// beginLease notes that the lease begins now, 0 for the watchdog. The mutex is held.
func (h *Hold) beginLease(lease time.Duration) {
	h.lease, h.until = lease, time.Time{}
	if lease > 0 {
		h.until = time.Now().Add(lease)
	}
}

func (h *Hold) SetLease(lease time.Duration) {
	h.mu.Lock()
	h.beginLease(lease)
	h.mu.Unlock()
	setLease(h.has(), lease)
}

func setLease(parts []*member, lease time.Duration) {
	for _, m := range parts {
		m.part.SetLease(lease)
	}
}

// FencingToken returns 0: the parts have tokens of their own.
func (h *Hold) FencingToken() uint64 { return 0 }

// Write refuses: one step in one server cannot look at parts that may be on several.
func (h *Hold) Write(context.Context, string, []string, []string) (m rueidis.RedisMessage, err error) {
	return m, fmt.Errorf("rlock: lock %q: %w: a lock over several has no guarded writes, since no single step sees all parts: write with the hold of one of them", h.of.name, errors.ErrUnsupported)
}

// ReleaseWith refuses, as Write.
func (h *Hold) ReleaseWith(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error) {
	return h.Write(ctx, source, keys, args)
}

// Pass refuses.
func (h *Hold) Pass(context.Context, time.Duration) (string, error) {
	return "", fmt.Errorf("rlock: lock %q: %w: it is made of several locks", h.of.name, terms.ErrPass)
}

// Extend refuses.
func (h *Hold) Extend(context.Context, time.Duration) error {
	return fmt.Errorf("rlock: lock %q: extend: %w: it is made of several locks", h.of.name, errors.ErrUnsupported)
}
