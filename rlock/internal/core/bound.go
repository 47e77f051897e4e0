package core

// A call with a bound waits only if few others do: the callers of all clients, as far as Redis knows them. Such a call has a ticket
// of its own, as each of a strict lock has. The others of a client share one, so that their client adds them to the tickets that
// Redis counts, in the step in which the ticket joins. A call asks once: it keeps the place that it has been given.

// isBounded reports whether the call waits only if few others do, and has not been given a place.
func (w *Call) isBounded() bool { return w.Most != 0 && !w.admitted }

// isFullHere reports whether the call, which is no waiter yet, has to wait, and so many wait in this client that Redis need not be
// asked. If none waits here and the lock is not held here, it may still be free.
func (l *Lock) isFullHere(w *Call) bool {
	n := l.line.Len()
	return w.Waits && n >= max(int(w.Most), 0) && (n > 0 || l.isHeld())
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
