package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// maxEvents is how many events wait at most for a hook of the Observer. It is larger than
// for the Logger: all locks of a client may be lost at once.
const maxEvents = 4000

// observing has the Observer of a client. Those of its methods that have a caller are called
// where the caller has no mutex of ours; the others, which the keeper and the wheel bring
// about, go through notices.
type observing struct {
	*terms.Observer          // nil for none
	Notices         *notices // nil without an Observer
}

// On reports whether there is an Observer.
func (o *observing) On() bool { return o.Observer != nil }

// Later queues the call of a hook about an event without a caller.
func (o *observing) Later(ctx context.Context, hook terms.Hook, e terms.Event) {
	if hook != nil {
		o.Notices.Tell(func() { hook(ctx, e) })
	}
}

// close waits for the events that must still be reported.
func (o *observing) close() {
	if o.On() {
		o.Notices.close()
		o.Closed()
	}
}

// Event returns an event about the lock for an owner.
func (n *Name) Event(o terms.Owner, shared bool) terms.Event {
	return terms.Event{Name: n.Key, Kind: n.KindOf(shared), Owner: o}
}

// watches reports whether the request is reported to the Observer: not if it is for a part of
// a lock that is observed as a whole.
func (c *Client) watches(req *Request) bool { return c.Observer.On() && req.Whole == nil }

// tellAcquired reports a call that has the lock. It is called without a mutex, as gaveUp.
func (c *Client) tellAcquired(ctx context.Context, n *Name, req *Request, waited time.Duration, contended bool) {
	if c.Observer.Observer != nil && req.Whole == nil {
		e := n.Event(req.Owner, req.Shared)
		e.Way, e.Waited, e.Contended = req.Way, waited, contended
		c.Observer.Acquired.Tell(ctx, e)
	}
}

// gaveUp reports a call that has failed with err, and returns that.
func (c *Client) gaveUp(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) error {
	if c.watches(req) {
		e := n.Event(req.Owner, req.Shared)
		e.Err, e.Waited, e.Contended = err, waited, contended
		c.Observer.GaveUp.Tell(ctx, e)
	}
	return err
}

// tellRenewed reports a batch that had any renewals. The keeper does not wait.
func (c *Client) tellRenewed(i terms.RenewedInfo) {
	if c.Observer.On() && c.Observer.Renewed != nil && i.Locks > 0 {
		c.Observer.Notices.Tell(func() { c.Observer.Renewed(i) })
	}
}
