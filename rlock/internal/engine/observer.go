package engine

import (
	"context"
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

// Later has a hook told of what no caller has brought about.
func (o *observing) Later(ctx context.Context, hook Hook, e Event) {
	if hook != nil {
		o.Notices.Tell(func() { hook(ctx, e) })
	}
}

// close waits for the events that are still to be told.
func (o *observing) close() {
	if o.On() {
		o.Notices.close()
		o.Closed()
	}
}

// event returns one about the lock for an owner, or for a reader.
func (n *Name) event(o Owner, shared bool) Event {
	return Event{Name: n.Key, Kind: n.kindOf(shared), Owner: o}
}

// Watches reports whether the Observer is told of the request: not if it is for a part of
// a lock that is observed as a whole.
func (c *Client) Watches(req *Request) bool { return c.Observer.On() && req.Whole == nil }

// tellAcquired is called without the mutex, as all that tell.
func (c *Client) tellAcquired(ctx context.Context, n *Name, req *Request, waited time.Duration, contended bool) {
	if c.Watches(req) {
		e := n.event(req.Owner, req.Shared)
		e.Way, e.Waited, e.Contended = req.Way, waited, contended
		c.Observer.Acquired.Tell(ctx, e)
	}
}

// gaveUp tells of a call that has failed with err, and returns that.
func (c *Client) gaveUp(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) error {
	if c.Watches(req) {
		e := n.event(req.Owner, req.Shared)
		e.Err, e.Waited, e.Contended = err, waited, contended
		c.Observer.GaveUp.Tell(ctx, e)
	}
	return err
}

// closedLevel is the event of a level that was closed at that time.
func (c *Client) closedLevel(n *Name, l *Level, at time.Time, err error) Event {
	e := n.event(l.Owner, l.Shared)
	e.Way, e.Held, e.Err = l.way, at.Sub(c.start)-l.since, err
	return e
}

// countRenewal counts one of a batch, before its answer is dealt with. The mutex is held.
func countRenewal(i *RenewedInfo, s *sent, now time.Time) {
	if s.phase != held {
		return
	}
	counts := &s.tenure.room.shard.counts
	i.Locks++
	counts.Renewals++
	if s.err != nil || s.reply == 0 && s.tenure.phase == held { // else it was released meanwhile
		i.Failed++
		counts.RenewalsFailed++
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
