package core

// A guarded write is a command of a user that Redis executes only while it has the lock for the tenure. It sets no lease
// and moves no place, so that any number may be in flight beside the one command of the table.
//
// One that may run yet when its level has closed must not run in a later hold. So its tenure begins no other: it is
// neither handed off nor kept, no reader joins it, and after a downgrade none is let in. Redis is asked for the next one.

// Write begins a guarded write of a level that holds the lock, and returns the tenure that Redis is to have. Its caller sends
// it at once, and gives what becomes of it to Wrote. If it follows no other command about the tenure it may use a
// connection of its own.
func (l *Lock) Write(o OwnerID, m Mode, handle any, now Now) (t Ticket, follows, ok bool) {
	i := -1
	own := l.current(now)
	if own != nil {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		return t, false, false
	}
	follows = own.follows(now)
	l.guards(i, 1)
	return Ticket{ID: own.ID, Mode: m, Owner: own.told}, follows, true
}

// Wrote says what became of the guarded write of a level. Found says whether it was executed, if it was answered.
func (l *Lock) Wrote(id ID, o OwnerID, m Mode, handle any, a Reply, now Now) {
	t := l.tenures.find(id)
	if t == nil {
		return // its release was answered
	}
	i := l.levelOf(o, m, handle)
	switch {
	case a.Fault == Unknown || a.Fault == Answered && !a.Settled: // it may run as long as Redis has the tenure
	case t == l.owner && i >= 0 && l.levels.all[i].guarded > 0:
		l.guards(i, -1)
	case t.guarded > 0:
		t.guarded--
	}
	if a.Fault == Answered && a.Found != Holds && t == l.owner && (m == Shared || l.levels.writes > 0) {
		t.fenced()
	}
	l.settle(now)
}

// leavesBehind notes that a level has closed, with so many guarded writes that may run yet.
func (t *Tenure) leavesBehind(guarded int32) { t.guarded += guarded }

// isOpen reports whether no guarded write of a former hold may run in the tenure.
func (t *Tenure) isOpen() bool { return t.guarded == 0 || t.lock.client.breaks(WriteEnds) }
