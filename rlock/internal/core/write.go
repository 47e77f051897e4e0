package core

// A guarded write is a command of a user that Redis executes only while it has the lock for the tenure. It sets no lease
// and moves no place, so that any number may be in flight beside the one command of the table.
//
// One that is executed late, or once more after its answer, must not run in a later hold. So the tenure of a hold that has
// sent one begins no other: it is neither handed off nor kept, no reader joins it, and after a downgrade none is let in.
// Redis is asked for the next one.

// mayWrite reports whether the level of the call holds the lock. It ends the holds whose time is over.
func (l *Lock) mayWrite(c *Call, now Now) bool {
	held := l.current(now) != nil && l.levelOf(c.Owner, c.Mode, c.Handle) >= 0
	l.settle(now)
	return held
}

// guarded returns the guarded write of the call's level. If it follows no other command about the tenure it may use a
// connection of its own.
func (l *Lock) guarded(c *Call, now Now) Command {
	l.writes(l.levelOf(c.Owner, c.Mode, c.Handle))
	return Command{Op: Write, Ticket: Ticket{ID: l.owner.ID, Mode: c.Mode, Owner: l.owner.shown.owner}, Follows: l.owner.follows(now)}
}

// UnlockWith is Unlock with a guarded write, which the call of the release carries: see Call.Carries. The first Leave of that
// call has the write, and no other command: one that is repeated does not find the tenure. The tenure begins no other hold, so
// that there is a release. It reports false, and changes nothing, unless the level is the only one of a lock that does not stay.
func (l *Lock) UnlockWith(o OwnerID, m Mode, handle any, now Now) (was Level, releases *Tenure, alone bool) {
	i := -1
	if l.current(now) != nil && len(l.levels.all) == 1 && l.stays <= now.Time {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		l.settle(now)
		return was, nil, false
	}
	l.writes(i)
	return l.Unlock(o, m, handle, now)
}

// wrote notes the answer to a guarded write of a hold in that mode. Found says whether it was executed.
// A tenure whose write was refused leaves Redis: a part of it may be there, as of a reader whose lease is gone.
func (l *Lock) wrote(id ID, m Mode, a Reply, now Now) {
	t := l.tenures.find(id)
	if t != nil && t == l.owner && a.Fault == Answered && a.Found != Holds && (m == Shared || l.levels.writes > 0) {
		l.lose(KeyGone, now)
	}
}

// forced notes the answer to the Leave of a holder that is released by force.
func (l *Lock) forced(id ID, a Reply, now Now) {
	switch t := l.owner; {
	case t == nil || t.ID != id:
	case a.Fault != Answered:
		l.Confirm(now) // which finds out
	case a.Left:
		t.forcedOut()
		l.lose(ByForce, now)
	}
}
