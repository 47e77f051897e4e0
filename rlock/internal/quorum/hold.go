package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/engine"
)

// A hold is the handle of a lock made of several: a hold of each, in the name of one owner.
// Nothing runs while it is held: a part that ends by loss tells the whole.
type hold struct {
	engine.Base
	of    *compound
	req   engine.Request // that it was taken for; its Way is what the Observer was told
	at    *engine.Place  // where it was acquired, nil if that is not recorded
	long  atomic.Bool    // it was told that it is held for a long time
	leave func()         // ends what is still being asked for

	mu    sync.Mutex    // protects following; a shard's mutex may be taken under it
	lease time.Duration // 0: kept by the watchdog
	until time.Time     // the end of the lease; zero: kept by the watchdog
	since time.Time     // when the first parts joined
	held  []engine.Handle
	over  bool  // released or lost: no part may join
	lost  error // why it was lost, until its release has told it
}

var (
	_ engine.Handle = (*hold)(nil)
	_ engine.Whole  = (*hold)(nil)
)

// Title implements [engine.Handle] and [engine.Whole], as all exported methods here.
func (h *hold) Title() string { return h.of.name }

func (h *hold) Kind() engine.Kind { return h.of.kind }

func (h *hold) Place() *engine.Place { return h.at }

func (h *hold) TellsLong() bool { return !h.long.Swap(true) }

func (h *hold) FencingToken() uint64 { return 0 }

func (h *hold) Detach(context.Context) error {
	return fmt.Errorf("rlock: lock %q: %w: it is made of several locks", h.of.name, engine.ErrDetach)
}

// takePart acquires one of the parts, in the name of the owner. The time to wait for a lock
// is not the time to hold it.
func (h *hold) takePart(ctx context.Context, part engine.Form, req engine.Request) (engine.Handle, error) {
	req.Owner, req.Caller, req.Whole = h.req.Owner, h.req.Caller, h
	return part.Hold(ctx, context.WithoutCancel(ctx), req)
}

// add has holds join the whole. It reports false if the whole is over: they are then
// the caller's to release.
func (h *hold) add(holds ...engine.Handle) bool {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return false
	}
	if len(h.held) == 0 {
		h.beginLocked(h.lease)
		h.since = time.Now()
	}
	h.held = append(h.held, holds...)
	lease := h.lease
	h.mu.Unlock()
	for _, part := range holds {
		if lease != h.req.Lease { // it was changed meanwhile
			part.Relet(lease)
		}
		part.Join()
		if part.Context().Err() != nil { // it ended before it could tell
			h.Ended(part)
		}
	}
	return true
}

// Ended takes a part away that was lost, and ends the whole if too few are left. It
// waits for nothing. The second call for a part changes nothing.
func (h *hold) Ended(part engine.Handle) {
	h.mu.Lock()
	i := slices.Index(h.held, part)
	if h.over || i < 0 {
		h.mu.Unlock()
		return
	}
	h.held = slices.Delete(h.held, i, i+1)
	why := part.Disclaim() // the whole tells of the loss
	c, o := h.of, h.req.Owner
	if len(h.held) >= c.need {
		h.mu.Unlock()
		return
	}
	cause := fmt.Errorf("rlock: lock %q of owner %s: %d of %d parts are left, and it takes %d: %w",
		c.name, o, len(h.held), len(c.parts), c.need, why)
	lost := engine.Level{Owner: o, Until: h.until}
	if !lost.Kept() && errors.Is(why, engine.ErrLeaseEnded) {
		lost.Until = time.Now()
	}
	if h.Whole == nil && !o.OfHandle() { // else the handle remembers, or the whole does
		c.home.Losses.Add(c.key(o), lost, cause)
	}
	left := h.endLocked(cause)
	since := h.since
	h.mu.Unlock()

	c.home.Taken.Remove(c.key(o), h) // the losses remember it
	h.Lose(h, cause)
	h.tellLost(since, why, cause)
	h.leave()
	drop(left)
}

