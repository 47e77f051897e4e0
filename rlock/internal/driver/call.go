package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A waiter is a call for a lock, from when it is made until it returns. The shard's mutex protects it.
type waiter struct {
	core.Waiter
	req    client.Request
	passed string       // of Resume: the owner that the lock was passed on with
	hold   *hold        // the handle to fill in, nil for Lock
	place  *terms.Place // where it is made, nil if that is not recorded, nor found yet
	began  core.Time

	ready chan wakeUp // capacity 1
	timer *time.Timer // nil until it is needed

	parked    bool      // its goroutine sleeps, and has to be woken
	woken     bool      // parked: it is on its way to the mutex
	wakesAt   core.Time // parked: when it wakes by itself
	placeless bool      // parked: it waits for a place among the commands in flight
	flies     bool      // it waits for the answer to its command
	until     *until    // by which that wait ends; nil for none to be used again
	serves    bool      // parked: it has the lock, and a message that says so is on its way

	waits   bool // it has waited for anything but the answer to an attempt
	locates bool // it is to find out where it was made
	told    bool // it was logged that it waits for its own goroutine

	waited  time.Duration // until it was granted
	earlier earlierLosses // than its grant

	holder string // that Redis named last, "" if it named none
	err    error  // what Redis said last, if it was an error
	fails  int    // in a row
	since  time.Time
	shut   time.Time // since when each attempt was told that the rueidis client is closed
}

// A wakeUp is why a parked call is woken.
type wakeUp uint8

const (
	looks  wakeUp = iota // it has to look, with the mutex
	served               // it has the lock
)

func newWaiter() any {
	w := &waiter{ready: make(chan wakeUp, 1)}
	return w
}

// wake makes a parked call look. The mutex is held.
func (w *waiter) wake() {
	w.woken = true
	select {
	case w.ready <- looks:
	default: // it wakes already, and looks
	}
}

// served wakes a call that has the lock. The call does not return before that, since its memory is used again: a later call
// would take the message for its own.
func (w *waiter) served() { w.ready <- served }

// awaitServed waits for served, after another reason to wake. It is called without a mutex.
func (w *waiter) awaitServed() {
	for <-w.ready != served {
	}
}

// after returns a channel that has a message at that time, nil for never. A channel of an earlier call is of
// no use any more.
func (w *waiter) after(at, now core.Time) <-chan time.Time {
	d := time.Duration(at.Since(now))
	switch {
	case at == core.Never:
		return nil
	case d <= 0:
		return past // without a timer: one that is due when a select begins costs more, and Go's race detector dies of it in a bubble of synctest
	case w.timer == nil:
		w.timer = time.NewTimer(d)
	default:
		w.timer.Reset(d)
	}
	return w.timer.C
}

// past has a message at any time.
var past = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// newCall returns a call that was not served at once.
func (c *Client) newCall(first *core.Waiter, req *client.Request, h *hold, place *terms.Place, now core.Now) *waiter {
	w := c.waiters.Get().(*waiter)
	ready, timer, until := w.ready, w.timer, w.until
	*w = waiter{} // apart, since it is large: it is cleared in place, and not made elsewhere and copied
	w.ready, w.timer, w.until, w.req, w.hold, w.place, w.began = ready, timer, until, *req, h, place, now.Time
	w.Waiter = *first
	w.Tag = w
	return w
}

