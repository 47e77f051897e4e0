package core

// A DetachResult is the outcome of Detach.
type DetachResult uint8

const (
	Detached    DetachResult = iota // the lock is left to its lease
	NotYet                          // Redis does not show the lease yet: ask again after the next answer to a mirror
	NotAlone                        // there are other levels
	WouldRenew                      // the level is renewed until its Unlock
	NothingHeld                     // there is no such level
)

// Detach leaves the lock to the lease that its only level has asked for: no owner here holds it any more, and Redis
// shows it until the lease ends. Until then Reattach takes it back.
func (l *Lock) Detach(o OwnerID, m Mode, handle any, now Now) (was Level, t *Tenure, result DetachResult) {
	t = l.current(now)
	i := l.levelOf(o, m, handle)
	switch {
	case t == nil || i < 0:
		return was, nil, NothingHeld
	case l.asked() == NeverSafe:
		return was, nil, WouldRenew
	case len(l.levels.all) > 1:
		return was, nil, NotAlone
	case t.underWay() || !l.shows(t, now) || t.trust.claim:
		if !t.underWay() {
			t.unshown()
			l.touch(t)
		}
		return was, nil, NotYet
	}
	was = l.close(i)
	l.owner = nil
	t.parts()
	l.touch(t)
	l.settle(now)
	return was, t, Detached
}

// Reattach gives a detached tenure back to the owner of a level, and reports whether it could.
func (l *Lock) Reattach(t *Tenure, v Level, now Now) bool {
	if t.lock != l || !l.tenures.has(t) || t.want != Parted || l.owner != nil || now.Safe >= min(t.trust.until, v.Until) {
		return false
	}
	l.owner = t
	t.holds()
	l.reopen(v)
	t.unshown()
	l.touch(t)
	return true
}
