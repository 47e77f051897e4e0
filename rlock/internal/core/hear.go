package core

// What the client hears: messages, of which none is believed, and doubts, after which Redis is asked.

// Hear deals with a message, of which none is believed: it may be late, doubled or forged.
func (l *Lock) Hear(m Message, now Now) {
	t := l.Find(m.ID)
	switch m.Kind {
	case Granted:
		l.heardGrant(t, m, now)
	case AtFront:
		if t != nil && t.queues() {
			if l.Kind.Permits == 0 { // else it is no news of foreign clients: another client may know of fewer permits
				l.listenAbroad()
			}
			t.doubted(now)
			l.touch(t)
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
		if !m.Ours { // published by one of our clients
			l.abroad.news, l.abroad.told = heard, true
		}
		l.doubtTickets(now)
	default:
		panic("core: a message of the kind " + m.Kind.String())
	}
	l.Settle(now)
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
	l.lapse(now)
	if o := l.owner; o != nil && o != t && t.want == Asked && !(t.mode == Shared && l.isRead()) {
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
	if t == nil || t.Agent == nil || !t.queues() || !t.takes {
		return
	}
	w := t.Agent
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
	l.Settle(now)
}

// doubtTickets schedules a look for each ticket.
func (l *Lock) doubtTickets(now Now) {
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.want == Asked {
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
	l.Settle(now)
}

// The subscription of this client to its grants: a waiter begins it, and the lock ends it when nothing is left that needs it.

// A hearing is whether this client hears the messages of a channel.
type hearing uint8

const (
	deaf      hearing = iota // it does not listen
	asking                   // it subscribes
	listening                // it hears them
	refused                  // it cannot hear them
)

// Subscribes reports whether the lock wants to be told of grants.
func (l *Lock) Subscribes() bool { return l.hears == asking || l.hears == listening }

// subscribe subscribes this client to its grants.
func (l *Lock) subscribe(now Now) {
	if l.hears == deaf {
		l.hears, l.patient = asking, now.Time.After(l.client.Patience)
		l.tell(Effect{Kind: Subscribe})
	}
}

// Listening says whether this client is told of grants. A message may have been lost before.
func (l *Lock) Listening(yes bool, now Now) {
	l.hears = refused
	if yes {
		l.hears = listening
	}
	l.doubtTickets(now)
	l.seekAll(now)
	l.Settle(now)
}

// Deafened says that the connection of the subscription has ended. It is subscribed again by itself.
func (l *Lock) Deafened(now Now) {
	if l.hears == listening {
		l.hears, l.patient = asking, now.Time.After(l.client.Patience)
		l.seekAll(now) // they poll then
	}
}

// quiet ends the subscriptions when nothing is left that needs them.
func (l *Lock) quiet() {
	if l.Idle() {
		l.hears = deaf
		l.tell(Effect{Kind: Unsubscribe})
	}
}

// Foreign clients, Redisson's, know the lock and a channel, and nothing of the queue. While one of them holds the lock,
// or has its window, the client of the first ticket listens to what they are told, and looks when the lock may be free.

// A ForeignConfig has the times of the first ticket behind foreign clients.
type ForeignConfig struct {
	WindowLook         Span // how often it looks in a window that is longer than this
	Look, SilentLook   Span // how soon it looks at a lock that was just taken, and at one that a silent client took
	Noise, SilentNoise Span // by how much the end of a lease seems to move between two looks
	LongLease          Span // a longer lease counts as one without an end
}

// abroad is the state of foreign clients, as far as this client knows it.
type abroad struct {
	hears   hearing // whether this client hears what they are told
	told    bool    // one has published, and Redis was not told so
	news    abroadNews
	listens bool // this client has heard them since the last look
	ends    Time // of the lease of the holder, as the last look has shown it
	since   Time // from when it has shown that
}

type abroadNews uint8

const (
	noneAbroad abroadNews = iota
	heard                 // one has published a message since the last look at a lock that one holds
	silent                // one has taken the lock again, and none has published
)

// listenAbroad makes this client listen to the messages for foreign clients.
func (l *Lock) listenAbroad() {
	if l.abroad.hears == deaf {
		l.abroad.hears = asking
		l.tell(Effect{Kind: ListenAbroad})
	}
}

// ListeningAbroad says that this client hears what foreign clients are told from now on: one may have released the lock
// before.
func (l *Lock) ListeningAbroad(now Now) {
	if l.abroad.hears == asking {
		l.abroad.hears = listening
	}
	l.doubtTickets(now)
	l.Settle(now)
}

// dismiss ends listenAbroad once no ticket here waits for the lock.
func (l *Lock) dismiss() {
	for t := l.tenures.first; t != nil && l.owner == nil; t = t.behind {
		if t.queues() && (t.place != Owner) {
			return
		}
	}
	l.abroad = abroad{told: l.abroad.told}
	l.tell(Effect{Kind: IgnoreAbroad})
}

// follow returns how long to wait until the ticket is looked for, as far as foreign clients are concerned.
func (l *Lock) follow(t *Tenure, a Reply, now Now) Span {
	c := l.client
	d := Forever
	if a.HeldBack && a.HeldFor > 0 { // readers may begin then
		d = a.HeldFor + c.Slack
	}
	if a.Found != First || a.Window <= 0 && !a.Foreign {
		return d
	}
	l.listenAbroad()
	if a.Window > 0 {
		if d = min(d, a.Window+c.Slack); a.Window > c.Foreign.WindowLook {
			d = min(d, c.jitter(c.Foreign.WindowLook)) // one of those that cannot be counted: Redis learns by a look that it has the lock
		}
	}
	if a.Foreign {
		d = min(d, l.followHolder(a, now))
	}
	return d
}

// followHolder returns how long to wait until the next look at a lock that a foreign client holds. Some publish nothing
// when they release the lock. So the first ticket looks soon after the lock was taken or renewed, and less and less often
// while nothing changes; sooner if the lock was taken again without a message.
func (l *Lock) followHolder(a Reply, now Now) Span {
	c, f := &l.client.Foreign, &l.abroad
	if a.TTL == NoTTL || a.TTL > c.LongLease {
		return Forever // nothing would show that the lock was taken again
	}
	first, noise := c.Look, c.Noise
	if f.news == silent {
		first, noise = c.SilentLook, c.SilentNoise
	}
	ends := now.Time.After(a.TTL)
	if d := ends.Since(f.ends); d > noise || d < -noise {
		if f.listens && f.news != heard {
			f.news, first = silent, c.SilentLook
		}
		f.ends, f.since = ends, now.Time
	}
	if f.news == heard {
		f.news = noneAbroad
	}
	f.listens = f.hears == listening
	return l.client.jitter(max(first, now.Time.Since(f.since)))
}
