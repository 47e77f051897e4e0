package core

// Answer gives the lock the reply to a command, for the command's tenure and for the call c that
// sent it. c is nil if the keeper sent the command, or if the call has returned before the reply:
// its memory may be a call of another lock by then. Each command has one Answer, also if its call
// has left.
func (l *Lock) Answer(cmd *Command, c *Call, a Reply, now Now) {
	switch {
	case cmd.Tenure != nil:
		l.answerTenure(cmd.Tenure, cmd.tenureSeq, a, now)
	case cmd.Op == Leave:
		l.answerForce(cmd.ID, a, now)
	case l.held == nil || l.held.ID != cmd.ID: // the guarded write of a hold that is over
	case a.Fault == Answered && a.Found != Holds && (cmd.Mode == Shared || l.levels.writes > 0):
		l.loseAll(KeyGone, now) // Redis may still show a part of the tenure, for example a reader whose lease has ended
	}
	if c != nil && c.Purpose != Locks && c.Outcome == Waiting {
		l.answerCall(c, cmd, a)
	}
	if cmd.joins != nil {
		if a.Fault == Answered {
			a.Fault = a.JoinFault
		}
		l.answerTenure(cmd.joins, cmd.joinsSeq, a, now)
	}
	l.Settle(now)
}

// answerForce deals with the answer to the release of a tenure by force. The answer may come before
// an older one, to the command that brought the tenure in, and before the message that grants it
// the lock: both count for nothing then, since no tenure comes into the lock twice. For example:
//
//	this client     Redis              another client
//	Acquire of t    t has the lock
//	                t is out           Acquire: it has the lock
//	by force: t     (after Acquire)
//	reads: t left
//	reads: t holds                     two holders, unless t is over since the first answer
func (l *Lock) answerForce(id ID, a Reply, now Now) {
	t := l.Find(id)
	switch {
	case t == nil || t.want == Gone || t.want == Parted: // no owner in this client holds the lock by t
	case a.Fault != Answered: // the command may have been executed
		t.checkSoon(removal, now)
		l.touch(t)
	case !a.Left:
	case t.want == Held:
		t.noteTakenOut()
		l.loseAll(ByForce, now)
	default:
		t.noteTakenOut()
		l.replaceTicket(t, now)
	}
}

// answerTenure deals with the answer to the tenure's command with the number seq. If the command is
// no longer in flight, the answer is dropped.
func (l *Lock) answerTenure(t *Tenure, seq uint32, a Reply, now Now) {
	if t.lock == l {
		l.touch(t) // another command may be due, and its call may be about to return
	}
	f, ok := t.endFlight(l, seq)
	if !ok {
		return
	}
	t.noteAnswer(f, a, now)
	if w := t.Agent; w != nil && w.Purpose == Locks {
		if f.op == Look && f.asks == heeds && a.Fault == Answered {
			l.noteLetThrough(w, t, a.Takes, now)
		}
		l.answerTicket(w, t, a, now)
	}
	if f.op == Mirror {
		shown := a.Fault == Answered && a.Found == Holds
		switch {
		case t.want != Parted || t.within > 0:
		case shown:
			t.noteShownFor(f.lease, now)
		default: // Redis has not confirmed that the lock was passed on
			l.makeGone(t, now)
		}
		if shown && f.asks != asksNot {
			t.contention.noteOthers(a.Others, now)
			l.noteWanted(t == l.held && a.Others > 0)
			if f.asks == heeds && t == l.held {
				l.noteTakeover(a.Takes)
			}
			t.step = t.step || f.asks == opens && a.Others > 0 && (t == l.held && l.isRead() || t.want == Parted)
		}
	}
	if a.Fault == Answered && a.HeldBack && a.HeldFor <= 0 && t.mode == Alone && t.want == Asked {
		l.putReadersFirst(now)
	}
	l.settleTicket(t, now)
}

