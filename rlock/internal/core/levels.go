package core

import "slices"

// A Level is one Lock that was not unlocked yet.
type Level struct {
	Owner  OwnerID
	Mode   Mode
	Part   bool     // the level belongs to a part of a multi or red lock, which is reported in place of its parts
	Guest  bool     // a guest of the owner took the level: it does not make the owner a holder
	First  bool     // the owner held nothing before: one level of each owner is the first
	wrote  bool     // the level has sent a guarded write in the present tenure
	Capped bool     // the level is renewed until Until, which is the longest hold and not the end of a lease
	Way    Way      // the way in which it was acquired
	Until  SafeTime // the time at which the level ends by itself; NeverSafe if only Unlock ends it
	Since  Time     // the time at which it was acquired
	Token  uint64   // the fencing token of the hold
	Handle any      // the handle; nil for a level that its owner unlocks, Guests for a level that a guest unlocks
	Info   any      // the driver's data
	Note   *Note    // the note of the owner's hold, at its first level; nil for none
}

// levels are the truth about the lock's owners in this client. They belong to the lock and not to a
// tenure: a ticket that is granted the lock while readers hold it replaces their tenure. Each event
// reads the summary several times.
type levels struct {
	all []Level
	summary
}

// A summary is computed from the levels by sum when they change.
type summary struct {
	writes  int32    // the number of levels that are not shared
	asked   SafeTime // the end of the last lease; NeverSafe if a level is renewed, or there is none
	longest SafeTime // the latest end of a fixed lease; 0 if there is none
	ends    SafeTime // a time no later than the first end of a level that may end before the others; NeverSafe if none may
}

// sum returns the summary of the levels.
func sum(all []Level) summary {
	if len(all) == 0 {
		return summary{asked: NeverSafe, ends: NeverSafe}
	}
	s := summary{ends: NeverSafe}
	for i := range all {
		v := &all[i]
		if v.Mode == Alone {
			s.writes++
		}
		if v.mayEnd() {
			s.ends = min(s.ends, v.Until)
		}
		s.asked = max(s.asked, v.leaseEnd())
		if v.leaseEnd() != NeverSafe {
			s.longest = max(s.longest, v.Until)
		}
	}
	return s
}

// leaseEnd returns the end of the lease that the level asks Redis for. A capped level asks for no
// end, and ends by the clock.
func (v *Level) leaseEnd() SafeTime {
	if v.Capped {
		return NeverSafe
	}
	return v.Until
}

// mayEnd reports whether the level may end before the tenure does.
func (v *Level) mayEnd() bool { return v.Capped || v.Mode == Shared && v.Until != NeverSafe }

// A shape is what Redis shows of the levels.
type shape struct {
	owner  OwnerID
	writes int32    // the number of levels that are not shared
	reads  bool     // some levels are shared
	until  SafeTime // the end of the lease; NeverSafe if it is renewed
}

// oneLevel returns the shape of one level.
func oneLevel(o OwnerID, m Mode) shape {
	if m == Shared {
		return shape{owner: o, reads: true}
	}
	return shape{owner: o, writes: 1}
}

// isRead reports whether only readers hold the lock here.
func (l *Lock) isRead() bool { return l.IsHeld() && l.levels.writes == 0 }

// exceeds reports whether a call of the owner asks for more of the lock than the tenure has: to
// write while it reads, or for more permits. Two owners that waited for more of what they hold
// would wait for each other.
func (l *Lock) exceeds(w *Call) bool { return w.Mode == Alone && l.isRead() || w.More > l.held.more }

// Guests is the handle of levels that a guest of their owner took without a handle.
var Guests any = new(guests)

type guests struct{ _ byte } // not empty, so that it has an address of its own

// Hosts reports whether a call of the owner nests: if the owner has a level of its own, or, for a
// guest's call, any level.
func (l *Lock) Hosts(o OwnerID, guest bool) bool {
	for i := range l.levels.all {
		if v := &l.levels.all[i]; v.Owner == o && (guest || !v.Guest) {
			return true
		}
	}
	return false
}

// levelOf returns the index of the handle's level, or, without a handle, of the owner's innermost
// level of the mode; -1 if there is none.
func (l *Lock) levelOf(o OwnerID, m Mode, handle any) int {
	for i := len(l.levels.all) - 1; i >= 0; i-- {
		if v := &l.levels.all[i]; v.Handle == handle && (handle != nil && handle != Guests || v.Owner == o && v.Mode == m) {
			return i
		}
	}
	return -1
}

