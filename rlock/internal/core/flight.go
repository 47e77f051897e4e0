package core

// The commands of a lock's tenures.

// A flight is the command of a tenure that is in flight: the latest one, if a Leave has overtaken
// another command.
type flight struct {
	op    Op       // None if no command is in flight
	asks  question // what a Mirror, a Resume or a Look asks beside its own answer
	exact bool     // the Mirror may shorten the lease
	last  bool     // the tenure of the Leave is over whatever the answer is
	seq   uint32   // the number of the command among all tenures that had this memory
	at    Now      // when the command was sent
	lease Span     // the lease that it asks for
}

// A question is whether a command asks how many others wait.
type question uint8

const (
	asksNot question = iota
	asks
	heeds // the Mirror also asks whether a ticket takes the lock over; the Look, whether its ticket does
	opens // the Mirror asks because it gives up the write lock, so that readers of other clients may enter
)

// The flight of a tenure changes here, and only here.

// launch returns the command op of the tenure, which is in flight from now on.
func (t *Tenure) launch(op Op, now Now) Command {
	l, c := t.lock, t.lock.client
	follows, opening := t.follows(now), false
	if t.underWay() { // the command in flight may run after this one, a Leave or the Mirror that passes the lock on
		t.late, opening = now.Time.After(c.Lease), t.flight.asks == opens
	}
	t.flight = flight{op: op, seq: t.flight.seq + 1, at: now}
	cmd := Command{Op: op, Tokens: uint64(t.tokens.reserved), Permits: int(l.Kind.Permits), Follows: follows, Tenure: t, tenureSeq: t.flight.seq}
	//exhaustive:ignore
	switch op {
	case Acquire, Resume, Look:
		t.flight.lease = c.Lease
		if w := t.Agent; w != nil && w.Lease > 0 && !w.Capped { // w is nil if the caller of a Look has left
			t.flight.lease = w.Lease
		}
	case Join:
		t.flight.lease, t.since = t.claimed(), now.Time
		if w := t.Agent; w.isBounded() {
			cmd.Bounded, cmd.Most = true, max(int(w.Most)-l.unticketed(w), 0)
		}
	case Mirror:
		t.fillMirror(&cmd, opening, now)
	case Leave:
		t.flight.last = now.Time >= t.GoneBy()
		cmd.Carries = t.Agent != nil && t.Agent.Carries
	case Step, Unmark: // these have no lease
	default:
		panic("core: a tenure sends a command " + op.String())
	}
	if op.Enters() {
		t.setPlace(Unsure) // until there is an answer
		t.shown, t.note, t.old = oneLevel(t.Agent.Owner, t.mode), t.Agent.Note, false
	}
	if op != Leave {
		t.noteSending(t.flight)
	}
	cmd.Lease = t.flight.lease
	cmd.Ticket = Ticket{t.ID, t.mode, t.polls > 0, t.answerable, t.brief, t.takes != takesNot, t.more, t.shown.owner, t.note}
	if op == Resume {
		cmd.Passed, t.flight.asks = t.Agent.Named, asks
	}
	switch {
	case op != Look || t.Agent == nil:
	case t.takes == letGo:
		t.flight.asks = heeds
	case t.takes == takesOver:
		t.fillTakeover(&cmd, now)
	}
	cmd.Asks, cmd.Heeds = t.flight.asks != asksNot, t.flight.asks == heeds
	if op == Look || op == Leave {
		cmd.Heard, l.foreign.heard = l.foreign.heard, false
	}
	return cmd
}