// answerTicket deals with an answer that does not bring the ticket the lock. The ticket stands for
// the call w.
func (l *Lock) answerTicket(w *Call, t *Tenure, a Reply, now Now) {
	switch {
	case a.Fault != Answered:
		l.noteUnanswered(w, t, a.Fault, now)
	case a.Unreplicated && t.entry == Resume:
		l.endWait(w, Failed, now)
	case a.Unreplicated:
		l.makeGone(t, now)
		w.rest = now.Time.After(l.client.pause(l.client.Retry, l.client.MaxRetry, w.fails))
		w.fails++
	case a.Full && w.isBounded(): // else the bound was the bound of a call that has left, and w asks again
		// Callers of this client may have left since the count: w reports at least its bound.
		w.Others = max(int32(a.Tickets+l.unticketed(w)), w.Most)
		l.makeGone(t, now)
		l.endWait(w, Full, now)
	case a.Found != Holds:
		if t.takes == takesOver && t.place == InQueue {
			l.noteHolders(w, t, a.Holders, now)
		}
		w.admitted = w.admitted || t.place == InQueue && w.isBounded()
		l.noteDenied(w, t, a, now)
	}
}

// A verdict is what the answer to a command says of its tenure.
type verdict uint8

const (
	hasLock    verdict = iota // the tenure has the lock
	inQueue                   // the tenure stands in the queue
	nowhere                   // the tenure is nowhere
	hasLeft                   // the tenure has left
	absent                    // the tenure was not there, and cannot come any more
	wasGranted                // the lock was granted to the tenure after its want became Gone
	executed                  // the command was executed, and did not change the place
	notRun                    // the command was not executed, and will not be
	unknown                   // the command may still be executed
	fatal                     // the command was refused, and would be refused again

	verdicts = iota // the number of verdicts
)

// A change is the new place after an answer, if there is one.
type change uint8

const (
	asItWas change = iota
	toOut
	toUnsure
	toInQueue
	toOwner
)

// answers has the place of a tenure after the answer to each command: see the picture in doc.go.
// Two answers are decided elsewhere: that to the last Leave, after which the tenure is Out by the
// clock, and a grant that comes too late to be believed.
var answers = [ops][verdicts]change{
	Acquire: {hasLock: toOwner, nowhere: toOut, notRun: toOut, fatal: toOut},
	Resume:  {hasLock: toOwner, nowhere: toOut},
	Join:    {hasLock: toOwner, inQueue: toInQueue, nowhere: toOut, notRun: toOut, fatal: toOut},
	Look:    {hasLock: toOwner, inQueue: toInQueue, nowhere: toOut},
	Mirror:  {hasLock: toOwner, nowhere: toUnsure, fatal: toOut},
	Leave:   {hasLeft: toOut, absent: toOut, wasGranted: toOwner, fatal: toOut},
}

// verdict returns what the answer to the flight says. A Leave that has not found its tenure is no
// proof that the tenure cannot come any more (the rule LeaveAgain of the explorer):
//
//	this client             Redis
//	Acquire of t: lost      (still on its way)
//	Leave of t              t is not there
//	                        Acquire of t: t has the lock
//	reads: t was not there  if that counted as absent, no client would release the lock before its lease ends
func (t *Tenure) verdict(f flight, a Reply) verdict {
	switch a.Fault {
	case NotRun, Skipped:
		return notRun
	case Unknown, Behind:
		return unknown
	case Fatal:
		return fatal
	case Answered:
	default:
		panic("core: a reply with the fault " + a.Fault.String())
	}
	//exhaustive:ignore
	switch f.op {
	case Step, Unmark:
		return executed
	case Leave:
		switch {
		case t.news == grant:
			return wasGranted // its Join ran late
		case a.Left:
			return hasLeft
		case t.place == Unsure && !a.Settled && f.at.Time < t.late:
			return unknown // the command that brings the tenure in may run yet: the Leave is sent again, until a lease has passed
		}
		return absent
	case Acquire, Resume, Join, Look, Mirror:
		switch a.Found {
		case Holds:
			return hasLock
		case Waits, First:
			return inQueue
		case Nowhere:
			joinsNext := t.Agent != nil && t.Agent.Waits // the Join is a step as well
			if f.op == Acquire && a.Holder == (ID{}) && !a.Foreign && !joinsNext {
				return executed // the lock is free: the Leave of t is the step that grants it to the first ticket
			}
			return nowhere
		default:
			panic("core: a reply that has found the tenure " + a.Found.String())
		}
	default:
		panic("core: a reply to a command " + f.op.String())
	}
}

