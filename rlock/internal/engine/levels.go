package engine

import (
	"math"
	"slices"
	"time"
)

// A Level is one Lock that was not unlocked yet.
type Level struct {
	Owner  Owner
	Shared bool          // it is a reader's, and other readers may have theirs beside it
	long   bool          // it was told that it is held for a long time
	way    Way           // how it was acquired: of each owner's levels one is not by nesting
	Until  time.Time     // the end of the lease it asked for; zero: kept by the watchdog
	hold   *hold         // its handle, nil if it was taken without
	since  time.Duration // when it was acquired, from the client's start
	place  *Place        // where it was acquired, nil if that is not recorded
	caller uint64        // the goroutine that acquired it, 0 if that is not known
}

// Kept reports whether the watchdog keeps the level.
func (l *Level) Kept() bool { return l.Until.IsZero() }

// told reports whether a loss is remembered by the owner's name. A handle that is its own
// owner remembers for itself, and of a part the whole tells.
func (l *Level) told() bool {
	return l.hold == nil || !l.Owner.OfHandle() && !l.hold.isPart()
}

func (t *tenure) open(now time.Time, req Request) {
	l := Level{Owner: req.Owner, Shared: req.Shared, way: req.Way, hold: req.hold, since: now.Sub(t.room.client.start), place: req.place, caller: req.caller()}
	t.let(&l, now, req.Lease)
	if req.hold != nil {
		req.hold.tenure, req.hold.token = t, t.tokens.section()
		t.room.escaped = true
	}
	t.levels = append(t.levels, l)
	t.room.shard.counts.opened(l.way)
}

// let has the level ask for the lease from now on, 0 for the watchdog.
func (t *tenure) let(l *Level, now time.Time, lease time.Duration) {
	l.Until = time.Time{}
	if lease > 0 {
		l.Until = now.Add(lease)
		t.endsWith(l)
	}
}

// endsWith has the end of the level looked at, if it is a shared one that has an end.
func (t *tenure) endsWith(l *Level) {
	if l.Shared && !l.Kept() {
		t.ends = earlier(t.ends, l.Until)
	}
}

// close takes away the level of the handle h, or without one the innermost level
// of o that was taken without, and reports whether there was such a level. When
// the last level that is not shared goes and others stay, the tenure is shared. A nil tenure
// has no levels.
func (t *tenure) close(o Owner, shared bool, h *hold) (was Level, ok bool) {
	if t == nil {
		return was, false
	}
	for i := len(t.levels) - 1; i >= 0; i-- {
		l := &t.levels[i]
		if l.hold == h && (h != nil || l.Owner == o && l.Shared == shared) {
			if was = *l; was.way != ByNesting && len(t.levels) > 1 {
				was.way = t.bequeath(i)
			}
			t.levels = append(t.levels[:i], t.levels[i+1:]...)
			if n := len(t.levels); n > 0 && t.levels[n-1].Shared {
				t.shared = t.writes() == 0
			}
			for i := range t.levels { // what it outlasted may be over
				t.endsWith(&t.levels[i])
			}
			return was, true
		}
	}
	return was, false
}

// bequeath has the owner's next level be the first, since level i, which was, is about to
// go: so a hold lasts from the first level of its owner to the last. It returns how level
// i was acquired now that all is told.
func (t *tenure) bequeath(i int) Way {
	gone := &t.levels[i]
	for j := range t.levels {
		if l := &t.levels[j]; j != i && l.Owner == gone.Owner {
			l.way, l.since, l.long = gone.way, gone.since, gone.long
			return ByNesting
		}
	}
	return gone.way
}

// holds reports whether o has a level.
func (t *tenure) holds(o Owner) bool {
	if t.phase == lingering {
		return false
	}
	if !t.shared {
		return t.owner == o
	}
	for i := range t.levels {
		if t.levels[i].Owner == o {
			return true
		}
	}
	return false
}

// loose reports whether the level is a part of a whole that is not held: of an
// attempt that goes on, or was given up and is about to be released.
func (l *Level) loose() bool { return l.hold != nil && !l.hold.IsHeld() }

