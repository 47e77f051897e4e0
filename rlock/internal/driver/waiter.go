package driver

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A waiter is a call that waits, from its beginning until it returns. The mutex of the shard
// protects it.
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
	passed string      // of a resume: the owner that passed the lock on; of a release by force: its holder
	write  *wire.Write // the guarded write, or nil
	hold   *hold       // the handle to fill in; nil for Lock
	site   *terms.Site // the place in the program of the call; nil if it is not known

	waits   bool // the call has waited for more than the answer to an attempt
	locates bool // its goroutine is to find out the site
	logged  bool // the log says that it waits for its own goroutine

	waited  time.Duration // the time until the lock was granted
	earlier earlierLosses // the losses before the grant

	watching
	answering
	failing
}

// watching is the part of a call whose caller is told its place: see Request.Progress.
type watching struct {
	watches        bool          // the call waits in line
	place, waiting int           // the place and the number of waiters last told; 0 for none
	toldAt         core.Time     // the time at which the caller was told
	telling        chan struct{} // is closed when the caller's function ends; nil while it does not run
	ends           func()        // ends the caller's goroutine as the function ended its own; nil if that returned
}

// answering is the part of a call that takes an answer: see Request.Answer.
type answering struct {
	answer  string    // the answer of a release, if the outcome is GotAnswer
	clock   int64     // Redis' clock in µs, by the first answer that has it; 0 for none
	read    core.Time // the time at which the command of that answer was sent
	checked bool      // the command that ended the call checked its condition
}

// failing is what Redis has said to a call that does not have the lock.
type failing struct {
	holder  string    // the holder that Redis named last, or ""
	endless bool      // the key of that holder has no TTL
	err     error     // the error of the last answer, or nil
	since   time.Time // the time of the first of several errors in a row, or zero
	shut    time.Time // the time since which all attempts have found the rueidis client closed, or zero
}

// A stage is the state of a call's goroutine.
type stage uint8

const (
	running  stage = iota // it has the mutex, or is about to take it
	flying                // it waits for the answer to a command
	asleep                // it waits until there may be something to do
	queueing              // it waits until there may be something to do, or a slot among the commands in flight
	waking                // it was woken, and is about to take the mutex
	granting              // the lock was granted to the call, and a message that says so is on its way
)

// A wakeUp is the reason why a call is woken.
type wakeUp uint8

const (
	askNext  wakeUp = iota // it has to take the mutex and ask Next
	haveLock               // it has the lock
)

// abandon separates the call from a command in flight that its caller leaves behind: the answer
// lands without the call, whose memory may be reused for another lock. The mutex is held. It does
// nothing if no command is in flight.
func (w *waiter) abandon() {
	if x := w.carried; x != nil {
		x.waiter, w.carried = nil, nil
	}
}

// wake wakes the goroutine if it is asleep. The mutex is held.
func (w *waiter) wake() {
	if w.stage != asleep && w.stage != queueing {
		return // it asks Next by itself
	}
	w.stage = waking
	if len(w.ready) == 0 { // else a message is left from an earlier sleep, and does as well
		w.ready <- askNext
	}
}

// wakeWithLock wakes a call that was granted the lock. The call does not return before that, since
// its memory is reused: a later call would take the message for its own.
func (w *waiter) wakeWithLock() { w.ready <- haveLock }

// awaitLockMessage waits for the message of served. It is called without a mutex, after the
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

