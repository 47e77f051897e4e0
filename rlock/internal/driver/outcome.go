package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The end of a call: its result, and the release of an unused grant.

// refused ends a call that waits for nothing. It is called with the mutex held, and gives it back. The holder is named in
// the error of a handle: that of a TryLock, which may be called in a loop, is not read.
func (l *lock) refused(ctx context.Context, o core.Outcome, others int32, req *Request, h *hold) error {
	holder := ""
	if h != nil {
		holder = l.holderWords("", req)
	}
	err := l.refusal(o, others, req, holder)
	if !errors.Is(err, terms.ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", l.name.Key, err)
	}
	return l.giveUp(ctx, req, err)
}

// giveUp ends a call with an error before it waits. It is called with the mutex held, and gives it back.
func (l *lock) giveUp(ctx context.Context, req *Request, err error) error {
	c, n := l.shard.client, l.name
	l.shard.counts.GaveUp(err, false)
	l.shard.exit(l)
	return c.gaveUp(ctx, n, req, err, 0, false)
}

// leave ends a call that has not got the lock, and gives the mutex back. The error is what finished returns.
func (l *lock) leave(w *waiter) {
	s := l.shard
	s.applyAll()
	holder := ""
	if w.hold != nil || w.Outcome == core.Cancelled { // else they are not read
		holder = l.holderWords(w.holder, &w.req)
	}
	switch o := w.Outcome; o {
	case core.GotAnswer:
		w.err = terms.ErrAnswered
	case core.Closed, core.Upgrades, core.NotPassed, core.Full:
		w.err = l.refusal(o, w.Others, &w.req, holder)
	case core.Unanswered:
		if w.err == nil { // else it has waited for the command of another call, whose error that is
			w.err = l.faultBefore()
		}
	case core.Denied, core.TimedOut:
		if w.err == nil { // else Redis has failed, or has answered the last attempt
			w.err = l.refusal(o, 0, &w.req, holder)
		}
	case core.Cancelled, core.Failed: // its context, or Redis, has said why
	default:
		panic("driver: a call has not got the lock: " + o.String())
	}
	w.holder = holder
	s.exit(l)
}

