package core

import (
	"github.com/go-rlock/rlock/waitqueue"
)

// An Outcome is how a call has ended.
type Outcome uint8

const (
	Waiting    Outcome = iota // not yet
	Acquired                  // its owner holds the lock
	Denied                    // another owner holds the lock
	TimedOut                  // the same, after the time that the call had
	Full                      // too many wait for it: its bound
	Cancelled                 // its caller has left
	Closed                    // the client has closed
	Upgrades                  // its owner has less of the lock than it asks for, as a reader that is to write, and has to unlock first
	Failed                    // Redis has refused a command, and would do so again
	GotAnswer                 // a release has answered it
	NotPassed                 // the tenure that has passed the lock on does not have it any more
	Unanswered                // Redis has not answered the command that decides whose the lock is
	Done                      // a call that does not lock: see its Cause, its Fault and Found
)

// A Way is how a call has got the lock.
type Way uint8

const (
	ByRedis   Way = iota // by its first attempt
	ByQueue              // by its ticket
	ByNesting            // its owner has had it
	ByHandoff            // from another owner of this process
	ByJoining            // beside readers of this process
	ByPass               // from another client, which has passed it on
)

// An attempt is where a call that locks is with its Acquires. It may send one, and one more if the holder makes way for that.
type attempt uint8

const (
	tried      attempt = iota // it has sent its Acquire: it is denied, or waits in the queue
	tries                     // it may send an Acquire
	triesAgain                // it may send one more
	triedAgain                // it has sent that one
)

// may reports whether the call may send an Acquire.
func (a attempt) may() bool { return a == tries || a == triesAgain }

// sent returns the state after an Acquire was sent, and unsent the one after it had no answer.
func (a attempt) sent() attempt {
	if a == tries {
		return tried
	}
	return triedAgain
}

func (a attempt) unsent() attempt {
	if a == tried {
		return tries
	}
	return triesAgain
}

// A line has the waiters of one lock in the order in which they came.
type line struct {
	waitqueue.Queue[*Call]
	calls   int32           // that have begun, whether they stand in the line or not, and have neither returned nor the lock
	overdue int32           // waiters whose time is up: see decided
	repeats map[OwnerID]int // waiters whose owners may have several, but for one at most: the first
}

// first returns the first waiter, nil if there is none.
func (l *line) first() *Call {
	if w := l.Head(); w != nil {
		return w.Value
	}
	return nil
}

