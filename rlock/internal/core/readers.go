package core

// The readers of one client share a tenure: in Redis they are one reader, so that only the first to
// come and the last to leave send a command. They hold back for a writer that waits in this client,
// since the line is first in, first out, and for waiters of other clients as a hand-off does: a
// stream of readers must end.

// spendHandoffOnReader reports whether the call is a reader's that may share the lock with the
// readers that hold it, and counts it as a hand-off if others wait.
func (l *Lock) spendHandoffOnReader(w *Call, now Now) bool {
	t := l.held
	if w.Mode != Shared || !l.isRead() || l.line.Len() > 0 {
		return false
	}
	if l.spendHandoff(now) {
		if now.Time.Since(t.trust.seen.Time) >= l.client.HandoffTime { // no reader waits here, so no ticket of this client shows whether others wait
			t.old = true // the next Mirror asks
		}
		return true
	}
	if t.contention.othersWait && now.Time.Since(t.trust.seen.Time) >= l.client.ReadersTime {
		t.old = true // the next Mirror asks: the others may have left
		l.touch(t)
	}
	return false
}

// admitReaders gives the readers at the front of the line a level beside the readers that hold the
// lock: all of them at the beginning of a turn, for which they have waited, else as many as may
// join.
func (l *Lock) admitReaders(all bool, now Now) {
	for w := l.line.first(); w != nil && w.Mode == Shared && l.isRead() && (all || l.spendHandoff(now)); w = l.line.first() {
		l.admit(w, ByJoining, now)
		l.admitOwner(w.Owner, now)
		l.noteLevelsChanged(now)
	}
}

// ticketDueBesideReaders returns when the waiter takes a ticket although readers of this client
// have the lock: if it is the first in line to join them, and has held back for waiters of other
// clients for long enough. It returns Never for any other waiter.
func (l *Lock) ticketDueBesideReaders(w *Call) Time {
	t := l.held
	switch {
	case w.Mode != Shared || l.line.first() != w || !l.isRead():
		return Never
	case !t.mayBeginHold():
		return w.Began
	case !t.contention.othersWait:
		return Never
	}
	return w.Began.After(l.client.ReadersTime)
}

// holdsBack reports whether a reader waits to join the readers of this client, since others may
// wait as well.
func (l *Lock) holdsBack() bool {
	w := l.line.first()
	return w != nil && w.Tenure == nil && l.ticketDueBesideReaders(w) != Never
}

// putReadersFirst puts the writers at the front of the line behind the readers: while foreign
// readers keep writers out, readers get a turn now and then.
func (l *Lock) putReadersFirst(now Now) {
	reads := false
	for w := range l.line.All {
		reads = reads || w.Value.Mode == Shared
	}
	if !reads {
		return
	}
	for w := l.line.first(); w.Mode == Alone; w = l.line.first() {
		l.line.remove(w)
		l.line.add(w)
	}
	l.seekFirstTicket(now)
}

// A contention is the part of a tenure in which other clients wait: the lock is handed off in this
// client for a bounded time and number of times, and then released. A tenure that took a lock which
// was passed on begins without hand-offs: else clients that pass the lock on in each section would
// never release it, since each tenure counts its own.
type contention struct {
	since      Time  // the time since which others are known to wait
	handoffs   int32 // the number of hand-offs since
	othersWait bool  // others wait
	handedOff  bool  // the lock was handed off since the last Mirror that asked for others
}

// noteOthers begins or ends the contention by the number of others that wait.
func (t *contention) noteOthers(others int, now Now) {
	switch {
	case others == 0:
		*t = contention{handedOff: t.handedOff} // the next Mirror clears handedOff
	case !t.othersWait:
		t.othersWait, t.since = true, now.Time
	}
}

// AskOthers makes the effect Wanted follow, once, when another owner waits for the lock: a caller
// in the line here or, by the answer to a Mirror, a caller of another client. Until then each
// Mirror asks, and one is due at once. If the lock is not held, or no longer, the effect does not
// follow.
func (l *Lock) AskOthers(now Now) {
	l.endLapsed(now)
	if t := l.held; t != nil && !l.curious {
		l.curious, t.old = true, true
		l.touch(t)
	}
	l.Settle(now)
}

// IsCurious reports whether a hold waits for the effect Wanted.
func (l *Lock) IsCurious() bool { return l.curious }

// noteWanted notes whether another owner waits for the lock.
func (l *Lock) noteWanted(waits bool) {
	if l.curious && waits {
		l.curious = false
		l.addEffect(Effect{Kind: Wanted})
	}
}

// spendHandoff reports whether the lock may be handed off to another waiter of this client, and
// counts the hand-off: enough of the lease is left, there is a fencing token, no former hold has
// sent a guarded write, and other clients have not waited for too long.
func (l *Lock) spendHandoff(now Now) bool {
	t, c := l.held, l.client
	switch {
	case l.Kind.Strict, c.closed, l.yielding == confirmed, !t.isLeaseLongEnough(now), t.tokens.spent(), !t.mayBeginHold():
		return false
	case !t.contention.othersWait:
		return true
	}
	l.subscribe(now) // so that the next ticket can join with the release
	if int(t.contention.handoffs) >= c.HandoffLimit || now.Time.Since(t.contention.since) >= c.HandoffTime {
		return false
	}
	t.contention.handoffs++
	return true
}
