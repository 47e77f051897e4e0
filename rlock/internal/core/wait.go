package core

import (
	"github.com/go-rlock/rlock/waitqueue"
)

// An Outcome is the end of a call.
type Outcome uint8

const (
	Waiting    Outcome = iota // the call has not ended
	Acquired                  // the owner holds the lock
	Denied                    // another owner holds the lock
	TimedOut                  // another owner still held the lock when the time of the call was up
	Full                      // more callers wait than the bound of the call allows
	Cancelled                 // the caller has left
	Closed                    // the client has closed
	Upgrades                  // the owner is a reader that wants to write, or asks for more permits than it has: it has to unlock first
	Failed                    // Redis has refused a command, and would refuse it again
	GotAnswer                 // a release has answered the call
	NotPassed                 // the tenure that passed the lock on no longer has it
	Unanswered                // there is no answer to the command that decides who gets the lock
	Done                      // a call that does not lock has ended: see its Result
)

// A Way is how a call acquired the lock.
type Way uint8

const (
	ByRedis   Way = iota // by an Acquire
	ByQueue              // by a ticket in the queue
	ByNesting            // the owner held it already
	ByHandoff            // from another owner of this client
	ByJoining            // beside readers of this client
	ByPass               // from another client, which passed it on
)

// mayTry reports whether the call may send an Acquire.
func (w *Call) mayTry() bool { return w.tried < w.tries }

// A line has the waiters of one lock in their order.
type line struct {
	waitqueue.Queue[*Call]
	calls   int32           // the number of calls, in the line or not, that have neither returned nor acquired the lock
	overdue int32           // the number of waiters that are overdue: see decision
	repeats map[OwnerID]int // the number of waiters by owner, for owners that may have several; it may lack the first waiter
}

// first returns the first waiter, or nil.
func (l *line) first() *Call {
	if w := l.Head(); w != nil {
		return w.Value
	}
	return nil
}

func (l *line) add(w *Call) {
	w.position.Value = w
	l.Join(&w.position)
	if w.counted = w.Repeats && l.Len() > 1; w.counted {
		if l.repeats == nil {
			l.repeats = make(map[OwnerID]int)
		}
		l.repeats[w.Owner]++
	}
	if w.overdue {
		l.overdue++
	}
}

func (l *line) remove(w *Call) {
	if !l.Leave(&w.position) {
		return
	}
	if w.overdue {
		l.overdue--
	}
	if w.counted {
		w.counted = false
		if l.repeats[w.Owner]--; l.repeats[w.Owner] == 0 {
			delete(l.repeats, w.Owner)
		}
	}
}

// seekFirstTicket calls seekTicket for the first waiter, and for the next waiter as long as
// seekTicket ends a wait.
func (l *Lock) seekFirstTicket(now Now) {
	for w := l.line.first(); w != nil; w = l.line.first() {
		l.seekTicket(w, now)
		if w.position.InLine() {
			return
		}
	}
}

// seekAllTickets calls seekTicket for each waiter that has a ticket of its own, and then calls
// seekFirstTicket.
func (l *Lock) seekAllTickets(now Now) {
	for w := range l.line.All {
		if l.hasOwnTicket(w.Value) {
			l.seekTicket(w.Value, now)
		}
	}
	l.seekFirstTicket(now)
}

// seekTicket gives the waiter a ticket if it has none and may have one. A waiter that still has no
// ticket and sleeps is notified if Wakes returns a time before its alarm.
func (l *Lock) seekTicket(w *Call, now Now) {
	if w.Tenure == nil && now.Time >= w.rest {
		l.takeTicketOrEnd(w, now)
	}
	if w.position.InLine() && w.Tenure == nil && w.asleep {
		if at := l.Wakes(w, now); at < w.alarm {
			l.addEffect(Effect{Kind: Poll, Call: w, At: at})
		}
	}
}

