package core

import "github.com/go-rlock/rlock/internal/enum"

// How this client parts with a lock: Redis shows it until a lease ends, and no owner here holds it. It is left for the rest of a
// time (StayUntil), or to a client that presents the name of its tenure (Pass, and Resume there).
//
// A lock that is passed on goes to a client that presents the name of its tenure. Redis shows it as held by owner 0, for a
// fixed lease, and no other Mirror of its tenure changes that: so one that is late does not take the lock back. Nor does a
// guarded write of the tenure find it. A Resume puts a new tenure in its place.

// A PartResult is the outcome of Pass.
type PartResult uint8

const (
	HasParted   PartResult = iota // no owner here holds the lock any more, and Redis shows it until its lease ends
	NotAlone                      // there are other levels
	NothingHeld                   // there is no such level
)

func (r PartResult) String() string {
	return enum.Name(r, "PartResult", "HasParted", "NotAlone", "NothingHeld")
}

// passedOn is the owner of a tenure that was passed on. No owner of a hold is 0.
const passedOn OwnerID = 0

// Pass ends the hold of the only level, and passes the lock on for so long. A call sends the command: see Release. Unless
// Redis has passed the lock on it is released.
func (l *Lock) Pass(o OwnerID, m Mode, handle any, within Span, now Now) (was Level, passes *Tenure, result PartResult) {
	t := l.current(now)
	i := l.levelOf(o, m, handle)
	switch {
	case t == nil || i < 0:
		return was, nil, NothingHeld
	case len(l.levels.all) > 1:
		return was, nil, NotAlone
	}
	return l.part(i, within, now), t, HasParted
}

// part ends the hold of the only level, and leaves the tenure in Redis.
func (l *Lock) part(i int, within Span, now Now) (was Level) {
	was = l.close(i)
	l.leaveToLease(within)
	l.settle(now)
	return was
}

// leaveToLease parts with the owner, which has no level, for that lease.
func (l *Lock) leaveToLease(within Span) {
	t := l.owner
	l.owner = nil
	t.parts(within)
	l.touch(t)
}

// StayUntil makes the lock stay until then, or later, when its last level is closed: for a hold that lasts for a time at least.
// A lost lock does not stay.
func (l *Lock) StayUntil(at Time) { l.stays = max(l.stays, at) }

// stay leaves the lock to a lease for the rest of that time, as one that is passed on to no client.
func (l *Lock) stay(now Now) *Tenure {
	t := l.owner
	l.leaveToLease(l.stays.Since(now.Time))
	l.stays = 0
	return t
}

// passing notes that the Mirror is about to be sent that passes the lock on, and returns its lease.
func (t *Tenure) passing() (lease Span) {
	lease, t.within = t.within, 0
	t.shown, t.old = oneLevel(passedOn, t.mode), false
	return lease
}

// Resume begins a call that takes a lock which was passed on. It does not wait in the line: Redis says at once whether the
// lock is its. Without an answer it asks again, with the same tenure, until the time of the waiter is up.
func (l *Lock) Resume(w *Call, now Now) Outcome {
	w.began, w.Waits = now.Time, true
	l.begins(w, Locks, nil)
	if l.client.closed {
		w.Outcome = Closed
		return w.Outcome
	}
	t := l.asks(w, Resume)
	t.share.spent(l.client)
	if w.Inherits > 0 { // it has no tokens for other holds
		t.tokens = tokens{reserved: 1, current: w.Inherits}
	}
	l.settle(now)
	return w.Outcome
}
