package core

// The readers of one client share a tenure: in Redis they are one reader, so that to join, to nest and to leave sends
// nothing, but for the last to leave. They hold back for a writer that waits here, since the line is first in, first out,
// and for others elsewhere as a hand-off does: a stream of readers must end.

// mayJoin reports whether the call is a reader's that may hold the lock beside the owners, which have to be readers.
func (l *Lock) mayJoin(w *Call, now Now) bool {
	t := l.owner
	if w.Mode != Shared || !l.isRead() || l.line.Len() > 0 {
		return false
	}
	if l.mayPass(now) {
		if now.Time.Since(t.trust.seen.Time) >= l.client.HandoffTime { // no reader waits here, so that none asks for others
			t.asksSoon()
		}
		return true
	}
	if t.share.contested && now.Time.Since(t.trust.seen.Time) >= l.client.ReadersTime {
		t.asksSoon() // those that waited may have left
		l.touch(t)
	}
	return false
}

// asksSoon makes the next mirror ask whether others wait.
func (t *Tenure) asksSoon() { t.unshown() }

// admitReaders lets in the readers at the front of the line beside those that read: all of them at the beginning of a
// turn, for which they have waited, else as many as may join.
func (l *Lock) admitReaders(all bool, now Now) {
	for w := l.line.first(); w != nil && w.Mode == Shared && l.isRead() && (all || l.mayPass(now)); w = l.line.first() {
		l.admit(w, ByJoining, now)
		l.admitOwner(w.Owner, now)
		l.changed(now)
	}
}

// isHeldBack reports whether the waiter is the reader that is next to join the readers here, and has held back for others
// elsewhere for long enough to take a ticket.
func (l *Lock) isHeldBack(w *Call, now Now) bool {
	from, ok := l.heldBackFrom(w)
	return ok && now.Time >= from
}

// heldBackFrom returns from when the waiter takes a ticket though readers here have the lock.
func (l *Lock) heldBackFrom(w *Call) (from Time, ok bool) {
	t := l.owner
	switch {
	case t == nil || w.Mode != Shared || l.line.first() != w || !l.isRead():
		return 0, false
	case !t.isOpen():
		return w.began, true
	}
	return w.began.After(l.client.ReadersTime), t.share.contested
}

// giveWay puts the writers at the front of the line behind the readers: as long as foreign readers keep the writers out,
// readers have a turn now and then.
func (l *Lock) giveWay(now Now) {
	reads := false
	for w := range l.line.All {
		reads = reads || w.Value.Mode == Shared
	}
	if !reads {
		return
	}
	for w := l.line.first(); w.Mode == Alone; w = l.line.first() {
		l.line.leave(w)
		l.line.join(w)
	}
	l.seek(now)
}
