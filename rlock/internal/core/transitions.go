package core

// settle makes the lock consistent at the end of an event: a hold that is over ends, and the first waiter gets a tenure.
func (l *Lock) settle(now Now) {
	l.current(now)
	if l.line.overdue > 0 {
		l.decided(now)
	}
	if w := l.line.first(); w != nil {
		if w.Mode == Shared {
			l.admitReaders(false, now) // a writer before them may have left
		}
		l.seek(now)
	}
	if l.abroad.hears != deaf {
		l.dismiss()
	}
}

// current returns the owner if it is valid. One that is not is lost at the moment when it is looked at.
func (l *Lock) current(now Now) *Tenure {
	switch t := l.owner; {
	case t == nil:
		return nil
	case t.place != Owner:
		l.lose(KeyGone, now)
	case now.Safe >= l.validUntil():
		cause := Unrenewed
		if l.levels.asked != NeverSafe && t.fails == 0 && !t.old && t.shown == l.shape(now) { // a little before its time, as each lease that is believed
			cause = LeaseEnded
		}
		l.lose(cause, now)
	default:
		if now.Safe >= l.levels.ends {
			l.ended(now)
		}
	}
	return l.owner
}

// ended ends the holds of those owners whose time is over.
func (l *Lock) ended(now Now) {
	tooLong, ended := l.expire(now)
	l.loses(tooLong, TooLong)
	l.loses(ended, LeaseEnded)
	if l.isHeld() {
		l.changed(now)
	} else {
		l.give(l.owner, now)
	}
}

// ticketMoved starts the hold of a granted ticket, or replaces a ticket that can no longer be granted.
func (l *Lock) ticketMoved(t *Tenure, now Now) {
	switch w := t.call; {
	case !t.isTicket():
	case t.place == Owner:
		l.taken(t, now)
	case t.isMissing():
		l.give(t, now)
		if w != nil && w.position.InLine() {
			l.seekFor(w, now)
		}
	}
}

// taken begins a hold with a ticket that has the lock.
func (l *Lock) taken(t *Tenure, now Now) {
	w := t.call
	way := ByRedis
	switch t.entry {
	case Acquire:
	case Join:
		way = ByQueue
	case Resume:
		way = ByPass
	default:
		panic("core: a ticket enters by " + t.entry.String())
	}
	w.Tenure, t.call = nil, nil
	t.alarm = 0 // the keeper is its agent now, and is about to be told
	switch {
	case l.owner == nil:
	case t.mode == Shared && l.isRead(): // those that read go on, by this one
		l.give(l.owner, now)
		l.owner, t.named = t, w.Owner
		l.exchanged()
		t.holds()
		l.admit(w, way, now)
		l.admitOthers(w, now)
		l.changed(now)
		return
	default:
		l.lose(KeyGone, now) // it is the ticket's
	}
	l.served(w, now)
	l.begin(t, w, way, now)
}

// begin opens the first level of a hold on t after a grant or a hand-off. It does not retain w.
func (l *Lock) begin(t *Tenure, w *Call, way Way, now Now) {
	if way == ByHandoff {
		t.tokens.passOn()
	}
	t.named = w.Owner
	entered := !t.old && t.shown == oneLevel(w.Owner, w.Mode)
	l.owner, t.mode = t, w.Mode
	t.holds()
	l.open(w, way, now)
	if entered { // Redis shows it
		l.showing(t, now)
	}
	if l.line.first() != nil {
		l.admitOthers(w, now)
	}
	l.changed(now)
}

// admit gives a waiter a level beside those that there are.
func (l *Lock) admit(w *Call, way Way, now Now) {
	l.served(w, now)
	l.open(w, way, now)
}

// served removes a waiter from the line, since it is about to have the lock. Its goroutine may not look at the lock again.
func (l *Lock) served(w *Call, now Now) {
	l.line.leave(w)
	l.line.calls--
	if w.Tenure != nil {
		l.pass(w, now)
	}
	l.tell(Effect{Kind: Wake, Call: w})
}

// admitOthers lets in those that need not wait now that w has the lock: the other calls of its owner, and beside a reader
// those behind it.
func (l *Lock) admitOthers(w *Call, now Now) {
	l.admitOwner(w.Owner, now)
	if w.Mode == Shared {
		l.admitReaders(true, now)
	}
}

// admitOwner lets in the other calls of an owner that has the lock now: an owner does not wait for itself. Most owners
// cannot have other calls, so that no hand-off walks the line.
func (l *Lock) admitOwner(o OwnerID, now Now) {
	if first := l.line.first(); first == nil || first.Owner != o && l.line.repeats[o] == 0 {
		return
	}
	for in := range l.line.All {
		switch w := in.Value; {
		case w.Owner != o:
		case l.exceeds(w):
			l.leave(w, Upgrades, now)
		default:
			l.admit(w, ByNesting, now)
		}
	}
}

// lose ends the holds of the owner. Redis may show it yet.
func (l *Lock) lose(cause Cause, now Now) {
	l.loses(l.levels.all, cause)
	l.closeAll()
	l.give(l.owner, now)
}
