package core

// Messages to the client, and its subscriptions. No message is believed: Redis is asked.

// Hear deals with a message, which may be late, doubled or forged.
func (l *Lock) Hear(m Message, now Now) {
	t := l.Find(m.ID)
	switch m.Kind {
	case Granted:
		l.hearGrant(t, m, now)
	case AtFront:
		if t != nil && t.queues() {
			if l.Kind.Permits == 0 { // a semaphore has no foreign clients: there another client knows of fewer permits
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
	case Satisfied:
		l.hearAnswered(t, now)
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

// hearAnswered deals with the message that a release has taken the ticket out of the queue, since
// it has an answer for the call. If the Join of the ticket has no answer, its place is not known,
// and the ticket leaves. If the message is forged, the ticket stays in the queue, and is given back
// when it is granted the lock.
func (l *Lock) hearAnswered(t *Tenure, now Now) {
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
	subscribing                       // it is not confirmed yet
	subscribed                        // it is confirmed
	notSubscribed                     // it was refused, or waiters have waited for it for too long
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

// Foreign clients are those of Redisson: they know the lock and a channel, and nothing of the
// queue. While a foreign client holds the lock, or has its window, the clients of the first ticket
// and its deputy listen to their channel, and look when the lock may be free.

// A ForeignConfig has the times of the first ticket behind foreign clients.
type ForeignConfig struct {
	WindowLook         Span // the interval of Looks in a window that is longer than this
	Look, SilentLook   Span // the first pause after a foreign client took the lock: one that publishes, and a silent one
	Noise, SilentNoise Span // the difference between two ends of a lease that counts as none
	LongLease          Span // the longest lease that is not taken for one without an end
}

// foreignState is what this client knows of foreign clients.
type foreignState struct {
	channel subscription // the subscription to their channel
	heard   bool         // a foreign client has published, and no step has reported it to Redis
	news    foreignNews
	listens bool // this client has listened since the last Look
	ends    Time // the end of the holder's lease, by the last Look
	since   Time // the time of the first Look that showed this end
}

// foreignNews is what the channel of foreign clients says of the holder.
type foreignNews uint8

const (
	noForeignNews foreignNews = iota // nothing
	published                        // a foreign client has published since the last Look
	silent                           // a foreign client took the lock again, and none published
)

// listenForeign subscribes to the channel of foreign clients.
func (l *Lock) listenForeign() {
	if l.foreign.channel == unsubscribed {
		l.foreign.channel = subscribing
		l.addEffect(Effect{Kind: ListenForeign})
	}
}

// ListeningForeign reports to the lock that the subscription to the channel of foreign clients is
// confirmed. A foreign client may have released the lock before.
func (l *Lock) ListeningForeign(now Now) {
	if l.foreign.channel == subscribing {
		l.foreign.channel = subscribed
	}
	l.doubtTickets(now)
	l.Settle(now)
}

// ignoreForeign ends the subscription to the channel of foreign clients if no ticket of this client
// waits for the lock.
func (l *Lock) ignoreForeign() {
	for t := l.tenures.first; t != nil && l.held == nil; t = t.behind {
		if t.queues() && (t.place != Owner) {
			return
		}
	}
	l.foreign = foreignState{heard: l.foreign.heard}
	l.addEffect(Effect{Kind: IgnoreForeign})
}

// foreignLook returns the time until the next Look that foreign clients make necessary, Forever for
// none.
func (l *Lock) foreignLook(t *Tenure, a Reply, now Now) Span {
	c := l.client
	d := Forever
	if a.HeldBack && a.HeldFor > 0 { // after which readers may begin
		d = a.HeldFor + c.Slack
	}
	if a.Found != First || a.Window <= 0 && !a.Foreign {
		return d
	}
	l.listenForeign()
	if a.Window > 0 {
		if d = min(d, a.Window+c.Slack); a.Window > c.Foreign.WindowLook {
			d = min(d, c.jitter(c.Foreign.WindowLook)) // a window for clients that only poll: a Look ends it when one has the lock
		}
	}
	if a.Foreign {
		d = min(d, l.foreignHolderLook(a, now))
	}
	return d
}

// foreignHolderLook returns the time until the next Look at a lock that a foreign client holds.
// Some clients publish nothing when they release the lock. So the first Look comes soon after the
// lock was taken or renewed, and the pauses grow while nothing changes. The first pause is shorter
// if the lock was taken again without a message.
func (l *Lock) foreignHolderLook(a Reply, now Now) Span {
	c, f := &l.client.Foreign, &l.foreign
	if a.TTL == NoTTL || a.TTL > c.LongLease {
		return Forever // no change of the lease would show that the lock was taken again
	}
	first, noise := c.Look, c.Noise
	if f.news == silent {
		first, noise = c.SilentLook, c.SilentNoise
	}
	ends := now.Time.After(a.TTL)
	if d := ends.Since(f.ends); d > noise || d < -noise {
		if f.listens && f.news != published {
			f.news, first = silent, c.SilentLook
		}
		f.ends, f.since = ends, now.Time
	}
	if f.news == published {
		f.news = noForeignNews
	}
	f.listens = f.channel == subscribed
	return l.client.jitter(max(first, now.Time.Since(f.since)))
}
