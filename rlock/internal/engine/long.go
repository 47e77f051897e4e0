package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// How a person is told of holds and waits that last too long: each once, by one line in the
// log. Holds are looked at by the keeper, which looks at each of them anyway; waits by the
// waiter, which has a timer anyway. Without a threshold neither looks any sooner.

// wakes is when the keeper must look at a held tenure next: when it is due, or sooner if a
// hold of it has then lasted too long.
func (t *tenure) wakes() time.Time {
	at, c := t.due(), t.room.client
	at = earlier(at, t.trackedFrom())
	if t.phase == lingering {
		at = earlier(at, c.start.Add(t.lingerEnd))
	}
	if c.Config.LongHold <= 0 {
		return at
	}
	for i := range t.levels {
		if l := &t.levels[i]; l.way != ByNesting && !l.long {
			at = earlier(at, c.start.Add(l.since+c.Config.LongHold))
		}
	}
	return at
}

// watch has the keeper look in time at the hold that was just begun in a tenure that had a
// holder before, or lingered.
func (t *tenure) watch() {
	c := t.room.client
	if c.Config.LongHold <= 0 && t.trackedFrom() == never {
		return
	}
	if at := t.wakes(); t.alarm == 0 || at.Sub(c.start) < t.alarm {
		t.schedule(at)
	}
}

// tellLongHolds logs the holds that have lasted too long. Of a lock over several only the
// first part tells, in its name. The mutex is held.
func (t *tenure) tellLongHolds(now time.Time) {
	r, c := t.room, t.room.client
	if c.Config.LongHold <= 0 {
		return
	}
	for i := range t.levels {
		l := &t.levels[i]
		held := now.Sub(c.start) - l.since
		if l.way == ByNesting || l.long || held < c.Config.LongHold {
			continue
		}
		l.long = true
		lock, kind, place := r.name.Key, r.name.kindOf(l.shared), l.place
		if p := l.wholeOf(); p != nil {
			if !p.TellsLong() {
				continue
			}
			lock, kind, place = p.Title(), p.Kind(), p.Place()
		}
		c.Config.Logger.Warn("rlock: a lock is held for a long time", "lock", lock, "kind", kind,
			"owner", l.Owner, "held", held.Round(time.Millisecond), "place", place.Known().String())
	}
}

// patience is how long the wait may go on until it is told as a long one, which it is now if
// it has lasted for so long. A whole tells of its own long waits.
func (r *room) patience(w *waiter, now time.Time) time.Duration {
	limit := r.client.Config.LongWait
	if limit <= 0 || w.long || w.Whole != nil {
		return Forever
	}
	left := limit - now.Sub(w.began)
	if left <= 0 {
		r.tellLongWait(w, now)
		return Forever
	}
	return left
}

// tellLongWait logs a wait that has lasted too long, with the holder as far as it is known.
// The mutex is held.
func (r *room) tellLongWait(w *waiter, now time.Time) {
	w.long = true
	holder, where := w.holder, ""
	if t := r.tenure; t != nil && len(t.levels) > 0 {
		first := &t.levels[0]
		holder, where = t.text[:wire.TenureLen]+first.Owner.String(), first.place.Known().String()
		if p := first.wholeOf(); p != nil {
			where = p.Place().Known().String()
		}
	}
	r.client.Config.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", r.name.Key, "kind", r.name.kindOf(w.shared),
		"owner", w.Owner, "waited", now.Sub(w.began).Round(time.Millisecond), "place", w.place.Known().String(),
		"holder", holder, "holder_place", where)
}
