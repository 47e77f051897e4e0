package core

import "slices"

// A Level is one Lock that was not unlocked yet.
type Level struct {
	Owner  OwnerID
	Mode   Mode     // Shared: other readers may hold it too
	Part   bool     // it is held for a lock over several, and that is told in its place
	Guest  bool     // it is a guest's of the owner, and makes the owner no holder
	First  bool     // the owner held nothing before: one of each owner's levels is the first
	wrote  bool     // it has sent a guarded write in its tenure
	Capped bool     // Until is the end of a level that is renewed until then, and not of a lease that Redis is asked for
	Way    Way      // how it was acquired
	Until  SafeTime // when it ends by itself; NeverSafe: not before its Unlock
	Since  Time     // when it was acquired
	Token  uint64   // the fencing token of the hold
	Handle any      // nil for a Lock that is unlocked by its owner, Guests for one that a guest unlocks
	Info   any      // the driver's
}

// levels are the truth about the lock's owners here. They change in this file only, and belong to
// the lock: a hand-off, or a ticket that is granted while readers go on, exchanges the tenure below
// them. The summary beside them is what each event asks for, several times.
type levels struct {
	all []Level
	summary
}

// A summary follows from the levels, and is made again by sum when they change.
type summary struct {
	writes  int32    // how many are not shared
	asked   SafeTime // until when they ask for the lock; NeverSafe: one is renewed, or there is none
	longest SafeTime // the latest end of a lease that one asks for, 0 for none
	ends    SafeTime // no later than an owner ends beside others, or by a cap; NeverSafe if no level is capped and no shared one has a lease
}

// noLevels returns none, in the memory of others.
func noLevels(all []Level) levels { return levels{all[:0], sum(nil)} }

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
		s.asked = max(s.asked, v.asks())
		if v.asks() != NeverSafe {
			s.longest = max(s.longest, v.Until)
		}
	}
	return s
}

// asks returns until when the level asks for the lock: one that is capped does without end, and ends all the same.
func (v *Level) asks() SafeTime {
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
	writes int32
	reads  bool
	until  SafeTime // NeverSafe: it is renewed
}

func oneLevel(o OwnerID, m Mode) shape {
	if m == Shared {
		return shape{owner: o, reads: true}
	}
	return shape{owner: o, writes: 1}
}

// isRead reports whether only readers hold the lock here.
func (l *Lock) isRead() bool { return l.IsHeld() && l.levels.writes == 0 }

// exceeds reports whether the call of an owner that has the lock asks for more of it than the tenure has: to write where
// that reads, or for more permits. Two owners that wait for more of what they hold would wait for each other.
func (l *Lock) exceeds(w *Call) bool { return w.Mode == Alone && l.isRead() || w.More > l.owner.more }

// Guests is the handle of the levels that a guest of their owner has taken without a handle.
var Guests any = new(guests)

type guests struct{ _ byte } // not empty, so that it has an address of its own

// Hosts reports whether a call of the owner nests: it has a level itself, or the call is a guest's, and it has any level.
func (l *Lock) Hosts(o OwnerID, guest bool) bool {
	for i := range l.levels.all {
		if v := &l.levels.all[i]; v.Owner == o && (guest || !v.Guest) {
			return true
		}
	}
	return false
}

// levelOf returns where the level of the handle is, or without one the owner's innermost level of the mode; -1 for none.
func (l *Lock) levelOf(o OwnerID, m Mode, handle any) int {
	for i := len(l.levels.all) - 1; i >= 0; i-- {
		if v := &l.levels.all[i]; v.Handle == handle && (handle != nil && handle != Guests || v.Owner == o && v.Mode == m) {
			return i
		}
	}
	return -1
}

// open adds a level for the waiter, which has the lock then.
func (l *Lock) open(w *Call, way Way, now Now) {
	w.Outcome, w.Way, w.Token = Acquired, way, l.owner.tokens.current
	until := NeverSafe
	if w.Lease > 0 {
		until = now.Safe.After(w.Lease)
	}
	l.levels.all = append(l.levels.all, Level{
		Owner: w.Owner, Mode: w.Mode, Until: until, Since: now.Time, Token: w.Token, Part: w.Part, Guest: w.Guest, Capped: w.Capped,
		First: way != ByNesting, Way: way, Handle: w.Handle, Info: w.Info,
	})
	l.levels.summary = sum(l.levels.all)
}

// close takes away a level. The owner's next one is the first of its hold then: a hold lasts from the first level of its owner
// to the last. Way and Since move to another reported level of the owner, so that every Acquired event gets its Released or
// Lost.
func (l *Lock) close(i int) (was Level) {
	was = l.levels.all[i]
	if was.wrote {
		l.owner.leavesBehind()
	}
	for j := range l.levels.all {
		v := &l.levels.all[j]
		if j == i || v.Owner != was.Owner {
			continue
		}
		if was.First && !v.First {
			v.First, was.First = true, false
		}
		if was.Way != ByNesting && v.Way == ByNesting && !was.Part && !v.Part {
			v.Way, v.Since, was.Way = was.Way, was.Since, ByNesting
		}
	}
	last := len(l.levels.all) - 1
	copy(l.levels.all[i:], l.levels.all[i+1:])
	l.levels.all[last].Handle, l.levels.all[last].Info = nil, nil
	l.levels.all = l.levels.all[:last]
	l.levels.summary = sum(l.levels.all)
	return was
}

// closeAll takes away all levels.
func (l *Lock) closeAll() { l.levels = noLevels(l.levels.all) }

