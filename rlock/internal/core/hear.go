package core

// What the client hears: messages, of which none is believed, and doubts, after which Redis is asked.

// Hear deals with a message, of which none is believed: it may be late, doubled or forged.
func (l *Lock) Hear(m Message, now Now) {
	t := l.tenures.find(m.ID)
	switch m.Kind {
	case Granted:
		l.heardGrant(t, m, now)
	case AtFront:
		if t != nil && t.queues() {
			l.atFront(t, now)
		}
	case Shown:
		if t == nil {
			l.heardGrant(t, m, now) // this client has forgotten it: an acquire was executed once more after the release
		}
	case Forced:
		if t != nil && t == l.owner {
			t.doubted(now)
			l.touch(t)
		}
	case Satisfied:
		l.satisfied(t, now)
	case ForeignNews:
		l.abroad.hear(m)
		l.doubtTickets(now)
	default:
		panic("core: a message of the kind " + m.Kind.String())
	}
	l.settle(now)
}

// atFront deals with the message that the ticket is the first behind foreign clients.
func (l *Lock) atFront(t *Tenure, now Now) {
	if l.Kind.Permits == 0 { // else another client may know of fewer permits
		l.listenAbroad()
	}
	t.doubted(now)
	l.touch(t)
}

// heardGrant deals with the message that a ticket has the lock.
func (l *Lock) heardGrant(t *Tenure, m Message, now Now) {
	if t == nil {
		if l.client.closed || m.ID.Client != l.client.ID {
			return // all that there is leaves
		}
		if l.client.hasPartedFrom(m.ID, now) {
			return // it is left to its lease
		}
		t = l.stranger(m) // no waiter wants it, and the next in the queue must not wait for that
		l.give(t, now)
		return
	}
	if o := l.current(now); o != nil && o != t && t.isTicket() && !(t.mode == Shared && l.isRead()) {
		// The message may be forged. So it ends no hold that is valid by an answer of Redis, which is asked about both.
		o.unshown()
		l.touch(o)
		t.doubted(now)
		l.touch(t)
		return
	}
	t.granted(m, now)
	l.ticketMoved(t, now)
	l.touch(t)
}

// satisfied deals with the message that a release has taken the ticket out of the queue, since it has an answer for the call. Of
// one whose Join has no answer yet the place is not known, and it leaves. The message may be forged: then the ticket stays, and
// what it is granted some time is given back.
func (l *Lock) satisfied(t *Tenure, now Now) {
	if t == nil || t.call == nil || !t.queues() || !t.takes {
		return
	}
	w := t.call
	if t.place == InQueue {
		t.takenOut()
	}
	l.give(t, now)
	l.leave(w, GotAnswer, now)
}

// Doubt says that Redis may not show the lock any more, or that a message may have been lost: a connection has ended,
// Redis has told of a change of the key, or a stranger says so. Redis is asked.
func (l *Lock) Doubt(now Now) {
	if l.owner != nil {
		l.owner.doubted(now)
		l.touch(l.owner)
	}
	l.doubtTickets(now)
	l.settle(now)
}

// doubtTickets schedules a look for each ticket.
func (l *Lock) doubtTickets(now Now) {
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.isTicket() {
			t.doubted(now)
			l.touch(t)
		}
	}
}

// Confirm sends the holds here to Redis again, so that the answer says whether Redis still shows
// them.
func (l *Lock) Confirm(now Now) {
	if t := l.owner; t != nil {
		t.unshown()
		l.touch(t)
	}
	l.settle(now)
}
