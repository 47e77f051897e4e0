package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A waiter is a call that waits, from its beginning until it returns. The mutex of the shard guards
// it.
type waiter struct {
	core.Call
	ready   chan wakeUp // wakes the goroutine; has room for one message of each sort
	timer   *time.Timer // nil until it is needed
	stage   stage
	context *commandContext // the context of the command in flight, or of the last one if it can be reused; or nil

	// carried is the exchange of the command in flight, or nil. The answer lands for the call as
	// long as it is set: land and abandon clear it, with the mutex held.
	carried *exchange
	callState
}

// A callState is the part of a waiter that belongs to one call.
type callState struct {
	req    Request
	passed wire.OwnerText // of a resume: the owner that passed the lock on; of a release by force: its holder
	write  *wire.Write    // the guarded write, or nil
	hold   *hold          // the handle to fill in; nil for Lock
	site   *contract.Site // the place in the program of the call; nil if it is not known

	contended bool // the call has waited for more than the answer to an attempt
	locates   bool // the goroutine of the call has to find out the site
	logged    bool // the log says that it waits for its own goroutine

	// inTheWay has the holders of the lock by the last answer, if the call takes the lock over.
	inTheWay []wire.OwnerText

	waited  time.Duration // the time until the lock was granted
	earlier earlierLosses // the losses before the grant

	watching
	answering
	failing
}

// watching is the part of a call whose caller is told its place: see Request.Progress.
type watching struct {
	watches        bool          // the caller is told its place while the call waits
	place, waiting int           // the place and the number of waiters last told; 0 for none
	toldAt         core.Time     // the time at which the caller was told
	telling        chan struct{} // a channel that is closed when the caller's function ends; nil while it does not run
	ends           func()        // ends the caller's goroutine in the way in which the function ended its own; nil if the function returned
}

// answering is the part of a call that takes an answer: see Request.Answer.
type answering struct {
	answer  string    // the answer of a release, if the outcome is GotAnswer
	clock   int64     // Redis' clock in µs, by the first answer that has it; 0 for none
	read    core.Time // the time at which the command with that answer was sent
	checked bool      // the command that ended the call checked its condition
}

// failing is what Redis has said to a call that does not have the lock.
type failing struct {
	holderText wire.OwnerText // the owner's text of the holder that Redis named last, or ""
	holder     *holderView    // the holder in the error of the call, once it has ended; or nil
	endless    bool           // the key of that holder has no TTL
	err        error          // the error of the last answer, or nil
	since      time.Time      // the time of the first of several errors in a row, or zero
	shut       time.Time      // the time since which all attempts have found the rueidis client closed, or zero
}

// A stage is the state of a call's goroutine.
type stage uint8

const (
	running  stage = iota // the goroutine has the mutex, or is about to take it
	flying                // the goroutine waits for the answer to a command
	asleep                // the goroutine waits until there may be something to do
	queueing              // the goroutine waits until there may be something to do, or for a slot among the commands in flight
	waking                // the goroutine was woken, and is about to take the mutex
	granting              // the lock was granted to the call, and a message that says so is on its way
)

// A wakeUp is the reason why a call is woken.
type wakeUp uint8

const (
	askNext  wakeUp = iota // the call has to take the mutex and ask Next
	haveLock               // the call has the lock
)

// abandon separates the call from a command in flight that its caller leaves behind: the answer
// lands without the call, whose memory may be reused for another lock. It does nothing if no
// command is in flight.
//
// REQUIRES: shard.mu.
func (w *waiter) abandon() {
	if x := w.carried; x != nil {
		x.waiter, w.carried = nil, nil
	}
}

// wake wakes the goroutine if it is asleep.
//
// REQUIRES: shard.mu.
func (w *waiter) wake() {
	if w.stage != asleep && w.stage != queueing {
		return // the goroutine asks Next by itself
	}
	w.stage = waking
	if len(w.ready) == 0 { // else a message is left from an earlier sleep, and does as well
		w.ready <- askNext
	}
}

// wakeWithLock wakes a call that was granted the lock. The call takes the message before it
// returns: its memory is reused, and a later call would take the message for its own.
func (w *waiter) wakeWithLock() { w.ready <- haveLock }

// awaitLockMessage waits for the message of wakeWithLock. It is called without a mutex, after the
// goroutine woke for another reason.
func (w *waiter) awaitLockMessage() {
	for <-w.ready != haveLock {
	}
}

