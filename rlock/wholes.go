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
func (c *compound) observed(ctx, parent context.Context, req request) (*Hold, error) {
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
func (p *parts) observes() bool { return p.of.home.observer.on() && !p.whole.part }

// tellReleased tells of the whole's Release. It is called without a mutex.
func (p *parts) tellReleased(ctx context.Context, held time.Duration, err error) {
	if !p.observes() {
		return
	}
	o, info := &p.of.home.observer, p.of.info(p.whole.owner)
	if errors.Is(err, ErrLost) {
		o.lost(ctx, LostInfo{info, p.way, held, LostParts, err})
		return
	}
	o.released(ctx, ReleasedInfo{LockInfo: info, Way: p.way, Held: held, Err: err})
}

// tellLost tells that too few parts are left, as why says of the last to go.
func (p *parts) tellLost(since time.Time, why, cause error) {
	if !p.observes() || p.way == ByNesting {
		return
	}
	o, info, held := &p.of.home.observer, p.of.info(p.whole.owner), time.Since(since)
	ctx := context.WithoutCancel(p.whole.ctx)
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
