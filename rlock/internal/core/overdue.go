package core

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
