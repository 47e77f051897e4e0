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

// parts is what a hold of several locks consists of: a hold of each, in the name of
// one owner. It is valid as long as enough of them are, each judged by the clock and
// by its own client. Once fewer are the whole is lost, and what is left is released,
// since it protects nothing.
//
// Nothing runs while it is held: a part that ends by loss tells the whole.
type parts struct {
	of    *compound
	whole *Hold
	way   Way           // how the Observer was told that it was acquired
	place *Place        // nil if that is not recorded
	long  atomic.Bool   // it was told that it is held for a long time
	asked time.Duration // the lease that the parts were asked for with
	leave func()        // ends what is still being asked for

	mu    sync.Mutex    // protects following; a shard's mutex may be taken under it
	lease time.Duration // 0: kept by the watchdog
	until time.Time     // the end of the lease; zero: kept by the watchdog
	since time.Time     // when the first parts joined
	held  []*Hold
	over  bool  // released or lost: no part may join
	cause error // why it was lost, until Release has told it
}

// join adds holds to the whole. It reports false if the whole is over: they are then
// the caller's to release.
func (p *parts) join(holds ...*Hold) bool {
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
		h.partOf.Store(p)
		if h.ctx.Err() != nil { // it ended before it could tell
			p.ended(h)
		}
	}
	return true
}

// end ends the hold's context, and tells the whole that the hold is a part of.
func (h *Hold) end(cause error) {
	h.cancel(cause)
	if p := h.partOf.Load(); p != nil {
		p.ended(h)
	}
}

// ended takes a part away that was lost, and ends the whole if too few are left. It
// waits for nothing. The second call for a part changes nothing.
func (p *parts) ended(h *Hold) {
	p.mu.Lock()
	i := slices.Index(p.held, h)
	if p.over || i < 0 {
		p.mu.Unlock()
		return
	}
	p.held = slices.Delete(p.held, i, i+1)
	why := h.disclaim() // the whole tells of the loss
	c, o := p.of, p.whole.owner
	if len(p.held) >= c.need {
		p.mu.Unlock()
		return
	}
	cause := fmt.Errorf("rlock: lock %q of owner %s: %d of %d parts are left, and it takes %d: %w",
		c.name, o, len(p.held), len(c.parts), c.need, why)
	lost := level{owner: o, hold: p.whole, until: p.until}
	if !lost.kept() && errors.Is(why, errOver) {
		lost.until = time.Now()
	}
	if lost.told() {
		c.home.losses.add(c.key(o), lost, cause)
	}
	left := p.endLocked(cause)
	since := p.since
	p.mu.Unlock()

	c.home.taken.forget(c.key(o), p.whole)
	p.whole.end(cause)
	p.tellLost(since, why, cause)
	p.leave()
	go func() { _ = letGo(left, len(left)) }()
}

// asPart is the option by which the parts of a whole are taken.
func asPart(o *acquireOptions) { o.part = true }

// disclaim releases a hold that is over already, and returns why it was.
func (h *Hold) disclaim() error {
	if h.parts != nil {
		return h.parts.release(h.ctx)
	}
	return h.client.notHeld(h.name, h.owner, h.shared, h)
}

// endLocked ends the whole, and returns the holds that it had.
func (p *parts) endLocked(cause error) []*Hold {
	holds := p.held
	p.held, p.over, p.cause = nil, true, cause
	return holds
}

// release gives the parts back. It returns when enough of them are confirmed.
func (p *parts) release(ctx context.Context) error {
	c, o := p.of, p.whole.owner
	p.mu.Lock()
	if p.over {
		cause := p.cause
		p.cause = nil
		p.mu.Unlock()
		if cause == nil {
			return fmt.Errorf("rlock: unlock %q: owner %s: %w", c.name, o, ErrNotHeld)
		}
		if !p.whole.part {
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
func letGo(holds []*Hold, enough int) error {
	results := make(chan error, len(holds))
	for _, h := range holds {
		go func() { results <- h.Release(h.ctx) }()
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
func giveBack(ctx context.Context, holds []*Hold) {
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
func (p *parts) validUntil() time.Time {
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

// why returns why the whole is over, nil if it was released.
func (p *parts) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return p.cause
	}
	// The clock says so, and the parts' contexts are about to.
	return fmt.Errorf("rlock: lock %q of owner %s: %w: too few parts of it are valid", p.of.name, p.whole.owner, ErrLost)
}

// relet has the hold ask for the lease from now on, 0 for the watchdog, in place of
// what it asked for before. It needs no network, and changes nothing of a hold that
// is over.
func (h *Hold) relet(lease time.Duration) {
	if h.parts != nil {
		h.parts.relet(lease)
		return
	}
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

// beginLocked has the lease begin now, 0 for the watchdog.
func (p *parts) beginLocked(lease time.Duration) {
	p.lease, p.until = lease, time.Time{}
	if lease > 0 {
		p.until = time.Now().Add(lease)
	}
}

func (p *parts) relet(lease time.Duration) {
	p.mu.Lock()
	p.beginLocked(lease)
	held := slices.Clone(p.held)
	p.mu.Unlock()
	for _, h := range held {
		h.relet(lease)
	}
}

// taken has the holds of compound locks that were taken without a handle, by owner: the
// innermost last.
type taken struct {
	mu    sync.Mutex // protects following
	holds map[lossKey][]*Hold
}

func (t *taken) push(key lossKey, h *Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds == nil {
		t.holds = make(map[lossKey][]*Hold)
	}
	t.holds[key] = append(t.holds[key], h)
}

// pop returns the innermost hold, nil if there is none.
func (t *taken) pop(key lossKey) *Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	holds := t.holds[key]
	if len(holds) == 0 {
		return nil
	}
	h := holds[len(holds)-1]
	t.keepLocked(key, slices.Delete(holds, len(holds)-1, len(holds)))
	return h
}

// forget drops a hold that was lost: the losses remember it.
func (t *taken) forget(key lossKey, h *Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keepLocked(key, slices.DeleteFunc(t.holds[key], func(held *Hold) bool { return held == h }))
}

func (t *taken) keepLocked(key lossKey, holds []*Hold) {
	if len(holds) == 0 {
		delete(t.holds, key)
		return
	}
	t.holds[key] = holds
}
