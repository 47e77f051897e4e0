package core

// A guarded write is a command of a user that Redis executes only while it has the lock for the tenure. It sets no lease
// and moves no place, so that any number may be in flight beside the one command of the table.
//
// One that is executed late, or once more after its answer, must not run in a later hold. So the tenure of a hold that has
// sent one begins no other: it is neither handed off nor kept, no reader joins it, and after a downgrade none is let in.
// Redis is asked for the next one.

// Write begins a guarded write of a level that holds the lock, and returns the tenure that Redis is to have. Its caller sends
// it at once, and gives the answer to Wrote. If it follows no other command about the tenure it may use a connection of its
// own.
func (l *Lock) Write(o OwnerID, m Mode, handle any, now Now) (t Ticket, follows, ok bool) {
	i := -1
	own := l.current(now)
	if own != nil {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		return t, false, false
	}
	l.writes(i)
	return Ticket{ID: own.ID, Mode: m, Owner: own.told}, own.follows(now), true
}

// Wrote notes the answer to a guarded write of a hold in that mode. Found says whether it was executed.
func (l *Lock) Wrote(id ID, m Mode, a Reply, now Now) {
	t := l.tenures.find(id)
	if t != nil && t == l.owner && a.Fault == Answered && a.Found != Holds && (m == Shared || l.levels.writes > 0) {
		t.fenced()
		l.settle(now)
	}
}

// leavesBehind notes that a level has closed that has sent a guarded write.
func (t *Tenure) leavesBehind() { t.wrote = true }

// isOpen reports whether no guarded write of a former hold may run in the tenure.
func (t *Tenure) isOpen() bool { return !t.wrote || t.lock.client.breaks(WriteEnds) }