func (l *line) join(w *Call) {
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

func (l *line) leave(w *Call) {
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

// seek gives the first waiter a tenure if it may have one, and ends its wait if it may not.
func (l *Lock) seek(now Now) {
	for w := l.line.first(); w != nil; w = l.line.first() {
		l.seekFor(w, now)
		if w.position.InLine() {
			return
		}
	}
}

// seekAll calls seekFor for every waiter with a ticket of its own, and seek for the first.
func (l *Lock) seekAll(now Now) {
	for w := range l.line.All {
		if l.hasOwnTicket(w.Value) {
			l.seekFor(w.Value, now)
		}
	}
	l.seek(now)
}

// seekFor gives the waiter a tenure if it has none and may have one. If it has none then, and its
// time comes sooner than its goroutine was told, that one is told.
func (l *Lock) seekFor(w *Call, now Now) {
	if w.Tenure == nil && now.Time >= w.rest {
		l.tryFor(w, now)
	}
	if w.position.InLine() && w.Tenure == nil && w.asleep {
		if at := l.Wakes(w, now); at < w.alarm {
			l.tell(Effect{Kind: Poll, Call: w, At: at})
		}
	}
}

func (l *Lock) tryFor(w *Call, now Now) {
	w.rest = 0
	mayAcquire := l.line.first() == w && l.owner == nil && !l.Busy()
	switch {
	case !w.Waits && !w.attempt.may():
		l.leave(w, Denied, now)
		l.deniesOthers(w, now)
	case now.Time >= w.Until && !w.attempt.may():
		l.leave(w, TimedOut, now)
	case mayAcquire && w.attempt.may() && !(w.Waits && l.hears == listening && l.worthTicket(w, now)): // else it takes a ticket at
		// once: an Acquire would cost it another command if the lock is not free
		l.asks(w, Acquire)
		w.attempt = w.attempt.sent()
	case !w.Waits: // it waits for the answer to the command of another call, or to a release
	case !l.worthTicket(w, now): // it waits for the lock here, or until its time is up
	case mayAcquire || l.hasOwnTicket(w) || l.isHeldBack(w, now):
		l.queue(w, now)
	}
}

// queue gives the waiter a ticket, once this client hears of grants or has waited for that long enough.
func (l *Lock) queue(w *Call, now Now) {
	l.subscribe(now)
	if l.hears != asking || now.Time >= l.patient {
		l.asks(w, Join)
	}
}

// worthTicket reports whether the waiter has the time to wait in the queue: the ticket of a shorter wait would often be
// granted when its waiter has left.
func (l *Lock) worthTicket(w *Call, now Now) bool {
	return w.Until == Never || w.Until.Since(now.Time) >= l.client.LeastWait
}

// Busy reports whether a command is in flight, or due, whose answer decides whose the lock is. No waiter asks before.
func (l *Lock) Busy() bool {
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.decides() {
			return true
		}
	}
	return false
}

// decides reports whether a command of the tenure is in flight, or due, whose answer decides whose the lock is.
func (t *Tenure) decides() bool {
	return t.underWay() && t.flight.op.enters() || t.want == Gone && t.place != Out && t.fails == 0
}

// denied notes that the answer to the waiter's command has not brought the lock.
func (l *Lock) denied(w *Call, t *Tenure, a Reply, now Now) {
	w.fails = 0
	switch {
	case now.Time >= w.Until && t.place == InQueue:
		l.leave(w, TimedOut, now)
	case t.entry == Resume:
		l.leave(w, NotPassed, now)
		return
	case t.entry == Acquire && w.attempt == tried:
		l.mayRetry(w, a)
	}
	if w.Outcome == Waiting && w.Waits {
		l.subscribe(now)
	}
}

// mayRetry gives a single attempt one more command if one that is due makes way for it: the step of a tenure that was refused a
// free lock, or a release of this client.
func (l *Lock) mayRetry(w *Call, a Reply) {
	h := l.Find(a.Holder)
	if w.Waits || !(a.Holder == ID{} && !a.Foreign) && (h == nil || h.want != Gone) {
		return
	}
	if w.attempt = triesAgain; h != nil {
		l.hurries(h)
	}
}

// unanswered notes that the waiter's command has no answer.
func (l *Lock) unanswered(w *Call, t *Tenure, f Fault, now Now) {
	c, first := l.client, l.line.first() == w
	if f != Behind {
		w.rest = max(t.again, now.Time.After(c.pause(c.Retry, c.MaxRetry, w.fails))) // a new tenure has not failed yet
		w.fails++
	}
	if t.entry == Acquire {
		w.attempt = w.attempt.unsent() // by another tenure
	}
	switch {
	case f == Fatal:
		l.leave(w, Failed, now)
	case now.Time >= w.Until || !w.Waits:
		l.leave(w, TimedOut, now)
	}
	if first && f != Behind {
		l.failsOthers(now)
	}
	if t.want == Gone && f != Behind {
		t.fails = 1 // no other waiter waits for a server that has not answered
	}
}

// timeUp ends a wait, unless a command is under way: it may have the lock by now, and no waiter would be served if all
// were impatient and each left when its turn came.
func (l *Lock) timeUp(w *Call, now Now) {
	switch t := w.Tenure; {
	case t == nil:
		l.timeUpWithoutTicket(w, now)
	case t.answersSoon(now):
	case t.fails > 0:
		l.leave(w, TimedOut, now)
	default:
		t.look = now.Time
		l.touch(t)
	}
}

// answersSoon reports whether a command for the ticket is under way, or due while Redis answers.
func (t *Tenure) answersSoon(now Now) bool {
	return t.underWay() || t.place == Out || t.fails == 0 && t.looks(now) <= now.Time
}

// leave ends a wait without the lock.
func (l *Lock) leave(w *Call, o Outcome, now Now) {
	l.line.leave(w)
	l.pass(w, now)
	w.Outcome = o
	l.tell(Effect{Kind: Wake, Call: w})
}

// pass gives the ticket of a waiter that is gone to the next waiter, if it can stand for it, also
// while a command for it is under way: it keeps its place in the queue.
func (l *Lock) pass(w *Call, now Now) {
	t, next := w.Tenure, l.line.first()
	w.Tenure = nil
	switch {
	case t == nil:
	case next != nil && next.Tenure == nil && next.Waits && next.Mode == t.mode && next.Answers == t.takes && t.entry != Resume && l.worthTicket(next, now) &&
		!l.Kind.Strict && !l.client.closed:
		t.Agent, next.Tenure = next, t
		t.unsure() // the owner text in Redis is that of the waiter that left
		l.touch(t)
	default:
		l.give(t, now)
	}
}

// Wakes returns when the goroutine of a call that locks has to ask Next, beside the time of its ticket. If that becomes
// sooner, an effect Poll without a tenure says so.
func (l *Lock) Wakes(w *Call, now Now) Time {
	at := w.Until
	switch t := w.Tenure; {
	case t != nil && at <= now.Time && t.answersSoon(now): // which decides
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
	if l.hears == asking && (l.line.first() == w || l.hasOwnTicket(w)) {
		at = min(at, max(l.patient, now.Time))
	}
	if from, ok := l.heldBackFrom(w); ok && l.worthTicket(w, now) {
		if l.hears == asking {
			from = max(from, l.patient)
		}
		at = min(at, from)
	}
	return at
}

// tick says that a waiter's time may have come.
func (l *Lock) tick(w *Call, now Now) {
	if l.hears == asking && now.Time >= l.patient {
		l.hears = refused
	}
	if now.Time >= w.Until {
		l.timeUp(w, now)
	}
	if w.Outcome == Waiting {
		l.seekFor(w, now)
	}
	l.Settle(now)
}

// hasOwnTicket reports whether the waiter has a ticket wherever it stands in the line.
func (l *Lock) hasOwnTicket(w *Call) bool { return l.Kind.Strict || w.Most != 0 }

// hurries resets the backoff of a Gone tenure: it leaves at once.
func (l *Lock) hurries(t *Tenure) {
	t.fails, t.again = 0, 0
	l.touch(t)
}

// A call with a bound waits only if few others do: the callers of all clients, as far as Redis knows them. Such a call has a ticket
// of its own, as each of a strict lock has. The others of a client share one, so that their client adds them to the tickets that
// Redis counts, in the step in which the ticket joins. A call asks once: it keeps the place that it has been given.

// isBounded reports whether the call waits only if few others do, and has not been given a place.
func (w *Call) isBounded() bool { return w.Most != 0 && !w.admitted }

// isFullHere reports whether the call, which is no waiter yet, has to wait, and so many wait in this client that Redis need not be
// asked. If none waits here and the lock is not held here, it may still be free.
func (l *Lock) isFullHere(w *Call) bool {
	n := l.line.Len()
	return w.Waits && n >= max(int(w.Most), 0) && (n > 0 || l.IsHeld())
}

// bound gives the Join of the waiter its bound, if it has one.
func (l *Lock) bound(cmd *Command, w *Call) {
	if w.isBounded() {
		cmd.Bounded, cmd.Most = true, l.room(w)
	}
}

// room returns how many tickets may stand in the queue with that of the waiter.
func (l *Lock) room(w *Call) int { return max(int(w.Most)-l.unticketed(w), 0) }

// unticketed returns how many callers wait here before the one, and have no ticket.
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

// refuseFull ends the wait of a call whose ticket has found so many others in the queue. Callers here that counted may have left
// since.
func (l *Lock) refuseFull(w *Call, tickets int, now Now) {
	w.Others = max(int32(tickets+l.unticketed(w)), w.Most)
	l.give(w.Tenure, now)
	l.leave(w, Full, now)
}

// The readers of one client share a tenure: in Redis they are one reader, so that to join, to nest and to leave sends
// nothing, but for the last to leave. They hold back for a writer that waits here, since the line is first in, first out,
// and for others elsewhere as a hand-off does: a stream of readers must end.

// mayJoin reports whether the call is a reader's that may hold the lock beside the owners, which have to be readers.
func (l *Lock) mayJoin(w *Call, now Now) bool {
	t := l.owner
	if w.Mode != Shared || !l.isRead() || l.line.Len() > 0 {
		return false
	}
	if l.mayPass(now) {
		if now.Time.Since(t.trust.seen.Time) >= l.client.HandoffTime { // no reader waits here, so that none asks for others
			t.asksSoon()
		}
		return true
	}
	if t.share.contested && now.Time.Since(t.trust.seen.Time) >= l.client.ReadersTime {
		t.asksSoon() // those that waited may have left
		l.touch(t)
	}
	return false
}

// asksSoon makes the next mirror ask whether others wait.
func (t *Tenure) asksSoon() { t.unshown() }

// admitReaders lets in the readers at the front of the line beside those that read: all of them at the beginning of a
// turn, for which they have waited, else as many as may join.
func (l *Lock) admitReaders(all bool, now Now) {
	for w := l.line.first(); w != nil && w.Mode == Shared && l.isRead() && (all || l.mayPass(now)); w = l.line.first() {
		l.admit(w, ByJoining, now)
		l.admitOwner(w.Owner, now)
		l.changed(now)
	}
}

// isHeldBack reports whether the waiter is the reader that is next to join the readers here, and has held back for others
// elsewhere for long enough to take a ticket.
func (l *Lock) isHeldBack(w *Call, now Now) bool {
	from, ok := l.heldBackFrom(w)
	return ok && now.Time >= from
}

// heldBackFrom returns from when the waiter takes a ticket though readers here have the lock.
func (l *Lock) heldBackFrom(w *Call) (from Time, ok bool) {
	t := l.owner
	switch {
	case t == nil || w.Mode != Shared || l.line.first() != w || !l.isRead():
		return 0, false
	case !t.isOpen():
		return w.Began, true
	}
	return w.Began.After(l.client.ReadersTime), t.share.contested
}

// giveWay puts the writers at the front of the line behind the readers: as long as foreign readers keep the writers out,
// readers have a turn now and then.
func (l *Lock) giveWay(now Now) {
	reads := false
	for w := range l.line.All {
		reads = reads || w.Value.Mode == Shared
	}
	if !reads {
		return
	}
	for w := l.line.first(); w.Mode == Alone; w = l.line.first() {
		l.line.leave(w)
		l.line.join(w)
	}
	l.seek(now)
}

// A share is the part of a tenure in which other clients wait: the lock is handed off here for as long as others can be
// asked to wait, and then it is released. A tenure that took a lock which was passed on has no hand-offs while they wait:
// those of the tenure before do not count for it, and clients that pass the lock on in each section would never release it.
type share struct {
	since     Time
	passes    int32
	contested bool
	handed    bool // the lock was handed off since the last mirror that asked for others
}

// heardOf begins or ends a share: so many others wait.
func (t *share) heardOf(others int, now Now) {
	switch {
	case others == 0:
		*t = share{handed: t.handed} // which the next mirror clears
	case !t.contested:
		t.contested, t.since = true, now.Time
	}
}

// spent begins a share without hand-offs. It counts unless no other client waits.
func (t *share) spent(c *Client) { t.passes = int32(c.HandoffLimit) }

// handsOff gives the lock to the next waiter here after its last level was closed, and reports whether it has. Only the first
// waiter is looked at, however long the line is.
func (l *Lock) handsOff(now Now) bool {
	t, w := l.owner, l.line.first()
	if w == nil || t.mode != w.Mode && t.mode != Alone || !l.mayPass(now) {
		return false
	}
	t.share.handed = true
	l.served(w, now)
	l.begin(t, w, ByHandoff, now)
	return true
}

// mayPass reports whether the tenure may go on with the next waiter here: it is worth that, there is a fencing token, no
// former hold has sent a guarded write, and other clients have not waited long enough.
func (l *Lock) mayPass(now Now) bool {
	t, c := l.owner, l.client
	switch {
	case l.Kind.Strict, c.closed, !t.worth(now), t.tokens.spent(), !t.isOpen():
		return false
	case !t.share.contested:
		return true
	}
	l.subscribe(now) // the next ticket can join with the release then
	if int(t.share.passes) >= c.HandoffLimit || now.Time.Since(t.share.since) >= c.HandoffTime {
		return false
	}
	t.share.passes++
	return true
}

// asksOthers reports whether a mirror is to ask whether others wait: if that decides how long this client goes on. It may
// be built at a moment when no caller waits here, between two hand-offs.
func (l *Lock) asksOthers(t *Tenure) bool {
	return l.line.Len() > 0 || t.share.handed || l.isRead()
}

// A call is overdue if its time is up while the answer to a command is on its way that decides whose the lock is: it waits for
// that answer, since a lock whose holder is unknown is not held by another owner. An attempt that does not send a command itself
// is overdue from the beginning. One command serves all of them: readers join a reader that is granted the lock, the others are
// refused when it is granted or denied, and have its fault when it fails.

// decision returns what a call without a ticket is told whose time is up: Denied or TimedOut if another owner has the lock or
// comes first, and Unanswered if Redis has failed. It is Waiting while an answer is on its way, until that time at most. The call
// may not stand in the line yet.
func (l *Lock) decision(w *Call, now Now) (Outcome, Time) {
	if w.fails > 0 || w.attempt == tried || w.attempt == triedAgain {
		return w.timedOut(), 0 // its own command has had an answer, or the fault that its caller is told
	}
	return l.decisionBehind(l.line.first(), w, now)
}

// decisionBehind is decision for a call that has sent nothing, with the first waiter, which may be the call itself.
func (l *Lock) decisionBehind(first, w *Call, now Now) (Outcome, Time) {
	refused := w.timedOut()
	switch {
	case l.owner != nil:
		return refused, 0
	case first == nil || first == w:
	case first.Tenure != nil:
		switch t := first.Tenure; {
		case first.isRefused():
			return refused, 0
		case t.underWay(), t.place == Out:
			return Waiting, Never
		default:
			return Unanswered, 0
		}
	case first.fails > 0:
		return Unanswered, 0
	case first.isRefused():
		return refused, 0
	}
	switch by, some := l.decidedBy(); {
	case first != w:
		return Waiting, Never // the first waiter waits for the same answer, or is about to send its command
	case !some:
		return refused, 0
	case now.Time >= by:
		return Unanswered, 0
	default:
		return Waiting, by
	}
}

// isRefused reports whether the last answer to the call says that another owner has the lock.
func (w *Call) isRefused() bool {
	t := w.Tenure
	switch {
	case t != nil && t.place == InQueue:
		return t.fails == 0
	case w.fails > 0 || w.attempt.may():
		return false
	default:
		return t == nil || t.entry != Acquire
	}
}

// decidedBy returns by when the answers to all commands have to be in that decide whose the lock is, of callers that have left
// it: a server that is silent for longer is not waited for. It reports whether there are such commands.
func (l *Lock) decidedBy() (at Time, some bool) {
	for t := l.tenures.first; t != nil; t = t.behind {
		if !t.decides() {
			continue
		}
		since := t.since
		if t.underWay() {
			since = t.flight.at.Time
		}
		at, some = max(at, since.After(l.client.Silence)), true
	}
	return at, some
}

// timedOut returns the outcome of a call whose time is up while another owner has the lock.
func (w *Call) timedOut() Outcome {
	if w.Waits {
		return TimedOut
	}
	return Denied
}

// timeUpWithoutTicket ends the wait of a call without a ticket, or lets it wait for the answer that is on its way.
func (l *Lock) timeUpWithoutTicket(w *Call, now Now) {
	switch o, _ := l.decision(w, now); {
	case o != Waiting:
		first := l.line.first() == w
		if l.leave(w, o, now); first && o == Unanswered {
			l.failsOthers(now)
		}
	case !w.overdue && w.position.InLine():
		w.overdue = true
		l.line.overdue++
	}
}

// decided ends the overdue calls that are decided.
func (l *Lock) decided(now Now) {
	if l.owner != nil {
		reads := l.isRead()
		l.endOverdue(now, func(w *Call) Outcome {
			if reads && w.Mode == Shared {
				return Waiting
			}
			return w.timedOut()
		})
		if reads && l.line.overdue > 0 {
			l.admitReaders(false, now)
			l.endOverdue(now, (*Call).timedOut)
		}
		return
	}
	first := l.line.first()
	var none Call // it has no command of its own
	if o, _ := l.decisionBehind(first, &none, now); o == Waiting {
		return
	}
	l.endOverdue(now, func(w *Call) Outcome {
		if w == first {
			return Waiting
		}
		o, _ := l.decision(w, now)
		return o
	})
}

// deniesOthers ends the overdue calls that the answer to an attempt refuses, which has left: those that ask for no less. A writer
// may be refused by readers. One with a condition has it checked by its own command.
func (l *Lock) deniesOthers(by *Call, now Now) {
	l.endOverdue(now, func(w *Call) Outcome {
		if w.Mode == Shared && by.Mode == Alone || w.More < by.More || w.Answers {
			return Waiting
		}
		return w.timedOut()
	})
}

// failsOthers ends the overdue calls, since the command that they have waited for has failed.
func (l *Lock) failsOthers(now Now) {
	l.endOverdue(now, func(*Call) Outcome { return Unanswered })
}

// endOverdue ends each overdue call without a ticket by the outcome that end returns, unless that is Waiting.
func (l *Lock) endOverdue(now Now, end func(*Call) Outcome) {
	if l.line.overdue == 0 {
		return
	}
	for in := range l.line.All {
		w := in.Value
		if !w.overdue || w.Tenure != nil {
			continue
		}
		if o := end(w); o != Waiting {
			l.leave(w, o, now)
		}
	}
}
