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
	waited := time.Since(began)
	switch {
	case err != nil:
		o.GaveUp(ctx, engine.GaveUpInfo{LockInfo: info, Err: err, Waited: waited, Contended: waits})
	case req.Way == engine.ByNesting:
		o.Acquired(ctx, engine.AcquiredInfo{LockInfo: info, Way: engine.ByNesting})
	default:
		o.Acquired(ctx, engine.AcquiredInfo{LockInfo: info, Way: req.Way, Waited: waited, Contended: waits})
	}
	return h, err
}

// observes reports whether the Observer is told of the whole.
func (h *hold) observes() bool { return h.of.home.Observer.On() && h.whole == nil }

// tellReleased tells of the whole's Release. It is called without a mutex.
func (h *hold) tellReleased(ctx context.Context, held time.Duration, err error) {
	if !h.observes() {
		return
	}
	o, info := &h.of.home.Observer, h.of.info(h.owner)
	if errors.Is(err, engine.ErrLost) {
		o.LostNow(ctx, engine.LostInfo{LockInfo: info, Way: h.way, Held: held, Reason: engine.LostParts, Err: err})
		return
	}
	o.Released(ctx, engine.ReleasedInfo{LockInfo: info, Way: h.way, Held: held, Err: err})
}

// tellLost tells that too few parts are left, as why says of the last to go.
func (h *hold) tellLost(since time.Time, why, cause error) {
	if !h.observes() || h.way == engine.ByNesting {
		return
	}
	o, info, held := &h.of.home.Observer, h.of.info(h.owner), time.Since(since)
	ctx := context.WithoutCancel(h.ctx)
	if errors.Is(why, wire.ErrClosed) {
		o.Notices.Tell(func() { o.Released(ctx, engine.ReleasedInfo{LockInfo: info, Way: h.way, Held: held, Err: cause}) })
		return
	}
	lost := engine.LostInfo{LockInfo: info, Way: h.way, Held: held, Reason: engine.LostParts, Err: cause}
	if errors.Is(why, engine.ErrLeaseEnded) {
		lost.Reason = engine.LostLeaseEnded
	}
	o.LostLater(ctx, lost)
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
