package core

// What this client wants of a tenure changes here, and only here.

// setWant changes the want.
func (t *Tenure) setWant(w Want) {
	was, told := t.want, t.lock.client.Changed
	if t.want = w; was != w && told != nil {
		told(t, was, t.place)
	}
}

// newTicket returns a new ticket for the waiter, which enters by the command entry.
func (l *Lock) newTicket(w *Call, entry Op) *Tenure {
	c := l.client
	c.last++
	id := ID{c.ID, c.last}
	if c.NewNumber != nil {
		id.N = c.NewNumber()
	}
	t := l.newTenure(id, w.Mode)
	t.entry, t.Agent, t.more = entry, w, w.More
	t.setWant(Asked)
	if l.grants != subscribed {
		t.polls = 1
	}
	t.answerable = w.Answerable && entry != Resume
	if w.Grace != 0 {
		t.takes = takesOver
	}
	t.brief = l.shortTurn && entry == Join && w.Mode == Alone && t.polls == 0 && !t.answerable && t.takes == takesNot
	if l.Kind.Fenced {
		t.tokens.reserved = max(l.reserve, 1)
	}
	w.Tenure = t
	l.touch(t)
	return t
}

// makeHeld makes the tenure hold the lock, for the levels that the caller opens next.
func (t *Tenure) makeHeld() {
	t.entry = None
	t.setWant(Held)
}

// makeParted parts with the tenure of the lock, which has no level any more: a last Mirror sets the
// lease to within. The least hold does not pass to the next hold.
func (l *Lock) makeParted(within Span) {
	t := l.held
	l.held, l.stays, l.curious, l.yielding, t.within = nil, 0, false, yieldsNot, within
	t.setWant(Parted)
	l.touch(t)
}

// endHolding gives back the tenure of the lock, which has no level any more, or leaves it to its
// lease until the end of the least hold.
func (l *Lock) endHolding(now Now) {
	if now.Time < l.stays {
		l.makeParted(l.stays.Since(now.Time)) // as if the lock were passed on, to no client
		return
	}
	l.makeGone(l.held, now)
}

// makeGone makes the tenure Gone: it leaves Redis, until Redis says that it has left or its lease
// has ended. To undo an acquire, to release a hold and to return an unwanted grant are all this
// transition.
func (l *Lock) makeGone(t *Tenure, now Now) {
	if t == l.held {
		if l.held, l.stays, l.curious, l.yielding = nil, 0, false, yieldsNot; l.Kind.Fenced {
			l.reserve = t.tokens.reserveNext()
		}
		if t.marked {
			l.noteTurn(now.Time.Since(t.since))
		}
	}
	if w := t.Agent; w != nil && w.Purpose == Locks {
		w.Tenure, t.Agent = nil, nil
	}
	t.entry, t.within, t.since, t.again, t.fails = None, 0, now.Time, 0, 0
	t.setWant(Gone)
	l.touch(t)
}
