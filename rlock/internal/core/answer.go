package core

// The answers to commands. Each command has one, also if its call has left.

// Answer tells the lock the result of a command, which counts for its tenure and for the call c that has sent it. c is nil if
// the keeper has sent it, and if the call has returned before: its memory may be a call of another lock by then.
func (l *Lock) Answer(cmd *Command, c *Call, a Reply, now Now) {
	switch {
	case cmd.Tenure != nil:
		l.lands(cmd.Tenure, cmd.tenureSeq, a, now)
	case cmd.Op == Write:
		l.wrote(cmd.ID, cmd.Mode, a, now)
	case cmd.Op == Leave: // by force
		l.forced(cmd.ID, a, now)
	default:
		panic("core: an answer to a command " + cmd.Op.String() + " of no tenure")
	}
	if c != nil && c.Purpose != Locks && c.Outcome == Waiting {
		l.answers(c, cmd, a)
	}
	l.moved(cmd.Tenure)
	if cmd.joins != nil {
		if a.Fault == Answered {
			a.Fault = a.JoinFault
		}
		l.lands(cmd.joins, cmd.joinsSeq, a, now)
		l.moved(cmd.joins)
	}
	l.Settle(now)
}

// lands deals with an answer if it is to the command of the tenure that is in flight.
func (l *Lock) lands(t *Tenure, seq uint32, a Reply, now Now) {
	if t.lock != l {
		return
	}
	if f, ok := t.lands(seq); ok {
		l.answered(t, f, a, now)
	}
}

// moved has the agent of the tenure told of its time after an answer.
func (l *Lock) moved(t *Tenure) {
	if t != nil && t.lock == l {
		l.touch(t)
	}
}

// answered deals with the answer to the tenure's command.
func (l *Lock) answered(t *Tenure, f flight, a Reply, now Now) {
	t.answered(f, a, now)
	if w := t.Agent; w != nil && w.Purpose == Locks {
		l.answersTicket(w, t, a, now)
	}
	switch {
	case f.op != Mirror:
	case t.want == Parted && t.within == 0:
		if a.Fault == Answered && a.Found == Holds {
			t.showsFor(f.lease, now)
		} else { // the pass is not confirmed
			l.give(t, now)
		}
		l.mirrored(t, f, a, now)
	default:
		l.mirrored(t, f, a, now)
	}
	if a.Fault == Answered && a.HeldBack && a.HeldFor <= 0 && t.mode == Alone && t.want == Asked {
		l.giveWay(now)
	}
	l.ticketMoved(t, now)
}

// answersTicket tells the call for which the ticket stands what the answer says, unless that has the lock.
func (l *Lock) answersTicket(w *Call, t *Tenure, a Reply, now Now) {
	switch {
	case a.Fault != Answered:
		l.unanswered(w, t, a.Fault, now)
	case a.Unreplicated && t.entry == Resume:
		l.leave(w, Failed, now)
	case a.Unreplicated:
		l.give(t, now)
		w.rest = now.Time.After(l.client.pause(l.client.Retry, l.client.MaxRetry, w.fails))
		w.fails++
	case a.Full && w.isBounded(): // else the call that has asked has left, and this one asks again
		l.refuseFull(w, a.Tickets, now)
	case a.Found != Holds:
		w.admitted = w.admitted || t.place == InQueue && w.isBounded()
		l.denied(w, t, a, now)
	}
}

// mirrored notes what the answer to a mirror says of the others.
func (l *Lock) mirrored(t *Tenure, f flight, a Reply, now Now) {
	if f.asks == asksNot || a.Fault != Answered || a.Found != Holds {
		return
	}
	t.share.heardOf(a.Others, now)
	switch {
	case t == l.owner && l.isRead(), t.want == Parted:
		t.step = t.step || f.asks == opens && a.Others > 0
	}
}

// A verdict is what the answer to a command says of its tenure.
type verdict uint8

const (
	holds    verdict = iota // it has the lock
	waits                   // it stands in the queue
	free                    // it is nowhere, Redis has named no holder, and no ticket follows: a step has to find the first
	nowhere                 // it is nowhere
	left                    // it has left
	absent                  // it was not there, and cannot come any more
	granted                 // the lock was granted to it since it was to leave
	executed                // the command was executed, and says nothing
	notRun                  // the command was not executed, and will not be
	unknown                 // the command may still be executed
	fatal                   // the command was refused, and would be refused again

	verdicts = iota // how many there are
)

// A change is the place after an answer, if that changes it.
type change uint8

const (
	asItWas change = iota
	toOut
	toUnsure
	toInQueue
	toOwner
)

// answers has the place of a tenure after the answer to each command. The picture in doc.go shows it. Two answers are
// not in it: the last Leave, after which the tenure is Out by the clock, and a grant that comes too late to be believed.
var answers = [ops][verdicts]change{
	Acquire: {holds: toOwner, nowhere: toOut, notRun: toOut, fatal: toOut},
	Resume:  {holds: toOwner, free: toOut, nowhere: toOut},
	Join:    {holds: toOwner, waits: toInQueue, free: toOut, nowhere: toOut, notRun: toOut, fatal: toOut},
	Look:    {holds: toOwner, waits: toInQueue, free: toOut, nowhere: toOut},
	Mirror:  {holds: toOwner, free: toUnsure, nowhere: toUnsure, fatal: toOut},
	Leave:   {left: toOut, absent: toOut, granted: toOwner, fatal: toOut},
}

