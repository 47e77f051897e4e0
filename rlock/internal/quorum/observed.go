package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// How the Observer is told of a lock that is made of others: as of one lock.

// event returns one about the lock.
func (c *compound) event(o engine.Owner) engine.Event {
	return engine.Event{Name: c.name, Kind: c.kind, Owner: o}
}

// observed is obtain beside an Observer. Whether the owner nests is asked before, since
// the parts are acquired in many ways. How long the lock is waited for at each of them is
// their matter: a call that may have to wait counts as one that does.
func (c *compound) observed(ctx, parent context.Context, req engine.Request) (engine.Handle, error) {
	began, o, e := time.Now(), &c.home.Observer, c.event(req.Owner)
	req.Way = engine.ByParts
	if c.Depth(req.Owner) > 0 {
		req.Way = engine.ByNesting
	}
	e.Contended = req.Wait > 0 && req.Way != engine.ByNesting
	if e.Contended {
		o.Waiting.Tell(ctx, e)
	}
	h, err := c.obtain(ctx, parent, req)
	e.Way, e.Err, e.Waited = req.Way, err, time.Since(began)
	if err != nil {
		o.GaveUp.Tell(ctx, e)
		return nil, err
	}
	if req.Way == engine.ByNesting {
		e.Waited = 0
	}
	o.Acquired.Tell(ctx, e)
	return h, nil
}

// observes reports whether the Observer is told of the whole.
func (h *hold) observes() bool { return h.of.home.Observer.On() && h.Whole == nil }

// tellReleased tells of the whole's Release. It is called without a mutex.
func (h *hold) tellReleased(ctx context.Context, held time.Duration, err error) {
	if h.observes() {
		h.of.home.Observer.TellReleased(ctx, h.event(held, err), engine.LostParts)
	}
}

func (h *hold) event(held time.Duration, err error) engine.Event {
	e := h.of.event(h.req.Owner)
	e.Way, e.Held, e.Err = h.req.Way, held, err
	return e
}

// tellLost tells that too few parts are left, as why says of the last to go.
func (h *hold) tellLost(since time.Time, why, cause error) {
	if !h.observes() || h.req.Way == engine.ByNesting {
		return
	}
	o, ctx := &h.of.home.Observer, context.WithoutCancel(h.Context())
	e := h.event(time.Since(since), cause)
	if errors.Is(why, wire.ErrClosed) {
		o.Later(ctx, o.Released, e)
		return
	}
	e.Reason = engine.LostParts
	if errors.Is(why, engine.ErrLeaseEnded) {
		e.Reason = engine.LostLeaseEnded
	}
	o.Later(ctx, o.Lost, e)
}

// watchWait has a call for a lock over several told as a long wait, unless it is ended
// before.
func (c *compound) watchWait(req engine.Request, place *engine.Place) (end func()) {
	limit := c.home.Config.LongWait
	if limit <= 0 || req.Wait <= limit || req.Whole != nil {
		return func() {}
	}
	timer := time.AfterFunc(limit, func() {
		c.home.Config.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", c.name, "kind", c.kind,
			"owner", req.Owner, "waited", limit, "place", place.Known().String())
	})
	return func() { timer.Stop() }
}
