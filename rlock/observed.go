package rlock

import (
	"context"
	"errors"
	"time"
)

// How the Observer is told of a lock that is made of others: as of one lock.

// info says which lock it is.
func (c *compound) info(o Owner) LockInfo {
	return LockInfo{Client: c.home, Name: c.name, Kind: c.kind, Owner: o}
}

// observed is obtain beside an Observer. Whether the owner nests is asked before, since
// the parts are acquired in many ways. How long the lock is waited for at each of them is
// their matter: a call that may have to wait counts as one that does.
func (c *compound) observed(ctx, parent context.Context, req request) (handle, error) {
	began, o, info := time.Now(), &c.home.observer, c.info(req.owner)
	req.way = ByParts
	if c.depth(req.owner) > 0 {
		req.way = ByNesting
	}
	waits := req.wait > 0 && req.way != ByNesting
	if waits {
		o.waiting(ctx, info)
	}
	h, err := c.obtain(ctx, parent, req)
	waited := time.Since(began)
	switch {
	case err != nil:
		o.gaveUp(ctx, GaveUpInfo{info, err, waited, waits})
	case req.way == ByNesting:
		o.acquired(ctx, AcquiredInfo{LockInfo: info, Way: ByNesting})
	default:
		o.acquired(ctx, AcquiredInfo{info, req.way, waited, waits})
	}
	return h, err
}

// observes reports whether the Observer is told of the whole.
func (p *compoundHold) observes() bool { return p.of.home.observer.on() && p.whole == nil }

// tellReleased tells of the whole's Release. It is called without a mutex.
func (p *compoundHold) tellReleased(ctx context.Context, held time.Duration, err error) {
	if !p.observes() {
		return
	}
	o, info := &p.of.home.observer, p.of.info(p.owner)
	if errors.Is(err, ErrLost) {
		o.lost(ctx, LostInfo{info, p.way, held, LostParts, err})
		return
	}
	o.released(ctx, ReleasedInfo{LockInfo: info, Way: p.way, Held: held, Err: err})
}

// tellLost tells that too few parts are left, as why says of the last to go.
func (p *compoundHold) tellLost(since time.Time, why, cause error) {
	if !p.observes() || p.way == ByNesting {
		return
	}
	o, info, held := &p.of.home.observer, p.of.info(p.owner), time.Since(since)
	ctx := context.WithoutCancel(p.ctx)
	if errors.Is(why, ErrClosed) {
		o.notices.tell(func() { o.released(ctx, ReleasedInfo{LockInfo: info, Way: p.way, Held: held, Err: cause}) })
		return
	}
	lost := LostInfo{info, p.way, held, LostParts, cause}
	if errors.Is(why, errOver) {
		lost.Reason = LostLeaseEnded
	}
	o.notices.tell(func() { o.lost(ctx, lost) })
}

// watchWait has a call for a lock over several told as a long wait, unless it is ended
// before.
func (c *compound) watchWait(req request, place *Place) (end func()) {
	limit := c.home.config.LongWait
	if limit <= 0 || req.whole != nil {
		return func() {}
	}
	timer := time.AfterFunc(limit, func() {
		c.home.config.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", c.name, "kind", c.kind,
			"owner", req.owner, "waited", limit, "place", place.known().String())
	})
	return func() { timer.Stop() }
}
