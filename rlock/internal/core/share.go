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

// handsOff gives the lock to the next waiter here after its last level was closed, and reports whether it has. Only the first
// waiter is looked at, however long the line is.
func (l *Lock) handsOff(now Now) bool {
	t, w := l.owner, l.line.first()
	if w == nil || t.mode != w.Mode && t.mode != Alone || !l.mayPass(now) {
		return false
	}
	t.share.handed = true
	l.served(w, now)
	l.begin(t, w, ByHandoff, now)
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
	return l.line.Len() > 0 || t.share.handed || l.isRead()
}
