package core

// The answers to commands. Each command has one, also if its call has left.

// Answer tells the lock the result of a command, which counts for its tenure and for the call c that has sent it. c is nil if
// the keeper has sent it, and if the call has returned before: its memory may be a call of another lock by then.
func (l *Lock) Answer(cmd *Command, c *Call, a Reply, now Now) {
	switch {
	case cmd.tenure != nil:
		l.lands(cmd.tenure, cmd.tenureSeq, a, now)
	case cmd.Op == Write:
		l.wrote(cmd.ID, cmd.Mode, a, now)
	case cmd.Op == Leave: // by force
		l.forced(cmd.ID, a, now)
	default:
		panic("core: an answer to a command " + cmd.Op.String() + " of no tenure")
	}
	if c != nil && c.purpose != Locks && c.Outcome == Waiting {
		l.answers(c, cmd, a)
	}
	l.moved(cmd.tenure)
	if cmd.joins != nil {
		if a.Fault == Answered {
			a.Fault = a.JoinFault
		}
		l.lands(cmd.joins, cmd.joinsSeq, a, now)
		l.moved(cmd.joins)
	}
	l.settle(now)
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
	if w := t.call; w != nil && w.purpose == Locks {
		l.answersTicket(w, t, a, now)
	}
	switch {
	case f.op != Mirror:
	case t.want == Parted && t.within == 0:
		l.passedOn(t, f, a, now)
		l.mirrored(t, f, a, now)
	default:
		l.mirrored(t, f, a, now)
	}
	if a.Fault == Answered && a.HeldBack && a.HeldFor <= 0 && t.mode == Alone && t.isTicket() {
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

// passedOn notes the result of the Mirror that passes the lock on. One that Redis does not confirm is released.
func (l *Lock) passedOn(t *Tenure, f flight, a Reply, now Now) {
	if a.Fault == Answered && a.Found == Holds {
		t.showsFor(f.lease, now)
	} else {
		l.give(t, now)
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