// done gives the waiter back.
func (c *Client) done(w *waiter) {
	select {
	case <-w.ready:
	default:
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	c.waiters.Put(w)
}

// acquire is the way of a blocking lock. It returns nil when the caller holds the lock; otherwise nothing is
// held that the caller would have to release.
func (c *Client) acquire(ctx context.Context, n *client.Name, req *client.Request, h *hold) error {
	e := c.shared
	if c.witness != nil {
		ctx = c.witness.watched(ctx)
	}
	if err := e.Check(ctx, n, req); err != nil {
		return e.GaveUp(ctx, n, req, err, 0, false)
	}
	place := e.Place()
	l, now := c.enter(n, core.OwnerID(req.Owner.ID))
	var w core.Waiter // of a call that is served at once: it needs no memory that lasts
	l.asks(&w, req, h, place)
	if !l.Nest(&w, now) {
		l.shard.carryOut() // losses so far are recorded
		if err := l.refuses(req, now); err != nil {
			return l.giveUp(ctx, req, err)
		}
		l.asksMore(&w, req, now)
		switch outcome := l.AtOnce(&w, now); outcome {
		case core.Acquired:
		case core.Waiting:
			return l.contend(ctx, c.newCall(&w, req, h, place, now), now)
		default:
			return l.refused(ctx, outcome, req, h)
		}
	}
	earlier := l.granted(&w, req, h)
	l.shard.exit(l)
	c.returns(n, w.Owner, &earlier)
	e.TellAcquired(ctx, n, req, 0, false)
	return nil
}

// asks fills in what each call asks for, and asksMore the rest, for one that does not nest.
func (l *lock) asks(w *core.Waiter, req *client.Request, h *hold, place *terms.Place) {
	w.Owner, w.Mode, w.Lease, w.Part = core.OwnerID(req.Owner.ID), modeOf(req.Shared), core.Span(req.Lease), req.Whole != nil
	if h != nil {
		w.Handle = h
	}
	if place != nil {
		w.Info = place
	}
}

func (l *lock) asksMore(w *core.Waiter, req *client.Request, now core.Now) {
	w.Waits, w.Until = req.Wait > 0, core.Never
	w.Linger, w.Repeats = core.Span(l.lingerOf(req, now)), req.Owner.IsNamed()
	if req.Wait < terms.Forever {
		w.Until = now.Time.After(core.Span(max(req.Wait, 0)))
	}
}

// contend goes on with a call that has to wait. It is called with the mutex held, and gives it back.
func (l *lock) contend(ctx context.Context, w *waiter, now core.Now) error {
	c, n := l.shard.client, l.name
	l.hear(w, now)
	l.Wait(&w.Waiter, now)
	if l.Owner() != nil {
		l.tellOwnWait(w, now)
	}
	l.await(ctx, w, now)
	return c.finished(ctx, n, w)
}

// returns is called before a call returns with the lock.
func (c *Client) returns(n *client.Name, o core.OwnerID, earlier *earlierLosses) {
	for _, e := range earlier.untold {
		<-e.told
	}
	if c.witness != nil {
		c.shardOf(n).checkTold(n.Key, o, earlier)
	}
}

// refuses returns why the request of a caller that does not hold the lock is refused,
// regardless of the holder.
func (l *lock) refuses(req *client.Request, now core.Now) error {
	c := l.shard.client
	if c.shared.Closed.Load() {
		return fmt.Errorf("rlock: lock %q: %w", l.name.Key, wire.ErrClosed)
	}
	if c.shared.Losses.None() {
		return nil
	}
	if cause := c.shared.Losses.Blocks(l.name.LossKey(req.Owner), c.clock.time(now.Time)); cause != nil {
		return fmt.Errorf("rlock: nested lock %q: unlock the lost lock first: %w", l.name.Key, cause)
	}
	return nil
}

// await waits until the call has an outcome. It is called with the mutex held, and gives it back.
func (l *lock) await(ctx context.Context, w *waiter, now core.Now) {
	s, got := l.shard, false
	for {
		s.carryOut()
		if w.Outcome != core.Waiting {
			break
		}
		if w.locates {
			w.locates = false
			w.locate()
		}
		at := core.Never
		if t := w.Ticket; t != nil {
			op, polled := l.Alarm(t, now)
			if op != core.None {
				if now, got = l.attempt(ctx, w, now); got {
					return
				}
				continue
			}
			at = polled
		}
		if now, _, got = l.park(ctx, w, nil, at, now); got {
			return
		}
	}
	if w.Outcome == core.Acquired {
		s.exit(l)
		return
	}
	l.leave(ctx, w)
}

// park gives the mutex back until that time, until there may be something to do, or until there is a place among those of
// the limit, if one is waited for: then it reports whether it has entered. It reports whether the call has got the
// lock, and then it has not taken the mutex again.
func (l *lock) park(ctx context.Context, w *waiter, limit *wire.Limit, at core.Time, now core.Now) (_ core.Now, entered, got bool) {
	at = min(at, l.Lock.Due(&w.Waiter, now))
	var places chan<- struct{}
	if limit != nil {
		places = limit.Places()
	}
	w.parked, w.woken, w.wakesAt, w.placeless = true, false, at, limit != nil
	l.exitWaiting(ctx, w)

	over, quit := false, false
	select {
	case why := <-w.ready:
		if why == served {
			return now, false, true
		}
	case <-w.after(at, now.Time):
	case places <- struct{}{}:
		entered = true
	case <-ctx.Done():
		over = true
	case <-w.req.Quit:
		quit = true
	}
	now = l.again()
	w.parked = false
	switch {
	case w.serves:
		l.shard.exit(l)
		w.awaitServed()
		return now, entered, true
	case w.Outcome != core.Waiting:
	case over:
		l.Cancel(&w.Waiter, core.Cancelled, now)
	case quit:
		w.Until, w.req.Quit = now.Time, nil // its last command may be on its way
		fallthrough
	default:
		l.unheard(now)
		l.Tick(&w.Waiter, now)
	}
	return now, entered, false
}

// exitWaiting gives the mutex back since the call has to wait, which is counted and told once: not for the
// answer to an attempt.
func (l *lock) exitWaiting(ctx context.Context, w *waiter) {
	if t := w.Ticket; w.waits || t != nil && t.InFlight() != core.None {
		l.shard.exit(l)
		return
	}
	w.waits = true
	l.shard.counts.Waiting++
	c, n := l.shard.client, l.name
	c.shared.WaitBegins()
	l.shard.exit(l)
	if c.shared.Watches(&w.req) {
		c.shared.Observer.Waiting.Tell(ctx, n.Event(w.req.Owner, w.req.Shared))
	}
}
