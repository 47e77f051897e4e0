package core

// A PartResult is the outcome of Detach and of Pass.
type PartResult uint8

const (
	HasParted   PartResult = iota // no owner here holds the lock any more, and Redis shows it until its lease ends
	NotYet                        // Redis does not show the lease yet: ask again after the next answer to a mirror
	NotAlone                      // there are other levels
	WouldRenew                    // the level is renewed until its Unlock
	NothingHeld                   // there is no such level
)

// Detach leaves the lock to the lease that its only level has asked for: no owner here holds it any more, and Redis
// shows it until the lease ends.
func (l *Lock) Detach(o OwnerID, m Mode, handle any, now Now) (was Level, t *Tenure, result PartResult) {
	t = l.current(now)
	i := l.levelOf(o, m, handle)
	switch {
	case t == nil || i < 0:
		return was, nil, NothingHeld
	case l.levels.asked == NeverSafe:
		return was, nil, WouldRenew
	case len(l.levels.all) > 1:
		return was, nil, NotAlone
	case t.underWay():
		return was, nil, NotYet
	case !l.shows(t, now) || t.claim || t.trust.seen.Safe.After(t.trust.most) > l.levels.asked: // it may last for longer
		t.asksExactly()
		l.touch(t)
		return was, nil, NotYet
	}
	return l.part(i, 0, now), t, HasParted
}