// verdict returns what the answer to the flight says.
func (t *Tenure) verdict(f flight, a Reply) verdict {
	switch a.Fault {
	case NotRun:
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
			return granted // by a command that ran late
		case a.Left:
			return left
		case t.mayCome(f, a):
			return unknown // it is tried again for a lease, and less and less often
		}
		return absent
	case Acquire, Resume, Join, Look, Mirror:
		switch a.Found {
		case Holds:
			return holds
		case Waits, First:
			return waits
		case Nowhere:
			if a.Holder == (ID{}) && !a.Foreign && !t.joinsNext() {
				return free
			}
			return nowhere
		default:
			panic("core: a reply that has found the tenure " + a.Found.String())
		}
	default:
		panic("core: a reply to a command " + f.op.String())
	}
}

// joinsNext reports whether the call of the ticket, which has tried once, waits in the queue next: its Join is a step, too.
func (t *Tenure) joinsNext() bool { return t.entry == Acquire && t.Agent != nil && t.Agent.Waits }

// Settle makes the lock consistent at the end of an event: a hold that is over ends, and the first waiter gets a tenure.
func (l *Lock) Settle(now Now) {
	l.lapse(now)
	if l.line.overdue > 0 {
		l.decided(now)
	}
	if w := l.line.first(); w != nil {
		if w.Mode == Shared {
			l.admitReaders(false, now) // a writer before them may have left
		}
		l.seek(now)
	}
	if l.abroad.hears != deaf {
		l.dismiss()
	}
}

// lapse ends the holds whose time is over: an event looks at the owner after it.
func (l *Lock) lapse(now Now) {
	switch t := l.owner; {
	case t == nil:
	case t.place != Owner:
		l.lose(KeyGone, now)
	case now.Safe >= l.TrustedUntil():
		cause := Unrenewed
		if l.levels.asked != NeverSafe && t.fails == 0 && !t.old && t.shown == l.shape(now) { // a little before its time, as each lease that is believed
			cause = LeaseEnded
		}
		l.lose(cause, now)
	default:
		if now.Safe >= l.levels.ends {
			l.ended(now)
		}
	}
}

// ended ends the holds of those owners whose time is over.
func (l *Lock) ended(now Now) {
	tooLong, ended := l.expire(now)
	l.loses(tooLong, TooLong)
	l.loses(ended, LeaseEnded)
	if l.IsHeld() {
		l.changed(now)
	} else {
		l.give(l.owner, now)
	}
}

// ticketMoved starts the hold of a granted ticket, or replaces a ticket that can no longer be granted.
func (l *Lock) ticketMoved(t *Tenure, now Now) {
	switch w := t.Agent; {
	case t.want != Asked:
	case t.place == Owner:
		l.taken(t, now)
	case t.isMissing():
		l.give(t, now)
		if w != nil && w.position.InLine() {
			l.seekFor(w, now)
		}
	}
}

// taken begins a hold with a ticket that has the lock.
func (l *Lock) taken(t *Tenure, now Now) {
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
	t.alarm = 0 // the keeper is its agent now, and is about to be told
	switch {
	case l.owner == nil:
	case t.mode == Shared && l.isRead(): // those that read go on, by this one
		l.give(l.owner, now)
		l.owner, t.named = t, w.Owner
		l.exchanged()
		t.holds()
		l.admit(w, way, now)
		l.admitOthers(w, now)
		l.changed(now)
		return
	default:
		l.lose(KeyGone, now) // it is the ticket's
	}
	l.served(w, now)
	l.begin(t, w, way, now)
}

// begin opens the first level of a hold on t after a grant or a hand-off. It does not retain w.
func (l *Lock) begin(t *Tenure, w *Call, way Way, now Now) {
	if way == ByHandoff {
		t.tokens.passOn()
	}
	t.named = w.Owner
	entered := !t.old && t.shown == oneLevel(w.Owner, w.Mode)
	l.owner, t.mode = t, w.Mode
	t.holds()
	l.open(w, way, now)
	if entered { // Redis shows it
		l.showing(t, now)
	}
	if l.line.first() != nil {
		l.admitOthers(w, now)
	}
	l.changed(now)
}

// admit gives a waiter a level beside those that there are.
func (l *Lock) admit(w *Call, way Way, now Now) {
	l.served(w, now)
	l.open(w, way, now)
}

// served removes a waiter from the line, since it is about to have the lock. Its goroutine may not look at the lock again.
func (l *Lock) served(w *Call, now Now) {
	l.line.leave(w)
	l.line.calls--
	if w.Tenure != nil {
		l.pass(w, now)
	}
	l.tell(Effect{Kind: Wake, Call: w})
}

// admitOthers lets in those that need not wait now that w has the lock: the other calls of its owner, and beside a reader
// those behind it.
func (l *Lock) admitOthers(w *Call, now Now) {
	l.admitOwner(w.Owner, now)
	if w.Mode == Shared {
		l.admitReaders(true, now)
	}
}

// admitOwner lets in the other calls of an owner that has the lock now: an owner does not wait for itself. Most owners
// cannot have other calls, so that no hand-off walks the line.
func (l *Lock) admitOwner(o OwnerID, now Now) {
	if first := l.line.first(); first == nil || first.Owner != o && l.line.repeats[o] == 0 {
		return
	}
	for in := range l.line.All {
		switch w := in.Value; {
		case w.Owner != o:
		case l.exceeds(w):
			l.leave(w, Upgrades, now)
		default:
			l.admit(w, ByNesting, now)
		}
	}
}

// lose ends the holds of the owner. Redis may show it yet.
func (l *Lock) lose(cause Cause, now Now) {
	l.loses(l.levels.all, cause)
	l.closeAll()
	l.give(l.owner, now)
}