// fillMirror fills in a Mirror of the levels, or one that passes the lock on. opening says that it
// overtakes a Mirror which gives up the write lock.
func (t *Tenure) fillMirror(cmd *Command, opening bool, now Now) {
	l, f, showedWriter := t.lock, &t.flight, t.shown.writes > 0
	if t.want == Parted { // this Mirror passes the lock on
		f.lease, t.within, f.exact = t.within, 0, true
		t.shown, t.old = oneLevel(passedOnOwner, t.mode), false // t keeps its note: if the pass fails, a permit leaves by the text with the note
	} else {
		if f.lease = l.askedUntil(now).Since(now.Safe); l.levels.asked == NeverSafe {
			f.lease = max(l.client.Lease, l.levels.longest.Since(now.Safe))
		}
		f.exact = l.shortens(t, f.lease, now)
		l.noteShowing(t, now)
		t.note = l.FirstLevel(t.named).Note
	}
	switch {
	case opening || showedWriter && t.shown.writes == 0:
		f.asks = opens
	case t.want != Parted && l.yielding != yieldsNot:
		f.asks = heeds
	case f.exact, t.want != Parted && (l.line.Len() > 0 || t.contention.handedOff || l.isRead() || l.curious):
		f.asks = asks // the answer decides how long this client keeps the lock; between two hand-offs no caller waits here
	}
	if f.asks != asksNot {
		t.contention.handedOff = false
	}
	cmd.Writes, cmd.Reads, cmd.Exact = int(t.shown.writes), t.shown.reads, f.exact
	cmd.Renews = t.want == Held && l.levels.asked == NeverSafe && !t.claim
}

// follows reports whether an earlier command of t may still run.
func (t *Tenure) follows(now Now) bool { return t.underWay() || t.late > now.Time }

// endFlight returns the flight with the number seq, which is no longer in flight. It reports false
// if the tenure of the lock has another one or none, or is over: the answer to a command that was
// overtaken says nothing any more (OwnAnswer).
//
//	this client                      Redis                another client
//	Mirror of t, flight 1            t has the lock
//	Leave of t, flight 2             t has left           Acquire: it has the lock
//	reads flight 2: t has left
//	reads flight 1: t has the lock   if that counted, t would be an owner again
func (t *Tenure) endFlight(l *Lock, seq uint32) (f flight, ok bool) {
	if t.lock != l || !t.underWay() || t.flight.seq != seq {
		return f, false
	}
	f = t.flight
	t.flight.op = None
	return f, true
}

// Poll returns the command that the keeper is to send for the tenure now, None for nothing, and
// when it is to poll again: a hold may end while a command is in flight. The keeper sends the
// command at once, and gives the reply to Answer. A needless Poll is harmless, also of a tenure
// that is over or has another agent.
func (l *Lock) Poll(t *Tenure, now Now) (cmd Command, at Time) {
	if t.lock != l || t.Agent != nil {
		return cmd, Never
	}
	if t == l.held {
		l.Settle(now)
	}
	if t.isOver(now) {
		l.forget(t, now)
		l.Settle(now)
		return cmd, Never
	}
	op, at := t.nextCommand(now)
	if op != None {
		cmd, at = l.launchWithJoin(t, op, now)
	}
	t.alarm = at
	return cmd, at
}

// Alarm returns when the keeper is to poll the tenure, as the last effect or Poll has told it.
func (t *Tenure) Alarm() Time { return t.alarm }

// launchWithJoin returns the command op with the ticket that joins by it, and the time at which the
// tenure changes by the clock while the command is in flight. If a waiter without a ticket is first
// in the line, its ticket joins with the release.
func (l *Lock) launchWithJoin(t *Tenure, op Op, now Now) (cmd Command, at Time) {
	cmd, at = t.launch(op, now), Never
	if w := l.line.first(); op == Leave && t.Agent != nil && w != nil && w.Tenure == nil && w.Waits && !l.hasOwnTicket(w) &&
		l.grants == subscribed && !l.client.closed && l.worthTicket(w, now) {
		next := l.newTicket(w, Join)
		joins := next.launch(Join, now)
		cmd.joins, cmd.joinsSeq, cmd.Joins, cmd.Tokens = next, joins.tenureSeq, joins.Ticket, joins.Tokens
	}
	if t == l.held {
		at = now.At(l.FirstEnd())
	}
	return cmd, at
}

// Peek returns the command that is due for the tenure now, and when to ask again. Unlike Poll it
// changes nothing, and the agent may be a call.
func (l *Lock) Peek(t *Tenure, now Now) (op Op, at Time) {
	if t.lock != l || t.isOver(now) {
		return None, Never
	}
	return t.nextCommand(now)
}
