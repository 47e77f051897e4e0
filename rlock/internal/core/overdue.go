package core

// A call is overdue if its time is up while the answer to a command in flight decides who gets the
// lock. The call waits for the answer, since no other owner is known to hold the lock, but no
// longer than for a server that is taken for dead (Silence). A call with a single attempt that
// sends no command itself is overdue from the beginning. One command decides for all overdue calls:
// readers join a reader that is granted the lock, other calls are refused when a call is granted or
// denied the lock, and all have the fault of a command that fails.

// decision returns the outcome of a call without a ticket whose time is up: Denied or TimedOut if
// another owner has the lock or is first in line, Unanswered if Redis has failed, and Waiting, with
// the time until which it waits at most, while an answer is on its way. The call need not stand in
// the line yet.
func (l *Lock) decision(w *Call, now Now) (Outcome, Time) {
	if w.fails > 0 || !w.mayTry() {
		return w.timedOut(), 0 // the call has the answer to its own command, or its error
	}
	return l.decisionBehind(l.line.first(), w, now)
}

// decisionBehind is decision for a call that has sent nothing. first is the first waiter, and may
// be the call itself.
func (l *Lock) decisionBehind(first, w *Call, now Now) (Outcome, Time) {
	if l.held != nil {
		return w.timedOut(), 0
	}
	by, some := l.decisionDue()
	switch {
	case first == nil || first == w:
		if !some {
			return w.timedOut(), 0
		}
	case first.isRefused():
		return w.timedOut(), 0
	case first.Tenure != nil && first.Tenure.underWay():
		by = max(by, first.Tenure.flight.at.Time.After(l.client.Silence))
	case first.Tenure != nil && first.Tenure.place != Out, first.Tenure == nil && first.fails > 0:
		return Unanswered, 0
	case !some: // the first waiter is about to send a command
		by = w.Until.After(l.client.Silence)
	}
	if now.Time >= by {
		return Unanswered, 0
	}
	return Waiting, by
}

// isRefused reports whether the last answer to the call says that another owner has the lock.
func (w *Call) isRefused() bool {
	t := w.Tenure
	switch {
	case t != nil && t.place == InQueue:
		return t.fails == 0
	case w.fails > 0 || w.mayTry():
		return false
	default:
		return t == nil || t.entry != Acquire
	}
}

// decisionDue returns the time until which overdue calls wait for the commands that decide who gets
// the lock. A server that is silent for longer is not waited for. It reports false if there are no
// such commands.
func (l *Lock) decisionDue() (at Time, some bool) {
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

// endDecided ends the overdue calls whose decision is known.
func (l *Lock) endDecided(now Now) {
	if l.held != nil {
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
	// While a command decides, all wait for its answer. Else each call waits, by its own time, for
	// the command that the first waiter is about to send.
	none := Call{Until: now.Time - Time(l.client.Silence)}
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

// denyOverdue ends the overdue calls that ask for at least as much as the call by, which was
// denied. A reader is not refused with a writer, since readers may have the lock, and a call that
// takes answers sends its own command.
func (l *Lock) denyOverdue(by *Call, now Now) {
	l.endOverdue(now, func(w *Call) Outcome {
		if w.Mode == Shared && by.Mode == Alone || w.More < by.More || w.Answerable {
			return Waiting
		}
		return w.timedOut()
	})
}

// failOverdue ends the overdue calls, since the command that they wait for has failed.
func (l *Lock) failOverdue(now Now) {
	l.endOverdue(now, func(*Call) Outcome { return Unanswered })
}

// endOverdue ends each overdue call without a ticket by the outcome that end returns, unless that
// is Waiting.
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
			l.endWait(w, o, now)
		}
	}
}