// takeTicketOrEnd gives a waiter without a ticket a ticket, if it may have a ticket now. It ends
// the wait if the time of the waiter is up.
func (l *Lock) takeTicketOrEnd(w *Call, now Now) {
	w.rest = 0
	mayAcquire := l.line.first() == w && l.held == nil && !l.Busy()
	hasTimeToQueue := l.worthTicket(w, now)
	queuesAtOnce := w.Waits && l.grants == subscribed && hasTimeToQueue // an Acquire would cost it another command if the lock is not free
	switch {
	case !w.Waits && !w.mayTry():
		l.endWait(w, Denied, now)
		l.denyOverdue(w, now)
	case now.Time >= w.Until && !w.mayTry():
		l.endWait(w, TimedOut, now)
	case mayAcquire && w.mayTry() && !queuesAtOnce:
		l.newTicket(w, Acquire)
		w.tried++
	case !w.Waits: // the answer to the command of another call, or to a release, decides
	case !hasTimeToQueue: // the call waits for a hand-off, until its time is up
	case mayAcquire || l.hasOwnTicket(w) || now.Time >= l.ticketDueBesideReaders(w):
		if l.subscribe(now); l.grants != subscribing || now.Time >= l.patient { // confirmed, or waited for long enough
			l.newTicket(w, Join)
		}
	}
}

// worthTicket reports whether the waiter has enough time for a ticket. The ticket of a shorter wait
// would often be granted the lock after the waiter has left.
func (l *Lock) worthTicket(w *Call, now Now) bool {
	return w.Until == Never || w.Until.Since(now.Time) >= l.client.LeastWait
}

// Busy reports whether a command that decides who gets the lock is in flight or due. No waiter asks
// Redis before its answer.
func (l *Lock) Busy() bool {
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.decides() {
			return true
		}
	}
	return false
}

// decides reports whether a command of the tenure that decides who gets the lock is in flight or
// due.
func (t *Tenure) decides() bool {
	return t.underWay() && t.flight.op.Enters() || t.want == Gone && t.place != Out && t.fails == 0
}

// noteDenied deals with an answer that does not bring the waiter the lock.
func (l *Lock) noteDenied(w *Call, t *Tenure, a Reply, now Now) {
	w.fails = 0
	switch {
	case now.Time >= w.Until && t.place == InQueue:
		l.endWait(w, TimedOut, now)
	case t.entry == Resume:
		l.endWait(w, NotPassed, now)
		return
	case t.entry == Acquire && w.tried == 1 && w.tries == 1:
		l.allowRetry(w, a)
	}
	if w.Outcome == Waiting && w.Waits {
		l.subscribe(now)
	}
}

// allowRetry allows a call with a single attempt a second Acquire, if a command of this client
// makes the lock free for it: the Leave of its own tenure, which was refused a free lock with
// tickets, or the release of the holder.
func (l *Lock) allowRetry(w *Call, a Reply) {
	h := l.Find(a.Holder)
	if w.Waits || !(a.Holder == ID{} && !a.Foreign) && (h == nil || h.want != Gone) {
		return
	}
	if w.tries = 2; h != nil {
		h.fails, h.again = 0, 0 // the holder leaves at once
		l.touch(h)
	}
}

// noteUnanswered deals with a command of the waiter that has no answer.
func (l *Lock) noteUnanswered(w *Call, t *Tenure, f Fault, now Now) {
	c, first := l.client, l.line.first() == w
	if !f.isCallers() {
		w.rest = max(t.again, now.Time.After(c.pause(c.Retry, c.MaxRetry, w.fails))) // the pause grows with the failures of the call: each attempt has a new tenure
		w.fails++
	}
	if t.entry == Acquire {
		w.tried = max(w.tried-1, 0) // another tenure sends it again
	}
	switch {
	case f == Fatal:
		l.endWait(w, Failed, now)
	case now.Time >= w.Until || !w.Waits:
		l.endWait(w, TimedOut, now)
	}
	if first && !f.isCallers() {
		l.failOverdue(now)
	}
	if t.want == Gone && !f.isCallers() {
		t.fails = 1 // no other waiter waits for a server that has not answered
	}
}

// endOnTime ends a wait, unless a command of its ticket is in flight: the ticket may have the lock,
// and no waiter would be served if all were impatient and each left when its turn came. A call
// without a ticket becomes overdue while an answer is on its way.
func (l *Lock) endOnTime(w *Call, now Now) {
	if t := w.Tenure; t != nil {
		switch {
		case t.answersSoon(now):
		case t.fails > 0:
			l.endWait(w, TimedOut, now)
		default:
			t.look = now.Time
			l.touch(t)
		}
		return
	}
	switch o, _ := l.decision(w, now); {
	case o != Waiting:
		first := l.line.first() == w
		if l.endWait(w, o, now); first && o == Unanswered {
			l.failOverdue(now)
		}
	case !w.overdue && w.position.InLine():
		w.overdue = true
		l.line.overdue++
	}
}