// finished returns what became of the call. A caller whose context has ended does not get the lock: the
// level is given back.
func (c *Client) finished(ctx context.Context, n *Name, w *waiter) (err error) {
	if w.missed {
		return c.waitAgain(ctx, n, w)
	}
	defer c.done(w)
	if a := w.req.Answer; a != nil {
		a.Text, a.Waited, a.Checked, a.Clock = w.answer, w.hasWaited(), w.checked, w.clock
		if w.clock > 0 {
			a.Read = c.clock.time(w.read)
		}
	}
	cancelled := w.Outcome == core.Cancelled
	if w.Outcome == core.Acquired {
		if ctx.Err() == nil {
			c.returns(n, w.Owner, &w.earlier)
			c.tellAcquired(ctx, n, &w.req, w.waited, w.waits)
			return nil
		}
		c.giveBack(n, w)
		cancelled = true
	}
	waited := time.Duration(c.clock.now().Time.Since(w.Began()))
	if err = w.err; cancelled {
		if err = wire.TimeUp(ctx, w.err); errors.Is(err, context.DeadlineExceeded) && w.holder != "" {
			err = fmt.Errorf("%w: it is %s", err, w.holder)
		}
	}
	s, ended := c.shardOf(n), ctx.Err() != nil
	s.glance(func() {
		s.counts.GaveUp(err, ended)
		s.counts.Waited += waited
	})
	if errors.Is(err, wire.ErrWrongType) {
		err = c.Redis.OfOtherKind(ctx, &n.Keys, err)
	}
	if !errors.Is(err, terms.ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return c.gaveUp(ctx, n, &w.req, err, waited, w.waits)
}

// giveBack releases the lock that the call was granted.
func (c *Client) giveBack(n *Name, w *waiter) {
	l, now := c.enter(n, w.Owner)
	was, _, ok := l.Unlock(w.Owner, w.Mode, w.Handle, now) // the keeper releases it
	switch {
	case ok:
		l.shard.counts.undone(w.req.Way, was.First)
	case w.hold == nil: // it was lost, and its caller has never had it
		c.Losses.Unlock(n.lossKey(w.req.Owner), w.req.Shared)
	}
	w.err, w.holder = nil, ""
	l.shard.exit(l)
}

// refusal returns the error of a call that has ended with that outcome, with the holder if it is to name one. others is
// how many others wait, if the call waits only if few do.
func (l *lock) refusal(o core.Outcome, others int32, req *Request, holder string) error {
	reason := terms.ErrNotAcquired
	switch {
	case o == core.Closed:
		return wire.ErrClosed
	case o == core.Upgrades:
		return upgradeError(req)
	case o == core.NotPassed:
		return terms.ErrNotPassed
	case o == core.Full:
		reason = fmt.Errorf("%w: %d of %d that may", terms.ErrTooManyWaiters, others, max(req.Most, 0))
	case o == core.Unanswered:
		return l.faultBefore()
	}
	if holder != "" {
		reason = fmt.Errorf("%w: it is %s", reason, holder)
	}
	return reason
}

// faultBefore returns why it is not known whose the lock is: the fault of the call that is the first in the line.
func (l *lock) faultBefore() error {
	for first := range l.Waiters {
		if w := first.Tag.(*waiter); w.err != nil {
			return w.err
		}
		break
	}
	return terms.ErrUnanswered
}

// mostNamed is among how many levels the caller's own is looked for.
const mostNamed = 16

// holderWords says in whose hands the lock was when this client last heard of it, "" if it does not know. Redis has named
// that holder last.
func (l *lock) holderWords(named string, req *Request) string {
	if !l.IsHeld() {
		return l.shard.client.holderWords(named)
	}
	levels := l.Levels()
	for i := range levels[:min(len(levels), mostNamed)] {
		if caller := callerOf(&levels[i]); caller != 0 && caller == req.Goroutine() {
			return "held by the calling goroutine: use the context of Do or of the Hold"
		}
	}
	owner := ownerOf(&levels[0]).Words()
	if levels[0].Mode == core.Shared {
		owner = "a reader, " + owner
	}
	return "held by " + owner + " of this process"
}

// shutTime is how long a shared rueidis client must say that it is closed until it is believed: in a Cluster
// or with Sentinel it says so of the connections to a node that has just been replaced.
const shutTime = 2 * time.Second

// answered notes the answer to a command of the call. It reports whether the error is permanent.
func (w *waiter) answered(a *answer, clock *clock, at core.Time) (hopeless bool) {
	if a.err == nil {
		w.err, w.since, w.shut, w.holder = nil, time.Time{}, time.Time{}, a.holder
		w.endless = a.holder != "" && a.TTL == core.NoTTL
		return false
	}
	now := clock.time(at)
	f, err := wire.Diagnose(a.err)
	switch {
	case !errors.Is(a.err, rueidis.ErrClosing):
		w.shut = time.Time{}
	case w.shut.IsZero():
		w.shut = now
	case now.Sub(w.shut) >= shutTime:
		f, err = wire.Never, fmt.Errorf("%w: the rueidis client in Config.Client is: %w", wire.ErrClosed, err)
	}
	if w.since.IsZero() {
		w.since = now
	}
	w.err = err
	return f == wire.Never
}

// returns is called before a call returns with the lock.
func (c *Client) returns(n *Name, o core.OwnerID, earlier *earlierLosses) {
	for _, e := range earlier.unreported {
		<-e.reported
	}
	c.shardOf(n).checkReported(n, o, earlier)
}

// ended returns the outcome of a call that leaves the lock alone from now on. It is called with the mutex held, and gives it
// back.
func (l *lock) ended(ctx context.Context, w *waiter) error {
	c, n := l.shard.client, l.name
	if w.Outcome == core.Acquired {
		l.shard.exit(l)
	} else {
		l.leave(w)
	}
	return c.finished(ctx, n, w)
}