// timerAt returns a channel that has a message at that time; nil for Never. It invalidates the
// channel that it returned before.
func (w *waiter) timerAt(at, now core.Time) <-chan time.Time {
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

// past always has a message.
var past = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// newWaiter returns a waiter for a copy of the call, from the pool.
func (c *Client) newWaiter(first *core.Call) *waiter {
	w := c.waiters.Get().(*waiter)
	w.Call = *first
	w.callState = callState{}
	w.Tag = w
	return w
}

// recycle gives the waiter back to the pool.
func (c *Client) recycle(w *waiter) {
	for len(w.ready) > 0 {
		<-w.ready
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	c.waiters.Put(w)
}

// sleep gives the mutex back, sleeps, and takes the mutex again. It sleeps until the time at, until
// the call may have something to do or, unless limit is nil, until it has a slot, which it returns.
// granted reports whether the call was granted the lock meanwhile.
//
// REQUIRES: shard.mu. If granted, sleep returns without it.
func (l *lockState) sleep(ctx context.Context, w *waiter, limit *wire.Limit, at core.Time, now core.Now) (_ core.Now, slot *wire.Limit, granted bool) {
	if w.locates {
		w.locates = false
		w.locate()
	}
	var slots chan<- struct{}
	w.stage = asleep
	if limit != nil {
		slots, w.stage = limit.Slots(), queueing
	}
	at = l.exitToSleep(ctx, w, at)

	over, quit := false, false
	select {
	case why := <-w.ready:
		if why == haveLock {
			return now, nil, true
		}
	case <-w.timerAt(at, now.Time):
	case slots <- struct{}{}:
		slot = limit.Entered()
	case <-ctx.Done():
		over = true
	case <-w.req.Quit:
		quit = true
	}
	now = l.shard.lock()
	was := w.stage
	w.stage = running
	switch {
	case was == granting:
		l.shard.exit(l)
		w.awaitLockMessage()
		return now, slot, true
	case over:
		l.End(&w.Call, core.Cancelled, now)
	case quit:
		w.Until, w.req.Quit = now.Time, nil // a command in flight may still bring the lock
	}
	if w.Outcome == core.Waiting {
		l.checkSubscription(now)
	}
	return now, slot, false
}

// exitToSleep gives the mutex back. If the call begins to wait, for more than the answer to an
// attempt, that is counted and reported. The caller is told its place if the place is new.
// exitToSleep returns the time until which the call sleeps: at, or sooner if the caller is to be
// told its place again.
//
// REQUIRES: shard.mu, which it gives back.
func (l *lockState) exitToSleep(ctx context.Context, w *waiter, at core.Time) core.Time {
	c, n := l.shard.client, l.name
	t := w.Tenure
	begins := !w.contended && w.Purpose == core.Locks && (t == nil || t.OpInFlight() == core.None)
	if begins {
		w.contended = true
		l.shard.counts.Waiting++
		c.waitBegins()
	}
	if w.watches && !l.startTellingPlace(w, 0) && w.telling == nil && w.place > 0 {
		at = min(at, w.toldAt.After(tellTime))
	}
	l.shard.exit(l)
	if begins && c.Observer.On() && w.req.Whole == nil && !w.req.missed.contended {
		c.Observer.Waiting.Tell(ctx, n.Event(w.req.Owner, w.req.Shared))
	}
	return at
}

// locate finds out the site of the call, if it is not recorded. The goroutine of the call calls it.
func (w *waiter) locate() {
	if w.site == nil {
		w.site = contract.Here()
	}
	if w.site == nil {
		w.site = new(contract.Site) // it cannot be known
	}
}

// logOwnWait logs at once if the call waits for a lock that its own goroutine holds as an owner,
// as an Acquire after a Lock: no other goroutine can end that hold, so that the wait is in vain. It
// is not logged for a handle, which another goroutine may release.
//
// REQUIRES: shard.mu.
func (l *lockState) logOwnWait(w *waiter, now core.Now) {
	goroutine := w.req.Goroutine()
	if goroutine == 0 || goroutine == w.req.Owner.ID || w.logged {
		return
	}
	levels, c := l.Levels(), l.shard.client
	for i := range levels {
		v := &levels[i]
		if o := levelOwner(v); o.Guest || o.ID != goroutine || !l.Holds(v.Owner, now) {
			continue
		}
		w.logged = true
		w.locate()
		c.Config.Logger.Warn("rlock: a call waits for a lock that its own goroutine holds: use the context of the Hold, or WithOwner, to nest",
			"lock", l.name.Key, "kind", l.name.KindOf(w.req.Shared), "owner", w.req.Owner, "waited", time.Duration(0), "site", contract.Known(w.site).String(),
			"holder", levelOwner(v), "held", time.Duration(now.Time.Since(v.Since)).Round(time.Millisecond), "holder_site", contract.Known(siteOf(v)).String())
		return
	}
}
