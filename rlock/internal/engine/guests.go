package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// firstGuestLook is the longest time until the first ticket looks again at a lock that
	// a guest has just taken. The next ones are as long as the guest has had the lock.
	firstGuestLook = 100 * time.Millisecond
	// firstSilentLook is the same at a lock of guests that publish nothing when they release
	// it, and take it again at once: it is free for a moment only.
	firstSilentLook = 2 * time.Millisecond
	// guestNoise is by how much the end of a lease seems to move between two looks: by the
	// times that they take. silentNoise is the same of guests that publish nothing.
	guestNoise, silentNoise = 20 * time.Millisecond, 4 * time.Millisecond
	// countedTurn is the longest turn of guests that are counted. It is a part of the
	// protocol: guests.lua says the same.
	countedTurn = 10 * time.Millisecond
	// turnLook is how often the first ticket looks for guests that have the lock in a longer
	// turn, which is that of guests that nobody can count.
	turnLook = 5 * time.Millisecond
	// longGuestLease is when a lease counts as one without an end.
	longGuestLease = 24 * time.Hour
)

// Guests are clients of Redisson that contend for the lock. They know nothing of the queue,
// and are told that the lock is free by its channel. Only an usher listens there: the client
// of the first ticket, while a guest has the lock or it is the guests' turn. A second
// channel counts the ushers, so that Redis can tell how many guests listen.

// guestNews is what an usher knows of how guests release the lock.
type guestNews uint8

const (
	noNews       guestNews = iota
	messageHeard           // they have published a message since the last look at a lock that one holds
	guestsSilent           // one has taken the lock again, and none has published a message
)

// usher has this client listen to what guests are told.
func (r *room) usher() {
	if len(r.ushers) > 0 || r.sub == nil {
		return
	}
	c, n := r.client, r.name
	heard := func(string) {
		r := c.enter(n)
		r.guests = messageHeard
		r.lookNow(time.Now())
		r.exit()
	}
	if c.Redis.Counts() {
		r.ushers = append(r.ushers, r.sub.Also(n.Ushers(), heard))
	}
	r.ushers = append(r.ushers, r.sub.Also(n.Channel, heard))
}

// dismiss ends usher.
func (r *room) dismiss() {
	for _, s := range r.ushers {
		s.Close()
	}
	r.ushers = nil
}

// lookNow has every ticket here looked for, and every waiter look whether it can join: the
// lock may be free, or a message may have been lost.
func (r *room) lookNow(now time.Time) {
	for w := range r.waiters {
		w.lookNow(now)
		w.Wake()
	}
}

// lookNow has the ticket looked for, again if a command is in flight: its answer may be
// older than the reason to look.
func (w *waiter) lookNow(now time.Time) {
	w.lookAt = now
	if w.ticket != nil && w.ticket.phase != queued {
		w.ticket.stale = true
	}
}

// usherListens reports whether this client hears what guests are told.
func (r *room) usherListens() bool {
	return len(r.ushers) > 0 && r.ushers[len(r.ushers)-1].Confirmed()
}

// followGuest returns when to look again at a lock that a guest holds for ttl more
// milliseconds. Some guests publish nothing when they release the lock: Redisson's spin
// lock. So the first ticket looks soon after the lock has been taken or renewed, and less
// and less often while nothing changes. It looks sooner if the lock was taken again without a
// message.
func (r *room) followGuest(w *waiter, ttl int64, now time.Time) time.Duration {
	left := wire.Milliseconds(ttl)
	if ttl < 0 || left > longGuestLease {
		return lookTime // nothing would show that the lock has been taken again
	}
	first, noise := firstGuestLook, guestNoise
	if r.guests == guestsSilent {
		first, noise = firstSilentLook, silentNoise
	}
	if ends := now.Add(left); ends.Sub(w.guestEnds).Abs() > noise {
		if w.guestListens && r.guests != messageHeard {
			r.guests, first = guestsSilent, firstSilentLook
		}
		w.guestEnds, w.guestSince = ends, now
	}
	if r.guests == messageHeard {
		r.guests = noNews
	}
	w.guestListens = r.usherListens()
	return wire.Jitter(max(first, now.Sub(w.guestSince)))
}

// watchTurn returns when to look again in a turn of guests that ends in ttl milliseconds. In
// that of guests that nobody can count, Redis learns by a look that one has the lock.
func watchTurn(ttl int64) time.Duration {
	left := wire.Milliseconds(ttl)
	if left > countedTurn {
		return wire.Jitter(turnLook)
	}
	return left + time.Millisecond
}
