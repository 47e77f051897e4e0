package engine

import (
	"context"
	"errors"
	"time"
)

// maxEvents is how many events wait at most for a hook of the Observer. It is larger than
// for the Logger: all locks of a client may be lost at once.
const maxEvents = 4000

// observing has the Observer of a client. Those of its methods that have a caller are called
// where the caller has no mutex of ours; the others, which the keeper and the wheel bring
// about, go through notices.
type observing struct {
	*Observer          // nil for none
	Notices   *notices // nil without an Observer
}

// On reports whether there is an Observer.
func (o *observing) On() bool { return o.Observer != nil }

// LostNow tells of a loss in the goroutine of the caller.
func (o *observing) LostNow(ctx context.Context, info LostInfo) {
	if o.Lost != nil {
		o.Lost(ctx, info)
	}
}

// LostLater tells of a loss that no caller has brought about.
func (o *observing) LostLater(ctx context.Context, info LostInfo) {
	if o.Lost != nil {
		o.Notices.Tell(func() { o.Lost(ctx, info) })
	}
}

// close waits for the events that are still to be told.
func (o *observing) close() {
	if o.On() {
		o.Notices.close()
		o.Closed()
	}
}

// infoOf says which lock a request is for.
func (c *Client) infoOf(n *Name, owner Owner, shared bool) LockInfo {
	return LockInfo{Name: n.Key, Kind: n.kindOf(shared), Owner: owner}
}

// Watches reports whether the Observer is told of the request: not if it is for a part of
// a lock that is observed as a whole.
func (c *Client) Watches(req *Request) bool { return c.Observer.On() && req.Whole == nil }

// tellAcquired is called without the mutex, as all that tell.
func (c *Client) tellAcquired(ctx context.Context, n *Name, req *Request, way Way, waited time.Duration, contended bool) {
	c.Observer.Acquired(ctx, AcquiredInfo{c.infoOf(n, req.Owner, req.shared), way, waited, contended})
}

// refused returns the error of a call that has not waited, and tells of it.
func (c *Client) refused(ctx context.Context, n *Name, req *Request, err error) error {
	if c.Watches(req) {
		c.tellGaveUp(ctx, n, req, err, 0, false)
	}
	return err
}

func (c *Client) tellGaveUp(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) {
	c.Observer.GaveUp(ctx, GaveUpInfo{c.infoOf(n, req.Owner, req.shared), err, waited, contended})
}

// A closedLevel is what is known of a level that was given back.
type closedLevel struct {
	since time.Duration // from the client's start
	way   Way
}

// tellReleased tells of an Unlock, which was called at now and returns err.
func (c *Client) tellReleased(ctx context.Context, n *Name, o Owner, shared bool, l closedLevel, now time.Time, err error) {
	info, held := c.infoOf(n, o, shared), now.Sub(c.start)-l.since
	if errors.Is(err, ErrLost) {
		c.Observer.LostNow(ctx, LostInfo{info, l.way, held, LostKeyGone, err})
		return
	}
	c.Observer.Released(ctx, ReleasedInfo{LockInfo: info, Way: l.way, Held: held, Err: err})
}

func (c *Client) tellDetached(ctx context.Context, h *hold, l closedLevel, now time.Time) {
	info := c.infoOf(h.name, h.owner, h.shared)
	c.Observer.Released(ctx, ReleasedInfo{LockInfo: info, Way: l.way, Held: now.Sub(c.start) - l.since, Detached: true})
}

// tell tells of the levels that ended. Of one that was lost the keeper must not wait for
// the hook; one that Close has released is told by Close.
func (e ending) tell() {
	c := e.room.client
	if !c.Observer.On() {
		return
	}
	for _, l := range e.levels {
		if l.way == ByNesting || l.hold != nil && l.hold.whole != nil {
			continue
		}
		ctx := context.Background()
		if l.hold != nil {
			ctx = context.WithoutCancel(l.hold.ctx)
		}
		info, held := c.infoOf(e.room.name, l.Owner, l.shared), e.at.Sub(c.start)-l.since
		if e.why == nil {
			c.Observer.Released(ctx, ReleasedInfo{LockInfo: info, Way: l.way, Held: held, Err: errClosed(e.room.name, l.Owner)})
			continue
		}
		lost := LostInfo{info, l.way, held, l.lossReason(e.why), errLost(e.room.name, l.Owner, e.why)}
		c.Observer.LostLater(ctx, lost)
	}
}

// lossReason says why the level was lost.
func (l *Level) lossReason(why error) LossReason {
	switch {
	case errors.Is(why, errGone):
		return LostKeyGone
	case errors.Is(why, errForced):
		return LostForced
	case errors.Is(why, ErrLeaseEnded) && !l.Kept():
		return LostLeaseEnded
	}
	return LostUnrenewed
}

// add counts one of a batch, before its answer is dealt with. The mutex is held.
func (i *RenewedInfo) add(s *sent, now time.Time) {
	if s.phase != held {
		return
	}
	i.Locks++
	if s.err != nil || s.reply == 0 && s.tenure.phase == held { // else it was released meanwhile
		i.Failed++
	}
	if s.err != nil {
		i.Err = s.err
	}
	t := s.tenure
	if _, bounded := t.asked(); bounded || s.claimed || t.phase != held {
		return
	}
	i.Kept++
	i.Margin = min(i.Margin, t.trust.Until().Sub(now))
}

// tellRenewed tells of a batch that had any renewals. The keeper does not wait.
func (c *Client) tellRenewed(i RenewedInfo) {
	if c.Observer.On() && c.Observer.Renewed != nil && i.Locks > 0 {
		c.Observer.Notices.Tell(func() { c.Observer.Renewed(i) })
	}
}
