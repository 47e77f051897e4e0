package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/waitqueue"
)

// A try is what a waiter may do without a ticket.
type try uint8

const (
	firstTry   try = iota // send an acquire
	nudgeFirst            // send a nudge: others waited for a free lock, or an unwanted tenure has it
	nudged                // send another acquire
	callFirst             // the same a little later: a holder that may linger was called
	noTry                 // nothing: its acquire was denied
)

// A waiter is a request that waits in the local queue. The shard's mutex protects it.
type waiter struct {
	*waitqueue.Waiter[*waiter]             // its place there
	timer                      *time.Timer // nil until it is needed
	Request
	began   time.Time
	until   time.Time     // when the wait is over
	granted bool          // the lock is the caller's
	waited  time.Duration // until it was granted

	waits   bool // it has waited for anything but the answer to an attempt
	counted bool // see room.crowd

	try try // what it may do without a ticket

	ticket *tenure     // that stands for it in Redis, nil for none
	lookAt time.Time   // when to look for the ticket next
	grant  wire.Notice // of a ticket, that came before the answer to its join
	last   bool        // it has looked a last time, when its own time was up
	polls  int         // looks in a row, without pub/sub

	holder       string    // that Redis named last, "" if it named none
	foreignEnds  time.Time // when the lease of the foreign holder ends that the last look has met
	foreignSince time.Time // when that was first seen, see followForeign
	hears        bool      // since the last look this client hears what foreign clients are told

	late     lateness
	searched bool // it had deadlocks searched for

	err   error     // what Redis said last, if it was an error
	fatal bool      // and waiting does not cure it
	fails int       // in a row
	since time.Time // when the first of them was
	rest  time.Time // until when nothing is sent, after a fault or a call
	// shut is since when each attempt was told that the rueidis client is closed.
	shut time.Time
}

// queues reports whether the request is to wait in Redis' queue.
func (w *waiter) queues(now time.Time) bool {
	return w.Wait > 0 && !w.over() && timeLeft(w.until, now) >= queueLeast
}

// after returns a channel that has a message after so long, nil for Forever. A channel of an
// earlier call is of no use any more.
func (w *waiter) after(d time.Duration) <-chan time.Time {
	switch {
	case d == Forever:
		return nil
	case w.timer == nil:
		w.timer = time.NewTimer(d)
	default:
		w.timer.Reset(d)
	}
	return w.timer.C
}

func newWaiter() any {
	w := &waiter{Waiter: waitqueue.NewWaiter[*waiter]()}
	w.Value = w
	return w
}

// shutTime is how long a shared rueidis client must say that it is closed until it is
// believed: in a Cluster or with Sentinel it says so of the connections to a node that
// has just been replaced.
const shutTime = 2 * time.Second

// answered notes that Redis has named the holder, and no error.
func (w *waiter) answered(a wire.Answer) {
	w.err, w.fails, w.shut, w.holder = nil, 0, time.Time{}, a.Holder
}

// failed notes an error, and how long to wait before the next attempt.
func (w *waiter) failed(err error, now time.Time) {
	f, err := wire.Diagnose(err)
	switch {
	case !errors.Is(err, rueidis.ErrClosing):
		w.shut = time.Time{}
	case w.shut.IsZero():
		w.shut = now
	case now.Sub(w.shut) >= shutTime:
		f, err = wire.Never, fmt.Errorf("%w: the rueidis client in Config.Client is: %w", wire.ErrClosed, err)
	}
	if w.fails == 0 {
		w.since = now
	}
	w.err = err
	w.fatal = f == wire.Never
	w.rest = now.Add(wire.Jitter(min(wire.FirstRetry<<min(w.fails, 10), wire.LastRetry)))
	w.lookAt = w.rest
	w.fails++
}
