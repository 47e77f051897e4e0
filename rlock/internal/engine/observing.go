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
func (o *observing) LostNow(ctx context.Context, e Event) {
	if o.Lost != nil {
		o.Lost(ctx, e)
	}
}

// LostLater tells of a loss that no caller has brought about.
func (o *observing) LostLater(ctx context.Context, e Event) {
	if o.Lost != nil {
		o.Notices.Tell(func() { o.Lost(ctx, e) })
	}
}

// close waits for the events that are still to be told.
func (o *observing) close() {
	if o.On() {
		o.Notices.close()
		o.Closed()
	}
}

// info says which lock it is for an owner, or for a reader.
func (n *Name) info(o Owner, shared bool) LockInfo {
	return LockInfo{Name: n.Key, Kind: n.kindOf(shared), Owner: o}
}

// Watches reports whether the Observer is told of the request: not if it is for a part of
// a lock that is observed as a whole.
func (c *Client) Watches(req *Request) bool { return c.Observer.On() && req.Whole == nil }

// tellAcquired is called without the mutex, as all that tell.
func (c *Client) tellAcquired(ctx context.Context, n *Name, req *Request, way Way, waited time.Duration, contended bool) {
	c.Observer.Acquired(ctx, Event{LockInfo: n.info(req.Owner, req.shared), Way: way, Waited: waited, Contended: contended})
}

// gaveUp tells of a call that has failed with err, and returns that.
func (c *Client) gaveUp(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) error {
	if c.Watches(req) {
		c.Observer.GaveUp(ctx, Event{LockInfo: n.info(req.Owner, req.shared), Err: err, Waited: waited, Contended: contended})
	}
	return err
}

// closedLevel is the event of a level that was closed at that time.
func (c *Client) closedLevel(n *Name, l *Level, at time.Time, err error) Event {
	return Event{LockInfo: n.info(l.Owner, l.shared), Way: l.way, Held: at.Sub(c.start) - l.since, Err: err}
}

// tellReleased tells of an Unlock.
func (c *Client) tellReleased(ctx context.Context, e Event) {
	if errors.Is(e.Err, ErrLost) {
		e.Reason = LostKeyGone
		c.Observer.LostNow(ctx, e)
	} else {
		c.Observer.Released(ctx, e)
	}
}

// tell tells of the levels that ended. Of one that was lost the keeper must not wait for
// the hook; one that Close has released is told by Close.
func (e ending) tell() {
	c, n := e.room.client, e.room.name
	if !c.Observer.On() {
		return
	}
	for i := range e.levels {
		l := &e.levels[i]
		if l.way == ByNesting || l.hold.isPart() {
			continue
		}
		ctx := context.Background()
		if l.hold != nil {
			ctx = context.WithoutCancel(l.hold.ctx)
		}
		if e.why == nil {
			c.Observer.Released(ctx, c.closedLevel(n, l, e.at, errClosed(n, l.Owner)))
			continue
		}
		lost := c.closedLevel(n, l, e.at, errLost(n, l.Owner, e.why))
		lost.Reason = l.lossReason(e.why)
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
	if t.bounded() || s.claimed || t.phase != held {
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
