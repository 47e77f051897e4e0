package rlock

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// observing calls the hooks of a client's Observer. Those that have a caller are called
// where the caller has no mutex of ours; the others, which the keeper and the wheel bring
// about, go through notices.
//
// The methods that are called for each lock do nothing but ask for nil if there is no
// Observer: the work is in another function, so that they are inlined.
type observing struct {
	*Observer // nil for none
	log       *slog.Logger
	notices   *notices // nil without an Observer
	panicked  sync.Map // of the names of hooks: a panic of it has been logged
}

// maxEvents is how many events wait at most for the hook before them. It is larger than
// for the Logger: all locks of a client may be lost at once.
const maxEvents = 4000

// observe sets the Observer up.
func (c *Client) observe(o *Observer) {
	c.observer.Observer, c.observer.log = o, c.config.Logger
	if o != nil {
		c.observer.notices = newNotices(maxEvents, c.observer.missed)
	}
}

// close waits for the hooks that are still to be called.
func (o *observing) close(c *Client) {
	if o.notices != nil {
		o.notices.close()
		o.closed(c)
	}
}

// caught keeps the panic of a hook from the client. It must be deferred itself.
func (o *observing) caught(hook string) {
	p := recover()
	if p == nil {
		return
	}
	if _, before := o.panicked.LoadOrStore(hook, true); !before {
		o.log.Error("rlock: a hook of the Observer panicked; its next panics are not logged",
			"hook", hook, "panic", p, "stack", string(debug.Stack()))
	}
}

func (o *observing) opened(c *Client) {
	if o.Observer != nil && o.Opened != nil {
		defer o.caught("Opened")
		o.Opened(c)
	}
}

func (o *observing) closed(c *Client) {
	if o.Closed != nil {
		defer o.caught("Closed")
		o.Closed(c)
	}
}

func (o *observing) missed(n int) {
	if o.Missed != nil {
		defer o.caught("Missed")
		o.Missed(n)
	}
}

// on reports whether there is an Observer.
func (o *observing) on() bool { return o.Observer != nil }

func (o *observing) waiting(ctx context.Context, lock LockInfo) {
	if o.Waiting != nil {
		defer o.caught("Waiting")
		o.Waiting(ctx, WaitingInfo{lock})
	}
}

func (o *observing) acquired(ctx context.Context, info AcquiredInfo) {
	if o.Acquired != nil {
		defer o.caught("Acquired")
		o.Acquired(ctx, info)
	}
}

func (o *observing) gaveUp(ctx context.Context, info GaveUpInfo) {
	if o.GaveUp != nil {
		defer o.caught("GaveUp")
		o.GaveUp(ctx, info)
	}
}

func (o *observing) released(ctx context.Context, info ReleasedInfo) {
	if o.Released != nil {
		defer o.caught("Released")
		o.Released(ctx, info)
	}
}

func (o *observing) lost(ctx context.Context, info LostInfo) {
	if o.Lost != nil {
		defer o.caught("Lost")
		o.Lost(ctx, info)
	}
}

func (o *observing) renewed(info RenewedInfo) {
	if o.Renewed != nil {
		defer o.caught("Renewed")
		o.Renewed(info)
	}
}

// infoOf says which lock a request is for.
func (c *Client) infoOf(n *name, owner Owner, shared bool) LockInfo {
	return LockInfo{Client: c, Name: n.Key, Kind: n.kindOf(shared), Owner: owner}
}

// watches reports whether the Observer is told of the request: not if it is for a part of
// a lock that is observed as a whole.
func (c *Client) watches(req *request) bool { return c.observer.on() && req.whole == nil }

// tellAcquired is called without the mutex, as all that tell.
func (c *Client) tellAcquired(ctx context.Context, n *name, req *request, way Way, waited time.Duration, contended bool) {
	c.observer.acquired(ctx, AcquiredInfo{c.infoOf(n, req.owner, req.shared), way, waited, contended})
}

// refused returns the error of a call that has not waited, and tells of it.
func (c *Client) refused(ctx context.Context, n *name, req *request, err error) error {
	if c.watches(req) {
		c.tellGaveUp(ctx, n, req, err, 0, false)
	}
	return err
}

func (c *Client) tellGaveUp(ctx context.Context, n *name, req *request, err error, waited time.Duration, contended bool) {
	c.observer.gaveUp(ctx, GaveUpInfo{c.infoOf(n, req.owner, req.shared), err, waited, contended})
}

// A closedLevel is what is known of a level that was given back.
type closedLevel struct {
	since time.Duration // from the client's start
	way   Way
}

// tellReleased tells of an Unlock, which was called at now and returns err.
func (c *Client) tellReleased(ctx context.Context, n *name, o Owner, shared bool, l closedLevel, now time.Time, err error) {
	info, held := c.infoOf(n, o, shared), now.Sub(c.start)-l.since
	if errors.Is(err, ErrLost) {
		c.observer.lost(ctx, LostInfo{info, l.way, held, LostKeyGone, err})
		return
	}
	c.observer.released(ctx, ReleasedInfo{LockInfo: info, Way: l.way, Held: held, Err: err})
}

func (c *Client) tellDetached(ctx context.Context, h *hold, l closedLevel, now time.Time) {
	info := c.infoOf(h.name, h.owner, h.shared)
	c.observer.released(ctx, ReleasedInfo{LockInfo: info, Way: l.way, Held: now.Sub(c.start) - l.since, Detached: true})
}

// tell tells of the levels that ended. Of one that was lost the keeper must not wait for
// the hook; one that Close has released is told by Close.
func (e ending) tell() {
	c := e.room.client
	if !c.observer.on() {
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
		info, held := c.infoOf(e.room.name, l.owner, l.shared), e.at.Sub(c.start)-l.since
		if e.why == nil {
			c.observer.released(ctx, ReleasedInfo{LockInfo: info, Way: l.way, Held: held, Err: errClosed(e.room.name, l.owner)})
			continue
		}
		if c.observer.Lost == nil {
			continue
		}
		lost := LostInfo{info, l.way, held, l.lossReason(e.why), errLost(e.room.name, l.owner, e.why)}
		c.observer.notices.tell(func() { c.observer.lost(ctx, lost) })
	}
}

// lossReason says why the level was lost.
func (l *level) lossReason(why error) LossReason {
	switch {
	case errors.Is(why, errGone):
		return LostKeyGone
	case errors.Is(why, errForced):
		return LostForced
	case errors.Is(why, errOver) && !l.kept():
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
	if c.observer.on() && c.observer.Renewed != nil && i.Locks > 0 {
		c.observer.notices.tell(func() { c.observer.renewed(i) })
	}
}
