package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Pass implements [Handle]. A pass that Redis does not confirm is released.
func (h *hold) Pass(ctx context.Context, within time.Duration) (string, error) {
	n, c := h.lock.Name, h.lock.driver
	if err := c.checkPass(n, within); err != nil {
		return "", err
	}
	l, now := h.enter()
	if l == nil {
		return "", h.Err()
	}
	was, t, result := l.Pass(core.OwnerID(h.owner.ID), h.lock.mode(), h, core.Span(within), now)
	var err error
	switch result {
	case core.NotAlone:
		err = fmt.Errorf("rlock: lock %q: %w: this process holds it %d times", n.Key, terms.ErrPass, len(l.Levels()))
	case core.NothingHeld:
		err = terms.ErrNotHeld
	case core.HasParted:
	default:
		panic("driver: a pass ends as " + result.String())
	}
	if err != nil {
		l.shard.exit(l)
		return "", err
	}
	h.released, h.lost = true, fmt.Errorf("rlock: lock %q: %w", n.Key, terms.ErrPassed)
	l.shard.counts.Closed(was.First)
	pass := Pass{Kind: n.KindID, Shared: h.lock.Shared, Permits: n.Permits, Token: h.token, Owner: c.textOf(t.ID, 0, t.More()), Key: n.Key}
	w := l.releases(t, now)
	l.shard.exit(l)
	h.End(h.lost) // before another can have it
	err = l.release(w, t.ID, h.owner, l.again())
	if c.Observer.On() {
		e := c.closedLevel(n, &was, now, err)
		e.Passed = err == nil
		c.Observer.TellReleased(ctx, e, terms.LostKeyGone)
	}
	if err != nil {
		return "", fmt.Errorf("rlock: lock %q: it was not passed on, and is given up: %w", n.Key, err)
	}
	return pass.String(), nil
}

// Resume takes the lock that was passed on, with a handle whose context is made from parent.
func (l *Lock) Resume(ctx, parent context.Context, req Request, pass *Pass) (Handle, error) {
	h := l.newHold(parent, &req)
	if err := l.driver.resume(ctx, l.Name, &req, h, pass); err != nil {
		h.End(err)
		return nil, err
	}
	return h, nil
}

func (c *Client) resume(ctx context.Context, n *Name, req *Request, h *hold, pass *Pass) error {
	ctx = c.witness.watched(ctx)
	if err := c.check(ctx, n, req); err != nil {
		return c.gaveUp(ctx, n, req, err, 0, false)
	}
	site := c.Site()
	l, now := c.enter(n, core.OwnerID(req.Owner.ID))
	if err := l.refuses(req, now); err != nil {
		return l.giveUp(ctx, req, err)
	}
	var first core.Call
	l.asks(&first, req, h, site)
	l.asksMore(&first, req, now)
	first.Named, first.Inherits = c.idOf(pass.Owner), pass.Token
	_, first.More = wire.CutMore(pass.Owner)
	w := c.newCall(&first)
	w.req, w.hold, w.site, w.passed = *req, h, site, pass.Owner
	l.Resume(&w.Call, now)
	return l.wait(ctx, w, now)
}