// answersSoon reports whether a command of the ticket is in flight, or due while Redis answers.
func (t *Tenure) answersSoon(now Now) bool {
	return t.underWay() || t.place == Out || t.fails == 0 && t.lookDue() <= now.Time
}

// endWait ends a wait with an outcome other than Acquired.
func (l *Lock) endWait(w *Call, o Outcome, now Now) {
	l.line.remove(w)
	l.passTicket(w, now)
	w.Outcome = o
	l.addEffect(Effect{Kind: Wake, Call: w})
}

// passTicket gives the ticket of a waiter that has left or was served to the first waiter, if the
// ticket suits the first waiter. So the ticket keeps its place in the queue. A command of the
// ticket may be in flight.
func (l *Lock) passTicket(w *Call, now Now) {
	t, next := w.Tenure, l.line.first()
	w.Tenure = nil
	switch {
	case t == nil:
	case next != nil && next.Tenure == nil && next.Waits && next.Mode == t.mode && next.Answerable == t.answerable && t.entry != Resume && t.takes != takesOver && next.Grace == 0 && l.worthTicket(next, now) &&
		!l.Kind.Strict && !l.client.closed:
		t.Agent, next.Tenure = next, t
		t.doubtMirror() // the text in Redis names the owner of the waiter before
		l.touch(t)
	default:
		l.makeGone(t, now)
	}
}

// Wakes returns the time at which the goroutine of a call that locks has to ask Next, apart from
// the deadline of its ticket. If that time becomes sooner, an effect Poll without a tenure notifies
// the goroutine.
func (l *Lock) Wakes(w *Call, now Now) Time {
	at := w.Until
	switch t := w.Tenure; {
	case t != nil && at <= now.Time && t.answersSoon(now): // the answer decides
		return Never
	case t != nil:
		return at
	}
	if w.overdue {
		if o, by := l.decision(w, now); o == Waiting {
			at = by
		}
	}
	if w.rest > 0 {
		return min(at, w.rest)
	}
	if w.overdue { // it takes no ticket
		return at
	}
	if l.grants == subscribing && (l.line.first() == w || l.hasOwnTicket(w)) {
		at = min(at, max(l.patient, now.Time))
	}
	if from := l.ticketDueBesideReaders(w); from != Never && l.worthTicket(w, now) {
		if l.grants == subscribing {
			from = max(from, l.patient)
		}
		at = min(at, from)
	}
	return at
}

// advanceWaiter ends the wait of a call whose time is up, or else seeks a ticket for it.
func (l *Lock) advanceWaiter(w *Call, now Now) {
	if l.grants == subscribing && now.Time >= l.patient {
		l.grants = notSubscribed
	}
	if now.Time >= w.Until {
		l.endOnTime(w, now)
	}
	if w.Outcome == Waiting {
		l.seekTicket(w, now)
	}
	l.Settle(now)
}

// hasOwnTicket reports whether the waiter takes a ticket of its own wherever it stands in the line.
// Other waiters share one.
func (l *Lock) hasOwnTicket(w *Call) bool { return l.Kind.Strict || w.Most != 0 || w.Grace != 0 }

// A call with a bound waits only if the callers of all clients that wait, the call included, are no
// more than its bound. It has a ticket of its own, like each call for a strict lock. Redis counts
// the tickets in the step in which the ticket joins. Other callers of a client share a ticket: the
// client adds them to the count. Redis checks the bound of a call once: then the call keeps its
// place.

// isBounded reports whether the call has a bound, and no place in the queue yet.
func (w *Call) isBounded() bool { return w.Most != 0 && !w.admitted }

// isFullHere reports whether a call that is not in the line yet would have to wait, beside more
// callers of this client than its bound allows, so that Redis need not be asked. If no caller waits
// or holds the lock here, the lock may be free.
func (l *Lock) isFullHere(w *Call) bool {
	n := l.line.Len()
	return w.Waits && n >= max(int(w.Most), 0) && (n > 0 || l.IsHeld())
}

// unticketed returns the number of callers without a ticket that stand before the waiter in the
// line.
func (l *Lock) unticketed(w *Call) (n int) {
	for before := range l.line.All {
		if before.Value == w {
			break
		}
		if before.Value.Tenure == nil {
			n++
		}
	}
	return n
}
