package rlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A compoundHold is the handle of a lock made of several: a hold of each, in the name of
// one owner. It is valid as long as enough of them are, each judged by the clock and
// by its own client. Once fewer are the whole is lost, and what is left is released,
// since it protects nothing.
//
// Nothing runs while it is held: a part that ends by loss tells the whole.
type compoundHold struct {
	of     *compound
	owner  Owner
	ctx    context.Context
	cancel context.CancelCauseFunc
	at     *Place        // where it was acquired, nil if that is not recorded
	way    Way           // how the Observer was told that it was acquired
	long   atomic.Bool   // it was told that it is held for a long time
	asked  time.Duration // the lease that the parts were asked for with
	leave  func()        // ends what is still being asked for

	whole  whole       // that it is taken for itself, and that tells of its loss; nil for none
	joined atomic.Bool // it is a part of the whole

	mu    sync.Mutex    // protects following; a shard's mutex may be taken under it
	lease time.Duration // 0: kept by the watchdog
	until time.Time     // the end of the lease; zero: kept by the watchdog
	since time.Time     // when the first parts joined
	held  []handle
	over  bool  // released or lost: no part may join
	lost  error // why it was lost, until its release has told it
}

var (
	_ handle = (*compoundHold)(nil)
	_ whole  = (*compoundHold)(nil)
)

func (p *compoundHold) title() string { return p.of.name }

func (p *compoundHold) kind() Kind { return p.of.kind }

func (p *compoundHold) place() *Place { return p.at }

func (p *compoundHold) tellsLong() bool { return !p.long.Swap(true) }

func (p *compoundHold) context() context.Context { return p.ctx }

func (p *compoundHold) end(cause error) { p.cancel(cause) }

func (p *compoundHold) join() { p.joined.Store(true) }

func (p *compoundHold) fencingToken() uint64 { return 0 }

func (p *compoundHold) detach(context.Context) error {
	return fmt.Errorf("rlock: lock %q: %w: it is made of several locks", p.of.name, ErrDetach)
}

// takePart acquires one of the parts, in the name of the owner. The time to wait for a lock
// is not the time to hold it.
func (p *compoundHold) takePart(ctx context.Context, part form, req request) (handle, error) {
	req.owner, req.whole = p.owner, p
	return part.hold(ctx, context.WithoutCancel(ctx), req)
}

// add has holds join the whole. It reports false if the whole is over: they are then
// the caller's to release.
func (p *compoundHold) add(holds ...handle) bool {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return false
	}
	if len(p.held) == 0 {
		p.beginLocked(p.lease)
		p.since = time.Now()
	}
	p.held = append(p.held, holds...)
	lease := p.lease
	p.mu.Unlock()
	for _, h := range holds {
		if lease != p.asked { // it was changed meanwhile
			h.relet(lease)
		}
		h.join()
		if h.context().Err() != nil { // it ended before it could tell
			p.ended(h)
		}
	}
	return true
}

// lose ends the context of a whole that was lost, and tells the whole that it is a part of
// itself.
func (p *compoundHold) lose(cause error) {
	p.cancel(cause)
	if p.joined.Load() {
		p.whole.ended(p)
	}
}

// ended takes a part away that was lost, and ends the whole if too few are left. It
// waits for nothing. The second call for a part changes nothing.
func (p *compoundHold) ended(h handle) {
	p.mu.Lock()
	i := slices.Index(p.held, h)
	if p.over || i < 0 {
		p.mu.Unlock()
		return
	}
	p.held = slices.Delete(p.held, i, i+1)
	why := h.disclaim() // the whole tells of the loss
	c, o := p.of, p.owner
	if len(p.held) >= c.need {
		p.mu.Unlock()
		return
	}
	cause := fmt.Errorf("rlock: lock %q of owner %s: %d of %d parts are left, and it takes %d: %w",
		c.name, o, len(p.held), len(c.parts), c.need, why)
	lost := level{owner: o, until: p.until}
	if !lost.kept() && errors.Is(why, errOver) {
		lost.until = time.Now()
	}
	if p.whole == nil && !o.ofHandle() { // else the handle remembers, or the whole does
		c.home.losses.add(c.key(o), lost, cause)
	}
	left := p.endLocked(cause)
	since := p.since
	p.mu.Unlock()

	c.home.taken.forget(c.key(o), p)
	p.lose(cause)
	p.tellLost(since, why, cause)
	p.leave()
	go func() { _ = letGo(left, len(left)) }()
}

func (p *compoundHold) disclaim() error { return p.unlock(p.ctx) }

// endLocked ends the whole, and returns the holds that it had.
func (p *compoundHold) endLocked(cause error) []handle {
	holds := p.held
	p.held, p.over, p.lost = nil, true, cause
	return holds
}

// unlock gives the parts back. It returns when enough of them are confirmed.
func (p *compoundHold) unlock(ctx context.Context) error {
	c, o := p.of, p.owner
	p.mu.Lock()
	if p.over {
		cause := p.lost
		p.lost = nil
		p.mu.Unlock()
		if cause == nil {
			return fmt.Errorf("rlock: unlock %q: owner %s: %w", c.name, o, ErrNotHeld)
		}
		if p.whole == nil {
			c.home.losses.unlock(c.key(o), false)
		}
		return cause
	}
	holds := p.endLocked(nil)
	since, now := p.since, time.Now()
	p.mu.Unlock()
	p.leave()
	err := letGo(holds, c.need)
	p.tellReleased(ctx, now.Sub(since), err)
	return err
}

// letGo releases the holds, all at once. It returns nil as soon as so many of them are
// confirmed, and else the errors of all.
func letGo(holds []handle, enough int) error {
	results := make(chan error, len(holds))
	for _, h := range holds {
		go func() { results <- release(h.context(), h) }()
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
func giveBack(ctx context.Context, holds []handle) {
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

// validUntil is when too few of the parts will be valid, as far as is confirmed by
// now; the zero time if the whole is over.
func (p *compoundHold) validUntil() time.Time {
	p.mu.Lock()
	held := slices.Clone(p.held)
	p.mu.Unlock()
	until := make([]time.Time, 0, len(held))
	for _, h := range held {
		if t := h.validUntil(); !t.IsZero() {
			until = append(until, t)
		}
	}
	return best(until, p.of.need, time.Time.Compare)
}

// best returns the value that so many reach, the zero value if there are fewer.
func best[T any](values []T, many int, compare func(a, b T) int) (t T) {
	if len(values) < many {
		return t
	}
	slices.SortFunc(values, func(a, b T) int { return compare(b, a) })
	return values[many-1]
}

func (p *compoundHold) cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return p.lost
	}
	// The clock says so, and the parts' contexts are about to.
	return fmt.Errorf("rlock: lock %q of owner %s: %w: too few parts of it are valid", p.of.name, p.owner, ErrLost)
}

// beginLocked has the lease begin now, 0 for the watchdog.
func (p *compoundHold) beginLocked(lease time.Duration) {
	p.lease, p.until = lease, time.Time{}
	if lease > 0 {
		p.until = time.Now().Add(lease)
	}
}

func (p *compoundHold) relet(lease time.Duration) {
	p.mu.Lock()
	p.beginLocked(lease)
	held := slices.Clone(p.held)
	p.mu.Unlock()
	for _, h := range held {
		h.relet(lease)
	}
}