// Settle makes the lock consistent at the end of an event: holds whose time is over end, and the
// first waiter gets a ticket.
func (l *Lock) Settle(now Now) {
	l.endLapsed(now)
	if l.line.overdue > 0 {
		l.endDecided(now)
	}
	if w := l.line.first(); w != nil {
		if w.Mode == Shared {
			l.admitReaders(false, now) // a writer before the readers may have left
			if l.holdsBack() && l.held.claim {
				l.touch(l.held) // the Mirror of the tenure is due sooner
			}
		}
		l.seekFirstTicket(now)
		l.noteWanted(l.line.Len() > 0)
	}
	if l.foreign.channel != unsubscribed {
		l.ignoreForeign()
	}
}

// endLapsed ends the holds whose time is over. An event that reads the held tenure calls it first.
func (l *Lock) endLapsed(now Now) {
	switch t := l.held; {
	case t == nil:
	case t.place != Owner:
		l.loseAll(KeyGone, now)
	case now.Safe >= l.TrustedUntil():
		cause := Unrenewed
		if l.levels.asked != NeverSafe && t.fails == 0 && !t.old && t.shown == l.shape(now) { // every lease is believed for a little less than its length
			cause = LeaseEnded
		}
		l.loseAll(cause, now)
	case now.Safe >= l.yieldsAt():
		l.loseAll(ByTakeover, now)
	default:
		if now.Safe >= l.levels.ends { // the time of some owners is over, while others may go on
			tooLong, ended := l.removeExpired(now)
			l.reportLost(tooLong, TooLong)
			l.reportLost(ended, LeaseEnded)
			if l.IsHeld() {
				l.noteLevelsChanged(now)
			} else {
				l.endHolding(now)
			}
		}
	}
}

// settleTicket begins the hold of a ticket that has the lock, or replaces a ticket that can no
// longer get it. One whose Join has no answer is replaced as well, and does not join again: a grant
// is trusted from the command before its message, which is sound only if a ticket joins once
// (JoinOnce).
//
//	this client                    Redis
//	Join of t: lost                t joins, and is granted the lock
//	                               (the message is late) the claim ends; others have the lock
//	Join of t again                t joins a second time
//	reads: t waits
//	hears: t was granted the lock  if t had joined twice, this old grant would be trusted from the second Join
func (l *Lock) settleTicket(t *Tenure, now Now) {
	switch w := t.Agent; {
	case t.want != Asked:
	case t.place == Owner:
		l.beginGrantedHold(t, now)
	case t.place == Out || t.place == Unsure && t.entry != Resume && !t.underWay(): // the ticket cannot get the lock any more
		l.makeGone(t, now)
		if w != nil && w.position.InLine() {
			l.seekTicket(w, now)
		}
	}
}

// replaceTicket replaces a ticket that was taken out of Redis, and not by a command of its own: the
// call asks again, with a new ticket.
func (l *Lock) replaceTicket(t *Tenure, now Now) {
	switch w := t.Agent; {
	case w == nil:
	case t.entry == Resume: // a Resume names one tenure, which is gone
		l.endWait(w, NotPassed, now)
		return
	case t.entry == Acquire:
		w.tried = max(w.tried-1, 0)
	}
	l.settleTicket(t, now)
}

