package core

import "github.com/go-rlock/rlock/internal/enum"

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

func (a abroadNews) String() string {
	return enum.Name(a, "abroadNews", "noneAbroad", "heard", "silent")
}

// hear notes a message for foreign clients, unless a client of ours has published it.
func (a *abroad) hear(m Message) {
	if !m.Ours {
		a.news, a.told = heard, true
	}
}

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
	l.settle(now)
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
