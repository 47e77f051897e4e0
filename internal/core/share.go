package core

// A share is the part of a tenure in which other clients wait: the lock is handed off here for as long as others can be
// asked to wait, and then it is released. A tenure that took a lock which was passed on has no hand-offs while they wait:
// those of the tenure before do not count for it, and clients that pass the lock on in each section would never release it.
type share struct {
	since     Time
	passes    int32
	contested bool
	handed    bool // the lock was handed off since the last mirror that asked for others
}

// heardOf begins or ends a share: so many others wait.
func (t *share) heardOf(others int, now Now) {
	switch {
	case others == 0:
		*t = share{handed: t.handed} // which the next mirror clears
	case !t.contested:
		t.contested, t.since = true, now.Time
	}
}

// spent begins a share without hand-offs. It counts unless no other client waits.
func (t *share) spent(c *Client) { t.passes = int32(c.HandoffLimit) }

// vacated goes on after the last level was closed: the next waiter here holds the lock, or the tenure lingers. It reports
// whether the tenure stays. Only the first waiter is looked at, however long the line is.
func (l *Lock) vacated(now Now) bool {
	t, w := l.owner, l.line.first()
	switch {
	case w != nil && (t.mode == w.Mode || t.mode == Alone) && l.mayPass(now):
		t.share.handed = true
		l.served(w, now)
		l.begin(t, w, ByHandoff, now)
	case w == nil && l.mayLinger(now):
		t.stays(now)
		l.changed(now)
	default:
		return false
	}
	return true
}

// mayPass reports whether the tenure may go on with the next waiter here: it is worth that, there is a fencing token, no
// former hold has sent a guarded write, and other clients have not waited long enough.
func (l *Lock) mayPass(now Now) bool {
	t, c := l.owner, l.client
	switch {
	case l.Kind.Strict, c.closed, !t.worth(now), t.tokens.spent(), !t.isOpen():
		return false
	case !t.share.contested:
		return true
	}
	l.subscribe(now) // the next ticket can join with the release then
	if int(t.share.passes) >= c.HandoffLimit || now.Time.Since(t.share.since) >= c.HandoffTime {
		return false
	}
	t.share.passes++
	return true
}

// asksOthers reports whether a mirror is to ask whether others wait: if that decides how long this client goes on. It may
// be built at a moment when no caller waits here, between two hand-offs.
func (l *Lock) asksOthers(t *Tenure) bool {
	return t.linger > 0 && t.ID.Lingers || l.line.Len() > 0 || t.share.handed || l.isRead()
}

// A tenure lingers when its last level was closed and no caller waits: the client keeps the key, and the next call here
// begins in it without a command. A client that is refused elsewhere calls this one, and the tenure leaves at once.

// lingers reports whether the owner has no level, and lingers.
func (l *Lock) lingers() bool { return l.owner != nil && !l.isHeld() }

// lingersUntil returns until when a tenure that lingers stays.
func (t *Tenure) lingersUntil() Time { return t.since.After(t.linger) }

// mayLinger reports whether the tenure may stay though no owner holds the lock.
func (l *Lock) mayLinger(now Now) bool {
	t, c := l.owner, l.client
	return t.linger > 0 && t.trust.most <= c.Lease && t.ID.Lingers && !t.called && !t.share.contested && !c.closed && t.worth(now) && t.isOpen()
}

// mayReuse reports whether a hold may begin in the owner, which has to linger.
func (l *Lock) mayReuse(w *Call, now Now) bool {
	t := l.owner
	return l.lingers() && t.worth(now) && !t.tokens.spent() && now.Time < t.lingersUntil() && (t.mode == w.Mode || t.mode == Alone)
}

// called deals with the call of another client, which waits for the tenure.
func (l *Lock) called(t *Tenure, now Now) {
	if !t.ID.Lingers {
		return // a stranger says so
	}
	t.called = true
	t.share.heardOf(1, now)
	if t == l.owner && l.lingers() {
		l.give(t, now)
	}
}

// Lingers reports whether the owner lingers: no level holds the lock here, and Redis shows it.
func (l *Lock) Lingers() bool { return l.lingers() }

// MayLinger reports whether the tenure may linger at its end, and NoLinger keeps it from that.
func (l *Lock) MayLinger() bool { return l.owner != nil && l.owner.linger > 0 && l.owner.ID.Lingers }

func (l *Lock) NoLinger() { l.owner.linger = 0 }

// EndLinger releases a lingering tenure.
func (l *Lock) EndLinger(now Now) {
	if l.lingers() {
		l.give(l.owner, now)
		l.settle(now)
	}
}
