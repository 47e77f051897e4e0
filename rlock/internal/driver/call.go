package driver

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// acquire acquires the lock n for req, with the handle h if it is not nil. It returns nil when the caller holds the lock;
// otherwise nothing is held that the caller would have to release.
func (c *Client) acquire(ctx context.Context, n *Name, req *Request, h *hold) error {
	w, l, now, err := c.begin(ctx, n, req, h)
	if w == nil {
		return err
	}
	l.hear(w, now)
	if req.Progress != nil {
		l.watch(w)
	}
	l.Wait(&w.Call, now)
	if l.Owner() != nil {
		l.tellOwnWait(w, now)
	}
	return l.wait(ctx, w, now)
}

// begin begins a call. It returns the call if that has to wait, with the mutex held; else the call has ended, with that
// result.
func (c *Client) begin(ctx context.Context, n *Name, req *Request, h *hold) (*waiter, *lock, core.Now, error) {
	ctx = c.witness.watched(ctx)
	if err := c.check(ctx, n, req); err != nil {
		return nil, nil, core.Now{}, c.gaveUp(ctx, n, req, err, 0, false)
	}
	site := c.Site()
	l, now := c.enter(n, core.OwnerID(req.Owner.ID))
	// A guest of a hold of this lock nests in that at once. Parts, of which the hold may lack some, leave it to their whole.
	if req.Within != nil && req.Whole == nil && !l.isLife(req.Within, now) {
		l.shard.exit(l)
		return nil, nil, now, fmt.Errorf("rlock: lock %q: %w", n.Key, terms.ErrOutlived)
	}
	var w core.Call // of a call that is served at once: it needs no memory that lasts
	l.asks(&w, req, h, site)
	if !l.Nest(&w, now) {
		l.shard.applyAll() // losses so far are recorded
		if err := l.refuses(req, now); err != nil {
			return nil, nil, now, l.giveUp(ctx, req, err)
		}
		l.asksMore(&w, req, now)
		switch outcome := l.AtOnce(&w, now); outcome {
		case core.Acquired:
		case core.Waiting:
			waits := c.newCall(&w)
			waits.req, waits.hold, waits.site = *req, h, site
			return waits, l, now, nil
		case core.Closed, core.Upgrades, core.Denied, core.Full, core.Unanswered:
			return nil, nil, now, l.refused(ctx, outcome, w.Others, req, h)
		default:
			panic("driver: a call that does not wait ends as " + outcome.String())
		}
	}
	earlier := l.granted(&w, req, h)
	l.shard.exit(l)
	c.returns(n, w.Owner, &earlier)
	c.tellAcquired(ctx, n, req, 0, false)
	return nil, nil, now, nil
}

// asks fills in what each call asks for, and asksMore the rest, for one that does not nest.
func (l *lock) asks(w *core.Call, req *Request, h *hold, site *terms.Site) {
	w.Owner, w.Mode, w.Lease, w.Part = core.OwnerID(req.Owner.ID), modeOf(req.Shared), core.Span(req.Lease), req.Whole != nil
	w.Capped, w.More = req.Capped, int32(req.More)
	w.Guest, w.Handle = req.Owner.Guest, handleOf(req.Owner, h)
	if site != nil {
		w.Info = site
	}
}

func (l *lock) asksMore(w *core.Call, req *Request, now core.Now) {
	w.Waits, w.Until = req.Wait > 0, core.Never
	w.Answers, w.Most = req.Answer != nil, req.Most
	w.Repeats = req.Owner.IsNamed()
	if req.Wait < terms.Forever {
		w.Until = now.Time.After(core.Span(max(req.Wait, 0)))
	}
}

// wait waits until the call has an outcome, and returns it. It is called with the mutex held, and gives it back.
func (l *lock) wait(ctx context.Context, w *waiter, now core.Now) error {
	if c, n := l.shard.client, l.name; l.run(ctx, w, now) {
		return c.finished(ctx, n, w)
	}
	return l.ended(ctx, w)
}

// refuses returns why the request of a caller that does not hold the lock is refused,
// regardless of the holder.
func (l *lock) refuses(req *Request, now core.Now) error {
	c := l.shard.client
	if c.Closed.Load() {
		return fmt.Errorf("rlock: lock %q: %w", l.name.Key, wire.ErrClosed)
	}
	if c.Losses.None() {
		return nil
	}
	if cause := c.Losses.Blocks(l.name.lossKey(req.Owner), c.clock.time(now.Time)); cause != nil {
		return fmt.Errorf("rlock: nested lock %q: unlock the lost lock first: %w", l.name.Key, cause)
	}
	return nil
}
