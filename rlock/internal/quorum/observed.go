package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// How the Observer is told of a lock that is made of others: as of one lock.

// info says which lock it is.
func (c *compound) info(o engine.Owner) engine.LockInfo {
	return engine.LockInfo{Name: c.name, Kind: c.kind, Owner: o}
}

// observed is obtain beside an Observer. Whether the owner nests is asked before, since
// the parts are acquired in many ways. How long the lock is waited for at each of them is
// their matter: a call that may have to wait counts as one that does.
func (c *compound) observed(ctx, parent context.Context, req engine.Request) (engine.Handle, error) {
	began, o, info := time.Now(), &c.home.Observer, c.info(req.Owner)
	req.Way = engine.ByParts
	if c.Depth(req.Owner) > 0 {
		req.Way = engine.ByNesting
	}
	waits := req.Wait > 0 && req.Way != engine.ByNesting
	if waits {
		o.Waiting(ctx, info)
	}
	h, err := c.obtain(ctx, parent, req)
	e := engine.Event{LockInfo: info, Way: req.Way, Err: err, Waited: time.Since(began), Contended: waits}
	if err != nil {
		o.GaveUp(ctx, e)
		return nil, err
	}
	if req.Way == engine.ByNesting {
		e.Waited = 0
	}
	o.Acquired(ctx, e)
	return h, nil
}

// observes reports whether the Observer is told of the whole.
func (h *hold) observes() bool { return h.of.home.Observer.On() && h.whole == nil }

// tellReleased tells of the whole's Release. It is called without a mutex.
func (h *hold) tellReleased(ctx context.Context, held time.Duration, err error) {
	if !h.observes() {
		return
	}
	o, e := &h.of.home.Observer, engine.Event{LockInfo: h.of.info(h.owner), Way: h.way, Held: held, Err: err}
	if errors.Is(err, engine.ErrLost) {
		e.Reason = engine.LostParts
		o.LostNow(ctx, e)
	} else {
		o.Released(ctx, e)
	}
}

// tellLost tells that too few parts are left, as why says of the last to go.
func (h *hold) tellLost(since time.Time, why, cause error) {
	if !h.observes() || h.way == engine.ByNesting {
		return
	}
	o, ctx := &h.of.home.Observer, context.WithoutCancel(h.ctx)
	e := engine.Event{LockInfo: h.of.info(h.owner), Way: h.way, Held: time.Since(since), Err: cause, Reason: engine.LostParts}
	switch {
	case errors.Is(why, wire.ErrClosed):
		o.Notices.Tell(func() { o.Released(ctx, e) })
		return
	case errors.Is(why, engine.ErrLeaseEnded):
		e.Reason = engine.LostLeaseEnded
	}
	o.LostLater(ctx, e)
}

// watchWait has a call for a lock over several told as a long wait, unless it is ended
// before.
func (c *compound) watchWait(req engine.Request, place *engine.Place) (end func()) {
	limit := c.home.Config.LongWait
	if limit <= 0 || req.Whole != nil {
		return func() {}
	}
	timer := time.AfterFunc(limit, func() {
		c.home.Config.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", c.name, "kind", c.kind,
			"owner", req.Owner, "waited", limit, "place", place.Known().String())
	})
	return func() { timer.Stop() }
}