func (h *hold) Disclaim() error { return h.Unlock(h.Context()) }

// endLocked ends the whole, and returns the holds that it had.
func (h *hold) endLocked(cause error) []engine.Handle {
	holds := h.held
	h.held, h.over, h.lost = nil, true, cause
	return holds
}

// Unlock gives the parts back. It returns when enough of them are confirmed.
func (h *hold) Unlock(ctx context.Context) error {
	c, o := h.of, h.req.Owner
	h.mu.Lock()
	if h.over {
		cause := h.lost
		h.lost = nil
		h.mu.Unlock()
		if cause == nil {
			return fmt.Errorf("rlock: unlock %q: owner %s: %w", c.name, o, engine.ErrNotHeld)
		}
		if h.Whole == nil {
			c.home.Losses.Unlock(c.key(o), false)
		}
		return cause
	}
	holds, held := h.endLocked(nil), time.Since(h.since)
	h.mu.Unlock()
	h.leave()
	err := letGo(holds, c.need)
	h.tellReleased(ctx, held, err)
	return err
}

// letGo releases the holds, all at once. It returns nil as soon as so many of them are
// confirmed, and else the errors of all.
func letGo(holds []engine.Handle, enough int) error {
	results := make(chan error, len(holds))
	for _, h := range holds {
		go func() { results <- engine.Release(h.Context(), h) }()
	}
	var failed []error
	for range holds {
		if err := <-results; err != nil {
			failed = append(failed, err)
		} else if enough--; enough <= 0 {
			return nil
		}
	}
	return errors.Join(failed...)
}

// giveBack releases what was taken in vain. It does not wait for that longer than the
// caller does.
func giveBack(ctx context.Context, holds []engine.Handle) {
	if ctx.Err() != nil {
		drop(holds)
		return
	}
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = letGo(holds, len(holds))
	}()
	select {
	case <-released:
	case <-ctx.Done():
	}
}

func drop(holds []engine.Handle) {
	for _, h := range holds {
		engine.Drop(h)
	}
}

func (h *hold) Drop() {
	h.mu.Lock()
	holds := h.endLocked(nil)
	h.mu.Unlock()
	h.leave()
	drop(holds)
}

// ValidUntil is when too few of the parts will be valid, as far as is confirmed by
// now; the zero time if the whole is over.
func (h *hold) ValidUntil() time.Time {
	h.mu.Lock()
	held := slices.Clone(h.held)
	h.mu.Unlock()
	until := make([]time.Time, 0, len(held))
	for _, part := range held {
		if t := part.ValidUntil(); !t.IsZero() {
			until = append(until, t)
		}
	}
	return best(until, h.of.need, time.Time.Compare)
}

// best returns the value that so many reach, the zero value if there are fewer.
func best[T any](values []T, many int, compare func(a, b T) int) (t T) {
	if len(values) < many {
		return t
	}
	slices.SortFunc(values, func(a, b T) int { return compare(b, a) })
	return values[many-1]
}

func (h *hold) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return h.lost
	}
	// The clock says so, and the parts' contexts are about to.
	return fmt.Errorf("rlock: lock %q of owner %s: %w: too few parts of it are valid", h.of.name, h.req.Owner, engine.ErrLost)
}

// beginLocked has the lease begin now, 0 for the watchdog.
func (h *hold) beginLocked(lease time.Duration) {
	h.lease, h.until = lease, time.Time{}
	if lease > 0 {
		h.until = time.Now().Add(lease)
	}
}

func (h *hold) Relet(lease time.Duration) {
	h.mu.Lock()
	h.beginLocked(lease)
	held := slices.Clone(h.held)
	h.mu.Unlock()
	relet(held, lease)
}

// relet has the holds ask for the lease from now on, 0 for the watchdog.
func relet(holds []engine.Handle, lease time.Duration) {
	for _, h := range holds {
		h.Relet(lease)
	}
}