// sleep gives the mutex back, sleeps until that time, until there may be something to do or, unless
// limit is nil, until there is a slot, which it returns, and takes the mutex again. If it reports
// that the call was served, it has not taken the mutex.
func (l *lockState) sleep(ctx context.Context, w *waiter, limit *wire.Limit, at core.Time, now core.Now) (_ core.Now, slot *wire.Limit, got bool) {
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
// attempt, that is counted and reported. The caller is told its place if that is news. exitToSleep
// returns the time until which the call sleeps: at, or sooner, if its place is to be told again.
func (l *lockState) exitToSleep(ctx context.Context, w *waiter, at core.Time) core.Time {
	c, n := l.shard.client, l.name
	t := w.Tenure
	begins := !w.waits && w.Purpose == core.Locks && (t == nil || t.OpInFlight() == core.None)
	if begins {
		w.waits = true
		l.shard.counts.Waiting++
		c.waitBegins()
	}
	if w.watches && !l.startTellingPlace(w, 0) && w.telling == nil && w.place > 0 {
		at = min(at, w.toldAt.After(tellTime))
	}
	l.shard.exit(l)
	if begins && c.Observer.On() && w.req.Whole == nil {
		c.Observer.Waiting.Tell(ctx, n.Event(w.req.Owner, w.req.Shared))
	}
	return at
}

// locate finds out the site of the call, if it is not recorded. The goroutine of the call calls it.
func (w *waiter) locate() {
	if w.site == nil {
		w.site = terms.Here()
	}
	if w.site == nil {
		w.site = new(terms.Site) // it cannot be known
	}
}

// logOwnWait logs at once if the call waits for a lock that its own goroutine holds as an owner,
// as an Acquire after a Lock: no other goroutine can end that hold, so that the wait is in vain. It
// is not logged for a handle, which another goroutine may release. The mutex is held.
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
			"lock", l.name.Key, "kind", l.name.KindOf(w.req.Shared), "owner", w.req.Owner, "waited", time.Duration(0), "site", terms.Known(w.site).String(),
			"holder", levelOwner(v), "held", time.Duration(now.Time.Since(v.Since)).Round(time.Millisecond), "holder_site", terms.Known(siteOf(v)).String())
		return
	}
}

// A caller may ask to be told its place among the waiters (Request.Progress). No command is sent
// for that: each Join and Look of a lock with such a call also asks Redis for the place of the
// ticket, and the client knows the line of its own callers. The goroutine of a call is woken when
// its place may have changed, and starts another one for the caller's function: the call may have
// the ticket of other calls, which must not wait for that function.

// An audience is what a client knows of the waiters of a lock, while one of them is told its place.
// The mutex of the shard protects it.
type audience struct {
	watchers int             // the number of calls that are told
	tickets  int             // the number of tickets in Redis' queue, by its last answer
	before   map[core.ID]int // the number of tickets before each ticket of this client
	told     core.Time       // the time at which all watchers were last woken
}

// More watchers than mostWatchers are woken once per watchTime at most, so that hand-offs do not
// spend their time on that.
const mostWatchers, watchTime = 64, core.Span(100e6)

// watchPlace notes that a call whose caller is told its place begins to wait.
func (l *lockState) watchPlace(w *waiter) {
	s := l.shard
	a := s.audiences[l]
	if a == nil {
		a = &audience{before: make(map[core.ID]int)}
		if s.audiences == nil {
			s.audiences = make(map[*lockState]*audience)
		}
		s.audiences[l] = a
	}
	a.watchers++
	w.watches = true
}

// isWatched reports whether a call waits whose caller is told its place.
func (l *lockState) isWatched() bool {
	return len(l.shard.audiences) > 0 && l.shard.audiences[l] != nil
}

// noteLeftLine notes that a call has ended, so that the calls behind it move up.
func (l *lockState) noteLeftLine(w *waiter) {
	a := l.shard.audiences[l]
	if a == nil {
		return
	}
	if w.watches {
		if a.watchers--; a.watchers == 0 {
			delete(l.shard.audiences, l)
			return
		}
	}
	if at := l.shard.at.Time; a.watchers <= mostWatchers || at.Since(a.told) >= watchTime {
		l.wakeWatchers(a)
	}
}

// notePlace notes the place at which Redis found a ticket.
func (l *lockState) notePlace(x *exchange) {
	a := l.shard.audiences[l]
	if a == nil || x.Answer.Err != nil || x.Answer.Fault != core.Answered {
		return
	}
	for id := range a.before {
		if l.Find(id) == nil {
			delete(a.before, id)
		}
	}
	if delete(a.before, x.Cmd.ID); x.Answer.Before >= 0 {
		a.before[x.Cmd.ID], a.tickets = x.Answer.Before, x.Answer.Tickets
	}
	l.wakeWatchers(a)
}

func (l *lockState) wakeWatchers(a *audience) {
	a.told = l.shard.at.Time
	for call := range l.Waiters {
		if w := call.Tag.(*waiter); w.watches {
			w.wake()
		}
	}
}

// tellTime is the longest interval at which a caller is told its place, once that is known.
const tellTime = core.Span(2e9)

