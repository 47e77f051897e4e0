package core

// The commands of a lock's tenures: when one is to be sent, and what its answer says.

// A flight is the command of a tenure that has no answer yet, the latest one if a Leave has overtaken another.
type flight struct {
	op    Op
	asks  bool   // of a Mirror and a Resume: it asks for others
	opens bool   // of a Mirror: it takes the write lock away, and readers may enter
	last  bool   // of a Leave: the tenure is over by itself by now
	seq   uint32 // of the command, over all lives of the memory
	at    Now    // when it was sent
	lease Span   // that it asks for
}

// The flight of a tenure changes here, and only here.

// send notes that the command is about to be sent, and returns it.
func (t *Tenure) send(op Op, now Now) Command {
	l, c := t.lock, t.lock.client
	follows, opening := t.follows(now), false
	if t.underWay() { // a Leave overtakes it, or the Mirror that passes the lock on: it may run after that
		t.late, opening = now.Time.After(c.Lease), t.flight.opens
	}
	t.flight = flight{op: op, seq: t.flight.seq + 1, at: now}
	cmd := Command{Op: op, Tokens: uint64(t.tokens.reserved), Permits: l.Kind.Permits, Follows: follows, tenure: t, tenureSeq: t.flight.seq}
	switch op {
	case Acquire, Resume, Look:
		t.flight.lease = c.Lease
		if w := t.waiter; w != nil && w.Lease > 0 {
			t.flight.lease = w.Lease
		}
	case Join:
		t.flight.lease = c.Claim
		if c.breaks(JoinClaims) {
			t.flight.lease = c.Lease
		}
	case Mirror:
		wrote := t.shown.writes > 0
		if t.want == Parted {
			t.flight.lease = t.passing()
		} else {
			t.flight.lease = l.wanted(now)
			l.showing(t, now)
		}
		t.flight.opens = opening || wrote && t.shown.writes == 0
		t.flight.asks = t.flight.opens || t.want != Parted && l.asksOthers(t)
		t.told = t.shown.owner
		if t.flight.asks {
			t.turn.handed = false
		}
		cmd.Writes, cmd.Reads = int(t.shown.writes), t.shown.reads
	case Leave:
		t.flight.last = now.Time >= t.ends()
	}
	if op.enters() {
		t.entering()
		t.told, t.shown = t.waiter.Owner, oneLevel(t.waiter.Owner, t.mode)
	}
	if op != Leave {
		t.asksFor(op, t.flight.lease, now)
	}
	cmd.Lease = t.flight.lease
	cmd.Ticket = Ticket{t.ID, t.mode, t.polls, t.told}
	if op == Resume {
		cmd.Passed, t.flight.asks = t.waiter.Passed, true
	}
	cmd.Asks = t.flight.asks
	if op == Look || op == Leave {
		cmd.Heard, l.abroad.told = l.abroad.told, false
	}
	return cmd
}

// releasedBy reports whether the command is the one by which the call that releases the tenure ends it.
func (t *Tenure) releasedBy(f flight) bool { return f.op == Leave || t.want == Parted && t.within == 0 }

// follows reports whether a command about the tenure may be executed yet.
func (t *Tenure) follows(now Now) bool {
	return t.underWay() || t.late > now.Time || t.trust.least > 0
}

// lands reports whether the answer is to the command of the tenure that is in flight, which it is not any more.
func (t *Tenure) lands(seq uint32) (f flight, ok bool) {
	if !t.underWay() || t.flight.seq != seq {
		return f, false
	}
	f = t.flight
	t.flight.op = None
	return f, true
}

// Poll returns the command that is to be sent for the tenure now, None for nothing, and when it is to be called again: a
// hold may end while a command is in flight. The caller sends the command at once, and gives what becomes of it to Answer.
// A Poll too many is harmless, also for a tenure that is over.
func (l *Lock) Poll(t *Tenure, now Now) (cmd Command, at Time) {
	if t.lock != l {
		return cmd, Never
	}
	if t == l.owner {
		l.settle(now)
	}
	op, at := t.next(now)
	if t.releases && (op == None || op == Forget) {
		l.unsent(t, now)
		op, at = t.next(now)
	}
	switch {
	case op == Leave && l.client.breaks(LastLeave) && now.Time >= t.ends():
		t.endsBy()
		fallthrough
	case op == Forget:
		l.forget(t)
		l.settle(now)
		return cmd, Never
	case op != None:
		cmd, at = l.send(t, op, now)
	}
	t.alarm = at
	return cmd, at
}

// send returns the command that is about to be sent, with the ticket that joins by it, and when the tenure changes
// meanwhile by the clock.
func (l *Lock) send(t *Tenure, op Op, now Now) (cmd Command, at Time) {
	cmd, at = t.send(op, now), Never
	if w := l.line.first; op == Leave && t.releases && w != nil && w.Ticket == nil && w.Waits && !l.Kind.Strict &&
		l.hears == listening && !l.client.closed && l.worthTicket(w, now) {
		next := l.asks(w, Queued)
		joins := next.send(Join, now)
		cmd.joins, cmd.joinsSeq, cmd.Joins, cmd.Tokens = next, joins.tenureSeq, joins.Ticket, joins.Tokens
	}
	if t == l.owner {
		at = l.ends(now)
	}
	return cmd, at
}