// depth returns how many levels of the one sort o has, and knows of.
func (t *tenure) depth(o Owner, shared bool) (n int) {
	for i := range t.levels {
		if l := &t.levels[i]; l.Owner == o && l.Shared == shared && !l.loose() {
			n++
		}
	}
	return n
}

// writes returns how many levels are not shared.
func (t *tenure) writes() (n int) {
	for i := range t.levels {
		if !t.levels[i].Shared {
			n++
		}
	}
	return n
}

// never is later than any time that there is. To compare with it by == costs each Lock and
// Unlock less than Before.
var never = time.Unix(math.MaxInt64/2, 0)

// timeLeft returns how long it is from now to that time, Forever if it never comes.
func timeLeft(until, now time.Time) time.Duration {
	if until == never {
		return Forever
	}
	return until.Sub(now)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// asked returns until when the open levels ask to keep the lock: for the longest
// of them, which is never over if the watchdog keeps one, or if the tenure lingers.
func (t *tenure) asked() time.Time { return t.askedBy(nobody) }

// bounded reports whether the open levels ask for no more than a time that they have named.
func (t *tenure) bounded() bool { return t.asked() != never }

// askedBy is asked for the levels of one owner, all if o is nobody.
func (t *tenure) askedBy(o Owner) (until time.Time) {
	if t.phase == lingering {
		return never
	}
	for i := range t.levels {
		switch l := &t.levels[i]; {
		case o != nobody && l.Owner != o:
		case l.Kept():
			return never
		case l.Until.After(until):
			until = l.Until
		}
	}
	return until
}

// longest is asked over those levels only that have an end.
func (t *tenure) longest() (until time.Time) {
	for i := range t.levels {
		if l := &t.levels[i]; l.Until.After(until) {
			until = l.Until
		}
	}
	return until
}

// wanted returns the lease that Redis should be told of now.
func (t *tenure) wanted(now time.Time) time.Duration {
	lease := t.longest().Sub(now)
	if t.bounded() {
		return lease
	}
	return max(lease, t.room.client.Config.Lease)
}

// A shape is what Redis shows of the levels.
type shape struct {
	owner  Owner // the tenure's
	writes int32 // how many levels are not shared
	reads  bool  // whether any is
}

// is reports whether both are the same but for the owner.
func (s shape) is(other shape) bool { return s.writes == other.writes && s.reads == other.reads }

func oneLevel(o Owner, shared bool) shape {
	if shared {
		return shape{owner: o, reads: true}
	}
	return shape{owner: o, writes: 1}
}

func (t *tenure) shape() shape {
	if t.phase == lingering {
		return oneLevel(t.owner, t.shared)
	}
	writes := t.writes()
	return shape{t.owner, int32(writes), writes < len(t.levels)}
}

// shows reports whether Redis was told last of what is true now.
func (t *tenure) shows(now time.Time) bool {
	if t.shape() != t.shown {
		return false
	}
	longest := t.longest()
	if !t.bounded() && longest.Sub(now) <= t.room.client.Config.Lease {
		return t.lease == t.room.client.Config.Lease // and each renewal will be
	}
	return longest.Equal(t.trust.SentAt().Add(t.lease))
}

// expire ends the holds of owners that ask for no more, while the tenure goes
// on for others.
func (t *tenure) expire(now time.Time) {
	var lost []Level
	t.ends = never
	for i := range t.levels {
		switch l := &t.levels[i]; {
		case l.Kept():
		case now.Before(l.Until):
			t.endsWith(l)
		case !now.Before(t.askedBy(l.Owner)):
			lost = append(lost, *l)
		}
	}
	if len(lost) == 0 {
		return
	}
	t.levels = slices.DeleteFunc(t.levels, func(l Level) bool {
		return slices.ContainsFunc(lost, func(o Level) bool { return l.Owner == o.Owner })
	})
	s := t.room.shard
	s.lost = append(s.lost, t.lostLevels(lost, errEnded(lost[0].Until)))
	t.room.escaped = true
	t.changed(now)
}
