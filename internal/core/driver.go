package core

// What a driver does beside the events of calls and answers.

// Look ends all holds whose time is over.
func (l *Lock) Look(now Now) { l.settle(now) }

// Ends returns when a holder loses the lock unless it is renewed. The lock has an Owner.
func (l *Lock) Ends() SafeTime { return l.nextEnd() }

// IsHeld reports whether an owner holds the lock here, IsWritten whether one does that is no reader, and IsKept whether it is
// renewed until an Unlock.
func (l *Lock) IsHeld() bool    { return len(l.levels.all) > 0 }
func (l *Lock) IsWritten() bool { return l.levels.writes > 0 }
func (l *Lock) IsKept() bool    { return l.isHeld() && l.levels.asked == NeverSafe }

// IsShown reports whether Redis has confirmed that it shows the levels as they are.
func (l *Lock) IsShown(now Now) bool {
	t := l.owner
	return t != nil && t.flight.op != Mirror && l.shows(t, now)
}

// Busy reports whether a command is in flight or due whose answer decides whose the lock is.
func (l *Lock) Busy() bool { return l.busy() }

// Confirm sends the holds here to Redis again, so that the answer says whether Redis still shows
// them.
func (l *Lock) Confirm(now Now) {
	if t := l.owner; t != nil {
		t.unshown()
		l.touch(t)
	}
	l.settle(now)
}

// Deafened says that the connection of the subscription has ended. It is subscribed again by itself.
func (l *Lock) Deafened(now Now) {
	if l.hears == listening {
		l.hears, l.patient = asking, now.Time.After(l.client.Patience)
		l.seekAll(now) // they poll then
	}
}

// Lingers reports whether the tenure may linger at its end, and NoLinger has it not linger.
func (l *Lock) Lingers() bool { return l.owner != nil && l.owner.linger > 0 && l.owner.ID.Lingers }
func (l *Lock) NoLinger()     { l.owner.linger = 0 }

// EndLinger releases a lingering tenure.
func (l *Lock) EndLinger(now Now) {
	if t := l.owner; t != nil && t.want == Kept {
		l.give(t, now)
		l.settle(now)
	}
}

// Ends returns when a tenure that is Gone is over whatever Redis says.
func (t *Tenure) Ends() Time { return t.ends() }

// Claimed reports whether Redis was asked for no more than a claim, and Called whether another client has called.
func (t *Tenure) Claimed() bool { return t.claim }
func (t *Tenure) Called() bool  { return t.called }

// Has reports whether the tenure is one of the lock that is not over.
func (l *Lock) Has(t *Tenure) bool { return t.lock == l }