// ends returns when the owner changes by the clock.
func (l *Lock) ends(now Now) Time {
	at := now.At(l.nextEnd())
	if l.owner.want == Kept {
		at = min(at, l.owner.lingersUntil())
	}
	return at
}

// Peek returns what Poll would do: the command that it would send now, None for none, and when the tenure is to be polled.
// It changes nothing.
func (l *Lock) Peek(t *Tenure, now Now) (op Op, at Time) {
	if t.lock != l {
		return None, Never
	}
	return t.next(now)
}

// Alarm is Peek for the agent of the tenure, which is about to poll it then. If that becomes sooner an effect Poll says so.
// A tenure that is over is forgotten.
func (l *Lock) Alarm(t *Tenure, now Now) (op Op, at Time) {
	if t.lock != l {
		return None, Never
	}
	if op, at = t.next(now); op == Forget {
		l.forget(t)
		l.settle(now)
		return op, Never
	}
	t.alarm = at
	return op, at
}

// Answer says what became of a command. Each command has one answer.
func (l *Lock) Answer(cmd *Command, a Reply, now Now) {
	if t := cmd.tenure; t.lock == l {
		if f, ok := t.lands(cmd.tenureSeq); ok {
			l.answered(t, f, a, now)
		}
		l.touch(t) // its agent may be another now
	}
	if t := cmd.joins; t != nil && t.lock == l {
		if f, ok := t.lands(cmd.joinsSeq); ok {
			if a.Fault == Answered {
				a.Fault = a.JoinFault
			}
			l.answered(t, f, a, now)
		}
		l.touch(t)
	}
	l.settle(now)
}

// answered deals with the answer to the tenure's command.
func (l *Lock) answered(t *Tenure, f flight, a Reply, now Now) {
	if a.Fault != Answered {
		t.failed(f, a.Fault, now)
	} else {
		t.answered(f, a, now)
	}
	switch w := t.waiter; {
	case w == nil:
	case a.Fault != Answered:
		l.unanswered(w, t, a.Fault, now)
	case a.Unreplicated && t.want == Resumed:
		l.leave(w, Failed, now)
	case a.Unreplicated:
		l.give(t, now)
		w.rest = now.Time.After(l.client.pause(l.client.Retry, l.client.MaxRetry, w.fails))
		w.fails++
	case a.Found != Holds:
		l.denied(w, t, a, now)
	}
	if t.releases && (t.releasedBy(f) || l.client.breaks(OwnAnswer)) {
		l.released(t, f, a, now)
	}
	if f.op == Mirror && a.Fault == Answered && a.Found == Holds {
		l.mirrored(t, f, a, now)
	}
	if a.Fault == Answered && a.HeldBack && a.HeldFor <= 0 && t.mode == Alone && t.isTicket() {
		l.giveWay(now)
	}
	l.ticketMoved(t, now)
}

// released tells the call that has ended the last hold of a tenure what became of the release, or of the pass. The keeper
// goes on with it, and releases a lock that was not passed on.
func (l *Lock) released(t *Tenure, f flight, a Reply, now Now) {
	t.releases = false
	done := a.Left
	if f.op == Mirror {
		done = a.Found == Holds
	}
	cause := ByUnlock
	switch {
	case a.Fault == Fatal, a.Fault == Answered && !done:
		cause = KeyGone
	case a.Fault != Answered:
		cause = Unconfirmed
	}
	switch {
	case t.want == Parted && cause != ByUnlock && !l.client.breaks(PassReleases):
		l.give(t, now)
	case t.want == Parted:
		t.showsFor(f.lease, now)
	}
	l.tell(Effect{Kind: Released, Tenure: t, Cause: cause})
}

// unsent ends the call that was about to end the tenure, and has nothing to send: the answer to an earlier Mirror has said
// that Redis does not have the tenure any more. One that was to be passed on is released.
func (l *Lock) unsent(t *Tenure, now Now) {
	t.releases = false
	if t.want == Parted {
		l.give(t, now)
	}
	l.tell(Effect{Kind: Released, Tenure: t, Cause: KeyGone})
	l.touch(t)
}

// mirrored notes what the answer to a mirror says of the others.
func (l *Lock) mirrored(t *Tenure, f flight, a Reply, now Now) {
	if !f.asks {
		return
	}
	t.turn.heardOf(a.Others, now)
	switch {
	case t.want == Kept && a.Others > 0 && !l.client.breaks(ReleaseAtCall):
		l.give(t, now)
	case t == l.owner && l.isRead(), t.want == Parted:
		t.step = t.step || f.opens && a.Others > 0 && !l.client.breaks(Downgrades)
	}
}