// startTellingPlace begins to tell the caller its place, and reports whether it does: if the place
// or the number of waiters has changed, or if it is time to, within the span ahead. A place that is
// not known, as that of a ticket which has just joined with a release, is told as it was.
func (l *lockState) startTellingPlace(w *waiter, ahead core.Span) bool {
	if w.telling != nil {
		return false
	}
	place, waiting, known := l.placeOf(w)
	now := l.shard.at.Time
	moved := known && (place != w.place || waiting != w.waiting)
	due := w.place > 0 && now.Since(w.toldAt) >= tellTime-ahead
	if !moved && !due {
		return false
	}
	if w.toldAt = now; known {
		w.place, w.waiting = place, waiting
	}
	w.telling = make(chan struct{})
	go l.shard.callProgress(w, w.telling, w.place, w.waiting)
	return true
}

// placeOf returns the place of the call, and the number of waiters. They are known if the lock is
// held here, or if Redis has said where the call's own ticket or one before it stands.
func (l *lockState) placeOf(w *waiter) (place, waiting int, known bool) {
	strict := l.kind().core.Strict
	if strict || w.Most != 0 {
		return l.placeOfOwn(w, strict)
	}
	a, at, unticketed := l.shard.audiences[l], 0, 0
	known = l.IsHeld()
	for call := range l.Waiters {
		at++
		before, ok := a.ticketsBefore(call)
		if ok {
			at = max(at, before+unticketed+1)
		}
		if place == 0 && ok {
			known = true
		}
		if call == &w.Call {
			place = at
		}
		if call.Tenure == nil {
			unticketed++
		}
	}
	return place, max(a.tickets+unticketed, at), known && place > 0
}

// placeOfOwn is place for a call with a ticket of its own, whose place Redis knows: the line here
// may have another order. Callers before it that share a ticket are added; for a strict lock there
// are none, since each takes a ticket of its own.
func (l *lockState) placeOfOwn(w *waiter, strict bool) (place, waiting int, known bool) {
	a, ahead, unticketed := l.shard.audiences[l], 0, 0
	for call := range l.Waiters {
		if call == &w.Call {
			ahead = unticketed
		}
		if call.Tenure == nil {
			unticketed++
		}
	}
	before, ok := a.ticketsBefore(&w.Call)
	if strict {
		ahead = 0
	}
	place = before + ahead + 1
	return place, max(a.tickets+unticketed, place), ok
}

// ticketsBefore returns the number of tickets before that of the call, if it is known.
func (a *audience) ticketsBefore(call *core.Call) (before int, ok bool) {
	if call.Tenure != nil {
		before, ok = a.before[call.Tenure.ID]
	}
	return before, ok
}

// callProgress calls the caller's function, in a goroutine of its own. If the function panics, or
// ends that goroutine, the call leaves, and gives back what it was granted.
func (s *shard) callProgress(w *waiter, told chan struct{}, place, waiting int) {
	returned := false
	defer func() {
		ends := runtime.Goexit
		if value := recover(); value != nil {
			why := &terms.PanicError{Value: value, Stack: debug.Stack()}
			ends = func() { panic(why) }
		}
		s.glance(func() {
			if w.telling = nil; !returned {
				w.ends = ends
			}
			w.wake()
			close(told)
		})
	}()
	w.req.Progress(place, waiting)
	returned = true
}

// turnTime is the time for which a call keeps a lock that it is granted while its caller's function
// runs, since other callers must not wait for the function. After it the call waits again, behind
// them.
const turnTime = time.Second

// awaitTold waits until the caller's function has ended. It reports whether the call was granted
// the lock and has missed its turn.
func (c *Client) awaitTold(n *Name, w *waiter) (missed bool) {
	var told chan struct{}
	c.shardOf(n).glance(func() { told = w.telling })
	if told == nil {
		return false
	}
	if w.Outcome == core.Acquired {
		turn := time.NewTimer(turnTime)
		defer turn.Stop()
		select {
		case <-told:
			return false
		case <-turn.C:
		}
		l, now := c.enter(n, w.Owner)
		was, _, ok := l.Unlock(w.Owner, w.Mode, w.Handle, now)
		if missed = ok; ok { // else the lock was lost, and its caller learns that
			l.shard.counts.countUndone(w.req.Way, was.First)
		}
		l.shard.exit(l)
	}
	<-told
	return missed
}

// waitAgain waits for the lock once more, after the call has missed its turn.
func (c *Client) waitAgain(ctx context.Context, n *Name, w *waiter) error {
	req, h := w.req, w.hold
	if req.Wait < terms.Forever {
		req.Wait = max(req.Wait-time.Duration(c.clock.now().Time.Since(w.Began)), 0)
	}
	c.recycle(w)
	return c.acquire(ctx, n, &req, h)
}