// beginGrantedHold begins the hold of a ticket that has the lock.
func (l *Lock) beginGrantedHold(t *Tenure, now Now) {
	w := t.Agent
	way := ByRedis
	//exhaustive:ignore
	switch t.entry {
	case Acquire:
	case Join:
		way = ByQueue
	case Resume:
		way = ByPass
	default:
		panic("core: a ticket enters by " + t.entry.String())
	}
	w.Tenure, t.Agent = nil, nil
	t.alarm = 0 // the keeper is the agent now, and is notified since the tenure is touched
	switch {
	case l.held == nil:
	case t.mode == Shared && l.isRead(): // the readers keep the lock, through the new tenure
		was := l.held
		l.held, t.named = t, w.Owner // before makeGone, which ends the least hold if the tenure is the lock's own
		l.makeGone(was, now)
		for i := range l.levels.all {
			l.levels.all[i].wrote = false // no guarded write was sent in the new tenure
		}
		t.makeHeld()
		l.admit(w, way, now)
		l.admitOthers(w, now)
		l.noteLevelsChanged(now)
		return
	default:
		l.loseAll(KeyGone, now) // Redis gave the key to t, so the held tenure has lost it
	}
	l.takeFromLine(w, now)
	l.beginHold(t, w, way, now)
}

// beginHold opens the first level of a hold in the tenure t, after a grant or a hand-off. It does
// not retain w.
func (l *Lock) beginHold(t *Tenure, w *Call, way Way, now Now) {
	if way == ByHandoff {
		t.tokens.nextHold()
	}
	t.named = w.Owner
	l.held, t.mode = t, w.Mode
	t.makeHeld()
	l.openLevel(w, way, now)
	if !t.old && t.shown == oneLevel(w.Owner, w.Mode) { // Redis already shows the owner
		l.noteShowing(t, now)
	}
	if l.line.first() != nil {
		l.admitOthers(w, now)
	}
	l.noteLevelsChanged(now)
}

// admit gives a waiter a level beside the open ones.
func (l *Lock) admit(w *Call, way Way, now Now) {
	l.takeFromLine(w, now)
	l.openLevel(w, way, now)
}

// takeFromLine removes a waiter from the line, and wakes its call: the caller of takeFromLine opens
// its level.
func (l *Lock) takeFromLine(w *Call, now Now) {
	l.line.remove(w)
	l.line.calls--
	if w.Tenure != nil {
		l.passTicket(w, now)
	}
	l.addEffect(Effect{Kind: Wake, Call: w})
}

// admitOthers admits the waiters that need not wait now that w has the lock: other calls of its
// owner, and, beside a reader, the readers behind it.
func (l *Lock) admitOthers(w *Call, now Now) {
	l.admitOwner(w.Owner, now)
	if w.Mode == Shared {
		l.admitReaders(true, now)
	}
}

// admitOwner admits the other calls of an owner that has the lock now, since an owner does not wait
// for itself. Most owners cannot have other calls: then it does not walk the line.
func (l *Lock) admitOwner(o OwnerID, now Now) {
	if first := l.line.first(); first == nil || first.Owner != o && l.line.repeats[o] == 0 {
		return
	}
	for in := range l.line.All {
		switch w := in.Value; {
		case w.Owner != o:
		case l.exceeds(w):
			l.endWait(w, Upgrades, now)
		default:
			l.admit(w, ByNesting, now)
		}
	}
}

// loseAll ends all holds, and gives the tenure back, which Redis may still show.
func (l *Lock) loseAll(cause Cause, now Now) {
	if cause == KeyGone && now.Safe >= l.yieldsAt() { // no ticket takes a holder out in its grace
		cause = ByTakeover
	}
	l.reportLost(l.levels.all, cause)
	l.levels = levels{l.levels.all[:0], sum(nil)}
	if cause == ByClose || cause == LeaseEnded { // Redis has the tenure
		l.endHolding(now)
		return
	}
	l.makeGone(l.held, now)
}