// openLevel adds a level for the call, which has the lock then.
func (l *Lock) openLevel(w *Call, way Way, now Now) {
	w.Outcome, w.Way, w.Token = Acquired, way, l.held.tokens.current
	until := NeverSafe
	if w.Lease > 0 {
		until = now.Safe.After(w.Lease)
	}
	l.levels.all = append(l.levels.all, Level{
		Owner: w.Owner, Mode: w.Mode, Until: until, Since: now.Time, Token: w.Token, Part: w.Part, Guest: w.Guest, Capped: w.Capped,
		First: way != ByNesting, Way: way, Handle: w.Handle, Info: w.Info,
	})
	l.levels.summary = sum(l.levels.all)
	if w.Note != nil || l.held.note != nil {
		l.openNote(w, way, now.Time)
	}
}

// openNote gives the last level its note, unless the level is nested: the note of a hold never
// changes. A permit keeps the note of its ticket, since Redis knows it by the whole text. For any
// other lock, if the call has waited, the hold has a note with its own beginning, which the next
// Mirror shows. This Mirror is due at once if Redis may show another hold of the same owner.
func (l *Lock) openNote(w *Call, way Way, now Time) {
	v, t := &l.levels.all[len(l.levels.all)-1], l.held
	if way == ByNesting {
		return
	}
	if v.Note = w.Note; w.Note != nil && way != ByRedis && l.Kind.Permits == 0 {
		v.Note = &Note{Text: w.Note.Text, Line: w.Note.Line, Since: now}
	}
	if (way == ByHandoff || way == ByJoining) && v.Owner == t.named {
		t.old = true
	}
}

// FirstLevel returns the first level of an owner that has one.
func (l *Lock) FirstLevel(o OwnerID) *Level {
	i := slices.IndexFunc(l.levels.all, func(v Level) bool { return v.Owner == o && v.First })
	return &l.levels.all[i]
}

// closeLevel removes a level. If it was the first of its owner, another level of the owner becomes
// the first, since a hold lasts until the last level is closed. If its opening was reported,
// another level takes its Way and Since, so that each Acquired event gets its Released or Lost.
// The new first level gets the note; without a new first level, a Mirror is due that shows no note
// of an ended hold.
func (l *Lock) closeLevel(i int) (was Level) {
	was = l.levels.all[i]
	l.held.wrote = l.held.wrote || was.wrote
	for j := range l.levels.all {
		v := &l.levels.all[j]
		if j == i || v.Owner != was.Owner {
			continue
		}
		if was.First && !v.First {
			v.First, v.Note, was.First, was.Note = true, was.Note, false, nil
		}
		if was.Way != ByNesting && v.Way == ByNesting && !was.Part && !v.Part {
			v.Way, v.Since, was.Way = was.Way, was.Since, ByNesting
		}
	}
	last := len(l.levels.all) - 1
	copy(l.levels.all[i:], l.levels.all[i+1:])
	l.levels.all[last].Handle, l.levels.all[last].Info, l.levels.all[last].Note = nil, nil, nil
	l.levels.all = l.levels.all[:last]
	l.levels.summary = sum(l.levels.all)
	l.held.old = l.held.old || was.Note != nil
	return was
}

// removeExpired removes the levels of owners whose time is over, and returns them: those whose
// owner reached its longest hold, and those whose lease has ended while other owners go on.
func (l *Lock) removeExpired(now Now) (tooLong, ended []Level) {
	all, ends, over := l.levels.all, NeverSafe, []OwnerID(nil)
	for i := range all {
		switch v := &all[i]; {
		case now.Safe < v.Until:
			if v.mayEnd() {
				ends = min(ends, v.Until)
			}
		case now.Safe >= l.askedBy(v.Owner):
			over = append(over, v.Owner)
		}
	}
	for i := range all {
		v := &all[i]
		if !slices.Contains(over, v.Owner) {
			continue
		}
		l.held.wrote, l.held.old = l.held.wrote || v.wrote, l.held.old || v.Note != nil
		if now.Safe >= l.cappedAt(v.Owner) {
			tooLong = append(tooLong, *v)
		} else {
			ended = append(ended, *v)
		}
	}
	l.levels.all = slices.DeleteFunc(all, func(v Level) bool { return slices.Contains(over, v.Owner) })
	l.levels.summary = sum(l.levels.all)
	if l.IsHeld() {
		l.levels.ends = ends // the first end among the levels that are left; sum also counts expired levels of owners that hold another
	}
	return tooLong, ended
}

