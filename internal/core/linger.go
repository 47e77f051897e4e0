package core

// A tenure lingers when its last level was closed and no caller waits: the client keeps the key, and the next call here
// begins in it without a command. A client that is refused elsewhere calls this one, and the tenure leaves at once.

// lingersUntil returns until when a tenure that is Kept stays.
func (t *Tenure) lingersUntil() Time { return t.since.After(t.linger) }

// mayLinger reports whether the tenure may stay though no owner holds the lock.
func (l *Lock) mayLinger(now Now) bool {
	t, c := l.owner, l.client
	return t.linger > 0 && t.trust.most <= c.Lease && (t.ID.Lingers || c.breaks(AcquiredLinger)) && (!t.called || c.breaks(CallKept)) &&
		(!t.turn.contested || c.breaks(CallKept)) && !c.closed && t.worth(now) && t.isOpen()
}

// mayReuse reports whether a hold may begin in the owner, which has to linger.
func (l *Lock) mayReuse(w *Waiter, now Now) bool {
	t, c := l.owner, l.client
	return t.want == Kept && (t.worth(now) || c.breaks(ReuseTrusted)) && !t.tokens.spent() &&
		(now.Time < t.lingersUntil() || c.breaks(LingerEnds)) && (t.mode == w.Mode || t.mode == Alone)
}

// wayBack makes a tenure linger again whose release is decided, with NoWayBack broken.
func (l *Lock) wayBack(now Now) {
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.want == Gone && t.flight.op == Leave && t.place == Owner && now.Safe < t.trust.until {
			l.owner = t
			t.linger = Forever
			t.stays(now)
			return
		}
	}
}

// called deals with the call of another client, which waits for the tenure.
func (l *Lock) called(t *Tenure, now Now) {
	if !t.ID.Lingers {
		return // a stranger says so
	}
	t.called = true
	t.turn.heardOf(1, now)
	switch {
	case t.want == Kept && !l.client.breaks(ReleaseAtCall):
		l.give(t, now)
	case t.want == Held && l.client.breaks(UseStays):
		l.closeAll()
		l.give(t, now)
	}
}
