package driver

import (
	"context"
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

	stage   stage
	wakesAt core.Time // asleep or queueing: when it wakes by itself
	until   *until    // flying: by which that ends; nil for none to be used again

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

// A stage is what the goroutine of a call does.
type stage uint8

const (
	running  stage = iota // it has the mutex, or is about to take it, and looks for itself
	flying                // it waits for the answer to its command
	asleep                // it waits until there may be something to do
	queueing              // the same, or until there is a place among the commands in flight
	waking                // it was woken, and is on its way to the mutex
	serving               // it has the lock, and a message that says so is on its way
)

// isAsleep reports whether the goroutine has to be woken.
func (s stage) isAsleep() bool { return s == asleep || s == queueing }

// A wakeUp is why a call is woken.
type wakeUp uint8

const (
	looks  wakeUp = iota // it has to look, with the mutex
	served               // it has the lock
)

func newWaiter() any {
	return &waiter{ready: make(chan wakeUp, 1)}
}

// wake makes a call look that is asleep. The mutex is held.
func (w *waiter) wake() {
	if !w.stage.isAsleep() {
		return // it looks by itself
	}
	w.stage = waking
	select {
	case w.ready <- looks:
	default: // a message of an earlier sleep is there, which does as well
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

// park gives the mutex back until that time, until there may be something to do, or until there is a place among those of
// the limit, if one is waited for: then it reports whether it has entered. It reports whether the call has got the
// lock, and then it has not taken the mutex again.
func (l *lock) park(ctx context.Context, w *waiter, limit *wire.Limit, at core.Time, now core.Now) (_ core.Now, entered, got bool) {
	at = min(at, l.Lock.Due(&w.Waiter, now))
	var places chan<- struct{}
	if limit != nil {
		places = limit.Places()
	}
	w.stage, w.wakesAt = asleep, at
	if limit != nil {
		w.stage = queueing
	}
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
	was := w.stage
	w.stage = running
	switch {
	case was == serving:
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
		if l.heard {
			l.unheard(now)
		}
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
