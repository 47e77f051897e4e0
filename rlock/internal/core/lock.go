package core

import "github.com/go-rlock/rlock/internal/enum"

// A Lock is one lock as one client knows it: its owners here, its waiters here, and the tenures.
// Its methods are the events of the lock, and the caller serializes those of one [Client]. After
// each it takes [Client.Effects].
type Lock struct {
	Kind Kind
	Tag  any // the driver's

	client  *Client
	levels  levels
	line    line
	owner   *Tenure // that is Held, nil for none
	tenures tenures // all that are not over, with the owner

	hears   hearing // whether this client is told of grants
	reserve uint32  // how many fencing tokens the next tenure reserves; 0: one
	patient Time    // asking: until when to wait for the answer
	stays   Time    // until when the lock stays after its last level, 0 for not: see StayUntil
	abroad  abroad  // the state of foreign clients
}

// NewLock returns a lock without holder and waiter.
func (c *Client) NewLock(k Kind) *Lock {
	l := &Lock{}
	l.Reset(c, k)
	return l
}

// Reset makes a lock without holder and waiter in the memory of one that is idle.
func (l *Lock) Reset(c *Client, k Kind) {
	*l = Lock{Kind: k, Tag: l.Tag, client: c, levels: noLevels(l.levels.all)}
}

// Idle reports whether nothing is left of the lock, so that the client may forget it.
func (l *Lock) Idle() bool { return l.tenures.len == 0 && l.line.calls == 0 }

// Lock begins a call. Unless its outcome is known at once the call waits: its goroutine asks Next.
func (l *Lock) Lock(w *Call, now Now) Outcome {
	if !l.Nest(w, now) && l.AtOnce(w, now) == Waiting {
		l.Wait(w, now)
	}
	return w.Outcome
}

// Nest, AtOnce and Wait are the parts of Lock, for a driver. Only Wait retains w; until then w may live on the stack.

// Nest gives the call a level if its owner holds the lock already, and reports whether it does.
func (l *Lock) Nest(w *Call, now Now) bool {
	w.began = now.Time
	if l.owner == nil || l.current(now) == nil || !l.Hosts(w.Owner, w.Guest) || l.exceeds(w) {
		return false
	}
	l.nest(w, ByNesting, now)
	return true
}

// AtOnce decides a call that needs no command; otherwise it returns Waiting. Nest must have returned false.
func (l *Lock) AtOnce(w *Call, now Now) Outcome {
	w.Outcome = Waiting
	switch owner := l.owner; {
	case l.client.closed:
		w.Outcome = Closed
	case owner != nil && l.Hosts(w.Owner, w.Guest):
		w.Outcome = Upgrades
	case owner != nil && l.mayJoin(w, now):
		l.nest(w, ByJoining, now)
	case !w.Waits && l.isHeld():
		w.Outcome = Denied
	case !w.Waits && l.line.Len() > 0:
		w.attempt = tries
		w.Outcome, _ = l.decision(w, now)
	case w.Most != 0 && l.isFullHere(w):
		w.Outcome, w.Others = Full, int32(l.line.Len())
	}
	return w.Outcome
}

// Wait puts a call into the line that was not served at once.
func (l *Lock) Wait(w *Call, now Now) {
	l.begins(w, Locks, nil)
	w.attempt, w.overdue = tries, !w.Waits
	l.line.join(w)
	if l.hasOwnTicket(w) {
		l.seekFor(w, now)
	}
	l.settle(now)
}

// nest gives the call a level beside those that there are.
func (l *Lock) nest(w *Call, way Way, now Now) {
	l.open(w, way, now)
	l.changed(now)
}

// Unlock closes the level of a handle, or the owner's innermost level of the mode, and returns it. If that takes a command
// it returns the tenure: the keeper sends the command, unless a call does: see Release.
func (l *Lock) Unlock(o OwnerID, m Mode, handle any, now Now) (was Level, releases *Tenure, ok bool) {
	t := l.current(now)
	i := -1
	if t != nil {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		return was, nil, false
	}
	was = l.close(i)
	switch {
	case l.isHeld():
		if l.isRead() && was.Mode == Alone {
			t.mode = Shared
			l.admitReaders(t.isOpen(), now)
		}
		l.changed(now)
	case now.Time < l.stays:
		releases = l.stay(now)
	case l.handsOff(now):
	default:
		l.give(t, now)
		releases = t
	}
	l.settle(now)
	return was, releases, true
}

// SetLease gives a level a lease from now on, 0 for one that is renewed until its Unlock.
func (l *Lock) SetLease(o OwnerID, m Mode, handle any, lease Span, now Now) bool {
	t, i := l.current(now), l.levelOf(o, m, handle)
	if t == nil || i < 0 {
		return false
	}
	l.let(i, lease, false, now)
	l.changed(now)
	l.settle(now)
	return true
}

// An Extension is the result of Extend.
type Extension uint8

const (
	EndMoves Extension = iota
	EndAsked           // Redis has to confirm the lease: it is asked by the next mirror, and IsShown says when it has
	NoEnd              // the level ends by its Unlock alone
	NoLevel            // there is no such level
)

func (e Extension) String() string {
	return enum.Name(e, "Extension", "EndMoves", "EndAsked", "NoEnd", "NoLevel")
}

// Extend moves the end of a level that ends by itself: it is so long from now on.
func (l *Lock) Extend(o OwnerID, m Mode, handle any, d Span, now Now) Extension {
	t, i := l.current(now), l.levelOf(o, m, handle)
	if t == nil || i < 0 {
		return NoLevel
	}
	was := l.levels.all[i]
	if was.Until == NeverSafe {
		return NoEnd
	}
	l.let(i, d, was.Capped, now)
	l.changed(now)
	l.settle(now)
	if was.Capped {
		return EndMoves
	}
	return EndAsked
}

// Close ends everything: calls return, also those whose command is in flight, and what Redis shows yet is released. A
// tenure that was parted with is left to its lease.
func (l *Lock) Close(now Now) {
	l.client.closed = true
	for l.line.first() != nil {
		l.leave(l.line.first(), Closed, now)
	}
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.call != nil && t.call.purpose == Locks { // that of a Resume does not wait in the line
			l.leave(t.call, Closed, now)
		}
	}
	if l.owner != nil {
		l.lose(ByClose, now)
	}
	l.settle(now)
}
