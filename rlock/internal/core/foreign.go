package core

// Foreign clients are clients of Redisson: they know the lock and a channel, and nothing of the
// queue. While a foreign client holds the lock, or has its window, two clients subscribe to that
// channel, and look when the lock may be free: the client of the first ticket, and the client of
// another ticket, its deputy.

// A ForeignConfig has the times by which a client looks behind foreign clients.
type ForeignConfig struct {
	WindowLook         Span // the interval of Looks in a window that is longer than this
	Look, SilentLook   Span // the first pause after a foreign client took the lock: Look if foreign clients publish, SilentLook if this one does not
	Noise, SilentNoise Span // the largest difference between two ends of a lease that are taken for the same end
	LongLease          Span // the length above which a lease is taken for one without an end
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

// planForeignLook returns the time until the next Look that foreign clients make necessary, Forever
// for none. If they hold the lock, or have a window, it subscribes to their channel.
func (l *Lock) planForeignLook(a Reply, now Now) Span {
	c := l.client
	d := Forever
	if a.HeldBack && a.HeldFor > 0 { // readers may begin after HeldFor
		d = a.HeldFor + c.Slack
	}
	if a.Found != First || a.Window <= 0 && !a.Foreign {
		return d
	}
	l.listenForeign()
	if a.Window > 0 {
		if d = min(d, a.Window+c.Slack); a.Window > c.Foreign.WindowLook {
			d = min(d, c.jitter(c.Foreign.WindowLook)) // foreign clients that only poll may have this window, and send no message at its end
		}
	}
	if a.Foreign {
		d = min(d, l.planForeignHolderLook(a, now))
	}
	return d
}

// planForeignHolderLook returns the time until the next Look at a lock that a foreign client holds.
// Some clients publish nothing when they release the lock. So the first Look comes soon after the
// lock was taken or renewed, and the pauses grow while nothing changes. The first pause is shorter
// if the lock was taken again without a message.
func (l *Lock) planForeignHolderLook(a Reply, now Now) Span {
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
