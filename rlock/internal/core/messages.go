package core

// Messages to the client, and its subscriptions. Two messages are believed: that a ticket of this
// client was granted the lock, and that a release has the answer for its call. After any other
// message Redis is asked.

// Hear deals with a message, which may be late, doubled or forged.
func (l *Lock) Hear(m Message, now Now) {
	t := l.Find(m.ID)
	switch m.Kind {
	case Granted:
		l.hearGrant(t, m, now)
	case AtFront:
		if t != nil && t.queues() {
			if l.Kind.Permits == 0 { // else another client does not know of all free permits; a semaphore has no foreign clients
				l.listenForeign()
			}
			t.checkSoon(uncertain, now)
			l.touch(t)
		}
	case Shown:
		if t == nil {
			l.hearGrant(t, m, now) // an Acquire was executed once more after the release
		}
	case Forced:
		if t != nil {
			t.checkSoon(removal, now)
			l.touch(t)
		}
	case TakenOver:
		l.hearTakeover(t, m, now)
	case LetThrough:
		t.hearLetThrough(m, now)
	case Satisfied:
		l.hearSatisfied(t, now)
	case ForeignNews:
		if !m.Ours { // else a client of rlock has published it
			l.foreign.news, l.foreign.heard = published, true
		}
		l.doubtTickets(now)
	default:
		panic("core: a message of the kind " + m.Kind.String())
	}
	l.Settle(now)
}

// hearGrant deals with the message that a ticket has the lock.
func (l *Lock) hearGrant(t *Tenure, m Message, now Now) {
	if t == nil {
		if l.client.closed || m.ID.Client != l.client.ID {
			return // all tenures leave
		}
		if l.client.hasPartedFrom(m.ID, now) {
			return // the tenure is left to its lease
		}
		t = l.strayTenure(m) // no waiter wants it, and the next in the queue must not wait for that
		l.makeGone(t, now)
		return
	}
	l.endLapsed(now)
	if o := l.held; o != nil && o != t && t.want == Asked && !(t.mode == Shared && l.isRead()) {
		// The message may be forged. So it ends no hold that is valid by an answer of Redis, which
		// is asked about both.
		o.old = true
		l.touch(o)
		t.checkSoon(uncertain, now)
		l.touch(t)
		return
	}
	t.noteGrant(m, now)
	l.settleTicket(t, now)
	l.touch(t)
}

// hearSatisfied deals with the message that a release has taken the ticket out of the queue, since
// it has an answer for the call. If the Join of the ticket has no answer, its place is not known,
// and the ticket leaves. If the message is forged, the ticket stays in the queue, and is given back
// when it is granted the lock.
func (l *Lock) hearSatisfied(t *Tenure, now Now) {
	if t == nil || t.Agent == nil || !t.queues() || !t.answerable {
		return
	}
	w := t.Agent
	if t.place == InQueue {
		t.noteTakenOut() // by the release
	}
	l.makeGone(t, now)
	l.endWait(w, GotAnswer, now)
}

// doubtTickets schedules a look for each ticket.
func (l *Lock) doubtTickets(now Now) {
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.queues() {
			t.checkSoon(uncertain, now)
			l.touch(t)
		}
	}
}

// Confirm sends the levels to Redis again, so that the answer says whether Redis still shows them.
func (l *Lock) Confirm(now Now) {
	if t := l.held; t != nil {
		t.old = true
		l.touch(t)
	}
	l.Settle(now)
}

// The subscription to the client's grants: the first waiter begins it, and it ends when the lock is
// idle.

// A subscription is the state of a subscription.
type subscription uint8

const (
	unsubscribed  subscription = iota // there is none
	subscribing                       // the subscription is not confirmed yet
	subscribed                        // the subscription is confirmed
	notSubscribed                     // the subscription was refused, or waiters have waited for it for too long
)

// subscribe begins the subscription to the client's grants.
func (l *Lock) subscribe(now Now) {
	if l.grants == unsubscribed {
		l.grants, l.patient = subscribing, now.Time.After(l.client.Patience)
		l.addEffect(Effect{Kind: Subscribe})
	}
}

// Subscribed reports to the lock whether its subscription is confirmed. Messages may have been lost
// before.
func (l *Lock) Subscribed(yes bool, now Now) {
	l.grants = notSubscribed
	if yes {
		l.grants = subscribed
	}
	l.doubtTickets(now)
	l.seekAllTickets(now)
	l.Settle(now)
}

// Disconnected reports to the lock that the connection of its subscription has ended. The driver
// subscribes again by itself.
func (l *Lock) Disconnected(now Now) {
	if l.grants == subscribed {
		l.grants, l.patient = subscribing, now.Time.After(l.client.Patience)
		l.seekAllTickets(now) // waiters poll then
	}
}

// unsubscribe ends the subscription to the client's grants.
func (l *Lock) unsubscribe() {
	l.grants = unsubscribed
	l.addEffect(Effect{Kind: Unsubscribe})
}