// setEnd sets the level's lease, or its longest hold if capped, counted from now; 0 for a level
// that is renewed.
func (l *Lock) setEnd(i int, lease Span, capped bool, now Now) {
	v := &l.levels.all[i]
	v.Until, v.Capped = NeverSafe, capped
	if lease > 0 {
		v.Until = now.Safe.After(lease)
	}
	l.levels.summary = sum(l.levels.all)
}

// askedBy returns the time at which the owner's hold ends by its own choice: the end of its last
// lease, or of its longest hold.
func (l *Lock) askedBy(o OwnerID) (until SafeTime) {
	for i := range l.levels.all {
		if v := &l.levels.all[i]; v.Owner == o {
			until = max(until, v.leaseEnd())
		}
	}
	return min(until, l.cappedAt(o))
}

// cappedAt returns the end of the owner's longest hold, by the level that ends first.
func (l *Lock) cappedAt(o OwnerID) SafeTime {
	at := NeverSafe
	for i := range l.levels.all {
		if v := &l.levels.all[i]; v.Owner == o && v.Capped {
			at = min(at, v.Until)
		}
	}
	return at
}

// askedUntil returns the end of the lease that Redis is asked for: the end of the last level, or of
// a least hold; NeverSafe if the lease is renewed.
func (l *Lock) askedUntil(now Now) SafeTime {
	return max(l.levels.asked, now.Safe.After(l.stays.Since(now.Time)))
}

// TrustedUntil returns until when the last of the holders may be believed.
//
// REQUIRES: l.held != nil.
func (l *Lock) TrustedUntil() SafeTime { return min(l.held.trust.until, l.levels.asked) }

// FirstEnd returns when the first holder loses the lock unless a renewal is confirmed before. The
// end of the trust ends all holds, the end of a lease only one reader's.
//
// REQUIRES: l.held != nil.
func (l *Lock) FirstEnd() SafeTime {
	return min(l.held.trust.until, l.levels.asked, l.levels.ends, l.yieldsAt())
}

// shape returns what Redis is to show.
func (l *Lock) shape(now Now) shape {
	t := l.held
	s := shape{owner: t.named, writes: l.levels.writes, reads: int(l.levels.writes) < len(l.levels.all), until: l.askedUntil(now)}
	if until := l.levels.longest; s.until == NeverSafe && until.Since(now.Safe) > l.client.Lease {
		s.until = until
	}
	return s
}

// isMirrored reports whether the last Mirror showed the present levels. A fixed lease that was sent
// when it was longer than the lease of a renewal needs no second Mirror when less of it is left.
func (l *Lock) isMirrored(t *Tenure, now Now) bool {
	s := l.shape(now)
	if s.until == NeverSafe && t.shown.until == l.levels.longest && t.shown.until.Since(t.trust.seen.Safe) > l.client.Lease {
		s.until = t.shown.until
	}
	return !t.old && t.shown == s
}

// noteShowing notes that a command is about to show the levels in Redis. If the owner named there
// has no level any more, the command names another one.
func (l *Lock) noteShowing(t *Tenure, now Now) {
	if !l.Hosts(t.named, true) {
		t.named = l.levels.all[0].Owner
	}
	t.shown, t.old = l.shape(now), false
}

// doubtMirror makes another Mirror due, since the last one may not have run. If a lease longer than
// a renewal's was asked for, Redis may show it, and the next Mirror is exact.
func (t *Tenure) doubtMirror() {
	if t.old, t.shown.until = true, NeverSafe; t.trust.most > t.lock.client.Lease {
		t.shown.until = NeverSafe - 1
	}
}

// shortens reports whether the next Mirror is to shorten the lease, since Redis shows one that ends
// later than the levels ask for: others would wait for its rest if this client died. Any other
// Mirror only lengthens the lease, so that a repeated command takes nothing away. A lease that is
// about to end is not shortened: no later lease of the tenure would be trusted for longer than its
// rest.
func (l *Lock) shortens(t *Tenure, lease Span, now Now) bool {
	c, until := l.client, t.shown.until
	if until == NeverSafe {
		until = t.trust.seen.Safe.After(c.Lease)
	}
	return now.Safe.After(lease) < until && (lease >= c.Claim/4 || until > now.Safe.After(c.Lease))
}

// mayBeginHold reports whether another hold may begin in the tenure: not if a guarded write of a
// former hold may still run in it.
func (t *Tenure) mayBeginHold() bool { return !t.wrote }
