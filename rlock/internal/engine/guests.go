package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// firstGuestLook is the longest time until the first ticket looks again at a lock that
	// a guest has just taken. It doubles while the guest holds the lock.
	firstGuestLook = 100 * time.Millisecond
	// guestNoise is by how much the end of a lease seems to move between two looks: by the
	// times that they take.
	guestNoise = 20 * time.Millisecond
	// longGuestLease is when a lease counts as one without an end.
	longGuestLease = 24 * time.Hour
)

// Guests are clients of Redisson that contend for the lock. They know nothing of the queue,
// and are told that the lock is free by its channel. Only an usher listens there: the client
// of the first ticket, while a guest has the lock or it is the guests' turn. A second
// channel counts the ushers, so that Redis can tell how many guests listen.

// usher has this client listen to what guests are told.
func (r *room) usher() {
	if len(r.ushers) > 0 || r.sub == nil {
		return
	}
	c, n := r.client, r.name
	heard := func(string) {
		r := c.enter(n)
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

// followGuest returns when to look again at a lock that a guest holds for ttl more
// milliseconds. Some guests publish nothing when they release the lock: Redisson's spin
// lock. So the first ticket looks soon after the lock has been taken or renewed, and less
// and less often while nothing changes.
func (w *waiter) followGuest(ttl int64, now time.Time) time.Duration {
	left := wire.Milliseconds(ttl)
	if ttl < 0 || left > longGuestLease {
		return lookTime // nothing would show that the lock has been taken again
	}
	if ends := now.Add(left); ends.Sub(w.guestEnds).Abs() > guestNoise {
		w.guestEnds, w.guestLooks = ends, 0
	}
	w.guestLooks++
	return wire.Jitter(firstGuestLook << min(w.guestLooks-1, 10))
}