// expire takes away the levels of owners whose time is over, and returns them: of those that have held the lock for as long as
// they may, and of those that ask for it no more while others go on.
func (l *Lock) expire(now Now) (tooLong, ended []Level) {
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
		if v.wrote {
			l.owner.leavesBehind()
		}
		if now.Safe >= l.cappedAt(v.Owner) {
			tooLong = append(tooLong, *v)
		} else {
			ended = append(ended, *v)
		}
	}
	l.levels.all = slices.DeleteFunc(all, func(v Level) bool { return slices.Contains(over, v.Owner) })
	l.levels.summary = sum(l.levels.all)
	if l.IsHeld() {
		l.levels.ends = ends // ignores expired levels of owners that still hold another
	}
	return tooLong, ended
}

// writes notes that a level sends a guarded write.
func (l *Lock) writes(i int) { l.levels.all[i].wrote = true }

// exchanged notes that the tenure below the levels is another one, in which no guarded write was sent.
func (l *Lock) exchanged() {
	for i := range l.levels.all {
		l.levels.all[i].wrote = false
	}
}

// let gives the level a lease from now on, 0 for one that is renewed; or, if it is capped, so long until its end.
func (l *Lock) let(i int, lease Span, capped bool, now Now) {
	v := &l.levels.all[i]
	v.Until, v.Capped = NeverSafe, capped
	if lease > 0 {
		v.Until = now.Safe.After(lease)
	}
	l.levels.summary = sum(l.levels.all)
}

// askedBy returns until when the levels of the owner ask for the lock, and may.
func (l *Lock) askedBy(o OwnerID) (until SafeTime) {
	for i := range l.levels.all {
		if v := &l.levels.all[i]; v.Owner == o {
			until = max(until, v.asks())
		}
	}
	return min(until, l.cappedAt(o))
}

// cappedAt returns when the owner has held the lock for as long as it may, by the level that ends first.
func (l *Lock) cappedAt(o OwnerID) SafeTime {
	at := NeverSafe
	for i := range l.levels.all {
		if v := &l.levels.all[i]; v.Owner == o && v.Capped {
			at = min(at, v.Until)
		}
	}
	return at
}

// TrustedUntil returns until when the last of the holders may be believed. The lock has an Owner, and is held.
func (l *Lock) TrustedUntil() SafeTime { return min(l.owner.trust.until, l.levels.asked) }

// Ends returns when a holder loses the lock unless it is renewed: all do, or a reader whose lease is over. The lock has an Owner.
func (l *Lock) Ends() SafeTime {
	return min(l.owner.trust.until, l.levels.asked, l.levels.ends)
}

// wanted returns the lease that Redis is to be told of now.
func (l *Lock) wanted(now Now) Span {
	if until := l.levels.asked; until != NeverSafe {
		return until.Since(now.Safe)
	}
	return max(l.client.Lease, l.levels.longest.Since(now.Safe))
}

// shape returns what Redis is to show now.
func (l *Lock) shape(now Now) shape {
	t := l.owner
	s := shape{owner: t.named, writes: l.levels.writes, reads: int(l.levels.writes) < len(l.levels.all), until: l.levels.asked}
	if until := l.levels.longest; s.until == NeverSafe && until.Since(now.Safe) > l.client.Lease {
		s.until = until
	}
	return s
}

// isMirrored reports whether the last mirror that was sent has the present levels. A lease that was longer than that
// of a renewal when Redis was told of it stays as it is.
func (l *Lock) isMirrored(t *Tenure, now Now) bool {
	s := l.shape(now)
	if s.until == NeverSafe && t.shown.until == l.levels.longest && t.shown.until.Since(t.trust.seen.Safe) > l.client.Lease {
		s.until = t.shown.until
	}
	return !t.old && t.shown == s
}

// showing notes that a command is about to be sent that shows the levels in Redis, in the name of an owner that has one.
func (l *Lock) showing(t *Tenure, now Now) {
	if !l.Hosts(t.named, true) {
		t.named = l.levels.all[0].Owner
	}
	t.shown, t.old = l.shape(now), false
}

// unshown notes that Redis may show something else than the levels.
func (t *Tenure) unshown() { t.old = true }

// unsure notes that Redis may not have been told of the levels: it may show the lease of a renewal, or a longer one.
func (t *Tenure) unsure() {
	if t.old, t.shown.until = true, NeverSafe; t.trust.most > t.lock.client.Lease {
		t.asksExactly()
	}
}

// asksExactly makes the next mirror an exact one, whatever lease Redis shows.
func (t *Tenure) asksExactly() { t.old, t.shown.until = true, NeverSafe-1 }

// shortens reports whether the next mirror is to shorten the lease, so that others do not wait for the rest of a longer one
// if this client dies: Redis was told of a lease that ends later than those that the levels ask for. All other mirrors only
// lengthen it, so that a command which is repeated takes nothing away. The rest of a lease that is about to end is not worth
// it: no later lease of the tenure would be trusted for longer.
func (l *Lock) shortens(t *Tenure, lease Span, now Now) bool {
	c, until := l.client, t.shown.until
	if until == NeverSafe {
		until = t.trust.seen.Safe.After(c.Lease)
	}
	return now.Safe.After(lease) < until && (lease >= c.Claim/4 || until > now.Safe.After(c.Lease))
}

// leavesBehind notes that a level has closed that has sent a guarded write.
func (t *Tenure) leavesBehind() { t.wrote = true }

// isOpen reports whether no guarded write of a former hold may run in the tenure.
func (t *Tenure) isOpen() bool { return !t.wrote }
