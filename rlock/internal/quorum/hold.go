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

// A hold is the handle of a lock made of several: a hold of each, in the name of
// one owner. It is valid as long as enough of them are, each judged by the clock and
// by its own client. Once fewer are the whole is lost, and what is left is released,
// since it protects nothing.
//
// Nothing runs while it is held: a part that ends by loss tells the whole.
type hold struct {
	of     *compound
	owner  engine.Owner
	ctx    context.Context
	cancel context.CancelCauseFunc
	at     *engine.Place // where it was acquired, nil if that is not recorded
	way    engine.Way    // how the Observer was told that it was acquired
	long   atomic.Bool   // it was told that it is held for a long time
	asked  time.Duration // the lease that the parts were asked for with
	leave  func()        // ends what is still being asked for

	whole  engine.Whole // that it is taken for itself, and that tells of its loss; nil for none
	joined atomic.Bool  // it is a part of the whole

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
func (p *hold) Title() string { return p.of.name }

func (p *hold) Kind() engine.Kind { return p.of.kind }

func (p *hold) Place() *engine.Place { return p.at }

func (p *hold) TellsLong() bool { return !p.long.Swap(true) }

func (p *hold) Context() context.Context { return p.ctx }

func (p *hold) End(cause error) { p.cancel(cause) }

func (p *hold) Join() { p.joined.Store(true) }

func (p *hold) FencingToken() uint64 { return 0 }

func (p *hold) Detach(context.Context) error {
	return fmt.Errorf("rlock: lock %q: %w: it is made of several locks", p.of.name, engine.ErrDetach)
}

// takePart acquires one of the parts, in the name of the owner. The time to wait for a lock
// is not the time to hold it.
func (p *hold) takePart(ctx context.Context, part engine.Form, req engine.Request) (engine.Handle, error) {
	req.Owner, req.Whole = p.owner, p
	return part.Hold(ctx, context.WithoutCancel(ctx), req)
}

// add has holds join the whole. It reports false if the whole is over: they are then
// the caller's to release.
func (p *hold) add(holds ...engine.Handle) bool {
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
			h.Relet(lease)
		}
		h.Join()
		if h.Context().Err() != nil { // it ended before it could tell
			p.Ended(h)
		}
	}
	return true
}

// lose ends the context of a whole that was lost, and tells the whole that it is a part of
// itself.
func (p *hold) lose(cause error) {
	p.cancel(cause)
	if p.joined.Load() {
		p.whole.Ended(p)
	}
}

// Ended takes a part away that was lost, and ends the whole if too few are left. It
// waits for nothing. The second call for a part changes nothing.
func (p *hold) Ended(h engine.Handle) {
	p.mu.Lock()
	i := slices.Index(p.held, h)
	if p.over || i < 0 {
		p.mu.Unlock()
		return
	}
	p.held = slices.Delete(p.held, i, i+1)
	why := h.Disclaim() // the whole tells of the loss
	c, o := p.of, p.owner
	if len(p.held) >= c.need {
		p.mu.Unlock()
		return
	}
	cause := fmt.Errorf("rlock: lock %q of owner %s: %d of %d parts are left, and it takes %d: %w",
		c.name, o, len(p.held), len(c.parts), c.need, why)
	lost := engine.Level{Owner: o, Until: p.until}
	if !lost.Kept() && errors.Is(why, engine.ErrLeaseEnded) {
		lost.Until = time.Now()
	}
	if p.whole == nil && !o.OfHandle() { // else the handle remembers, or the whole does
		c.home.Losses.Add(c.key(o), lost, cause)
	}
	left := p.endLocked(cause)
	since := p.since
	p.mu.Unlock()

	c.home.Taken.Forget(c.key(o), p)
	p.lose(cause)
	p.tellLost(since, why, cause)
	p.leave()
	go func() { _ = letGo(left, len(left)) }()
}

func (p *hold) Disclaim() error { return p.Unlock(p.ctx) }

// endLocked ends the whole, and returns the holds that it had.
func (p *hold) endLocked(cause error) []engine.Handle {
	holds := p.held
	p.held, p.over, p.lost = nil, true, cause
	return holds
}

// Unlock gives the parts back. It returns when enough of them are confirmed.
func (p *hold) Unlock(ctx context.Context) error {
	c, o := p.of, p.owner
	p.mu.Lock()
	if p.over {
		cause := p.lost
		p.lost = nil
		p.mu.Unlock()
		if cause == nil {
			return fmt.Errorf("rlock: unlock %q: owner %s: %w", c.name, o, engine.ErrNotHeld)
		}
		if p.whole == nil {
			c.home.Losses.Unlock(c.key(o), false)
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

// ValidUntil is when too few of the parts will be valid, as far as is confirmed by
// now; the zero time if the whole is over.
func (p *hold) ValidUntil() time.Time {
	p.mu.Lock()
	held := slices.Clone(p.held)
	p.mu.Unlock()
	until := make([]time.Time, 0, len(held))
	for _, h := range held {
		if t := h.ValidUntil(); !t.IsZero() {
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

func (p *hold) Cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return p.lost
	}
	// The clock says so, and the parts' contexts are about to.
	return fmt.Errorf("rlock: lock %q of owner %s: %w: too few parts of it are valid", p.of.name, p.owner, engine.ErrLost)
}

// beginLocked has the lease begin now, 0 for the watchdog.
func (p *hold) beginLocked(lease time.Duration) {
	p.lease, p.until = lease, time.Time{}
	if lease > 0 {
		p.until = time.Now().Add(lease)
	}
}

func (p *hold) Relet(lease time.Duration) {
	p.mu.Lock()
	p.beginLocked(lease)
	held := slices.Clone(p.held)
	p.mu.Unlock()
	for _, h := range held {
		h.Relet(lease)
	}
}
