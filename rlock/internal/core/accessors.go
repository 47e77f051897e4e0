package core

// What a driver reads, and what it does besides the events of calls and answers.

// Client returns the client of the lock.
func (l *Lock) Client() *Client { return l.client }

// Owner returns the tenure by which the lock is held here, nil for none.
func (l *Lock) Owner() *Tenure { return l.owner }

// Levels returns the open levels, which the caller must not change.
func (l *Lock) Levels() []Level { return l.levels.all }

// Waiters calls yield with each waiter in order. That one may leave meanwhile.
func (l *Lock) Waiters(yield func(*Call) bool) {
	for w := range l.line.All {
		if !yield(w.Value) {
			return
		}
	}
}

// Len returns how many calls wait.
func (l *Lock) Len() int { return l.line.Len() }

// Tenures calls yield with each tenure that is not over.
func (l *Lock) Tenures(yield func(*Tenure) bool) {
	for t := l.tenures.first; t != nil; {
		next := t.behind
		if !yield(t) {
			return
		}
		t = next
	}
}

// Find returns the tenure of an ID that is not over, nil if there is none.
func (l *Lock) Find(id ID) *Tenure { return l.tenures.find(id) }

// Holds reports whether the owner holds the lock: with a level of its own, by a tenure that is valid.
func (l *Lock) Holds(o OwnerID, now Now) bool {
	return l.owner != nil && l.isHeld() && now.Safe < l.validUntil() && now.Safe < l.askedBy(o)
}

// KeepsOut reports whether a waiting reader could join the readers here: an invariant of the explorer.
func (l *Lock) KeepsOut(now Now) bool {
	w, t := l.line.first(), l.owner
	return t != nil && w != nil && w.Mode == Shared && l.isRead() && !t.share.contested && t.isOpen() && !l.client.closed && t.worth(now) && now.Safe < l.validUntil()
}

// TrustedUntil returns until when the last of the holders may be believed. The lock has an Owner, and is held.
func (l *Lock) TrustedUntil() SafeTime { return l.validUntil() }

// ValidUntil returns until when the owner's hold may be believed.
func (l *Lock) ValidUntil(o OwnerID) SafeTime { return min(l.validUntil(), l.askedBy(o)) }

// Want, Place and InFlight return the state of a tenure.
func (t *Tenure) Want() Want   { return t.want }
func (t *Tenure) Place() Place { return t.place }
func (t *Tenure) InFlight() Op { return t.flight.op }

// More returns how many permits of a semaphore the tenure takes beside the first.
func (t *Tenure) More() int32 { return t.more }

// IsTicket reports whether the tenure does not have the lock, and is to get it.
func (t *Tenure) IsTicket() bool { return t.isTicket() }

// Look ends all holds whose time is over.
func (l *Lock) Look(now Now) { l.settle(now) }

// Ends returns when a holder loses the lock unless it is renewed. The lock has an Owner.
func (l *Lock) Ends() SafeTime { return l.nextEnd() }

// IsHeld reports whether an owner holds the lock here, IsWritten whether one does that is no reader, and IsKept whether it is
// renewed until an Unlock.
func (l *Lock) IsHeld() bool    { return l.isHeld() }
func (l *Lock) IsWritten() bool { return l.levels.writes > 0 }
func (l *Lock) IsKept() bool    { return l.isHeld() && l.levels.asked == NeverSafe }

// IsShown reports whether Redis has confirmed that it shows the levels as they are.
func (l *Lock) IsShown(now Now) bool {
	t := l.owner
	return t != nil && t.flight.op != Mirror && l.isMirrored(t, now)
}

// Wakes returns when the goroutine of a call that locks has to ask Next, beside the time of its ticket.
func (l *Lock) Wakes(c *Call, now Now) Time { return l.wakes(c, now) }

// Busy reports whether a command is in flight or due whose answer decides whose the lock is.
func (l *Lock) Busy() bool { return l.busy() }

// Ends returns when a tenure that is Gone is over whatever Redis says.
func (t *Tenure) Ends() Time { return t.ends() }

// Claimed reports whether Redis was asked for no more than a claim.
func (t *Tenure) Claimed() bool { return t.claim }
