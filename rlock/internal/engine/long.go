package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// How holds and waits that last too long are logged, each once. The keeper looks at holds, which
// it renews anyway. A waiter tells of itself: at the end of a sleep that has a timer anyway, or
// when the search for deadlocks wakes it (uses.go), so that a hand-off inside the process sets
// no timer.

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
		lock, kind, place := r.name.Key, r.name.kindOf(l.Shared), l.place
		if p := l.wholeOf(); p != nil {
			if !p.TellsLong() {
				continue
			}
			lock, kind, place = p.Name, p.Kind, p.Place
		}
		c.Config.Logger.Warn("rlock: a lock is held for a long time", "lock", lock, "kind", kind,
			"owner", l.Owner, "held", held.Round(time.Millisecond), "place", place.Known().String())
	}
}

// A lateness is how a wait stands to Config.LongWait.
type lateness uint8

const (
	inTime lateness = iota
	overdue
	logged
)

// patience returns how long w may sleep until its wait is logged as a long one, which it is now if
// it has lasted for so long. While this client holds the lock, no timer is set for that: the search
// for deadlocks wakes w.
func (r *room) patience(w *waiter, now time.Time) time.Duration {
	limit := r.client.Config.LongWait
	if w.late == logged || r.tenure != nil && w.late == inTime || limit <= 0 || w.Whole != nil {
		return Forever // a lock over several logs its own long waits
	}
	left := limit - now.Sub(w.began)
	if left <= 0 {
		r.tellLongWait(w, now)
		return Forever
	}
	return left
}

// hurry wakes w once if its wait is to be logged as a long one. The mutex is held.
func (r *room) hurry(w *waiter, now time.Time) {
	if limit := r.client.Config.LongWait; w.late == inTime && limit > 0 && now.Sub(w.began) >= limit {
		w.late = overdue
		w.Wake()
	}
}

// tellLongWait logs a wait that has lasted too long, with the holder as far as it is known. It is
// called by the goroutine that waits, so that its place can be found. The mutex is held.
func (r *room) tellLongWait(w *waiter, now time.Time) {
	w.late = logged
	place := w.place
	if place == nil {
		place = terms.Here()
	}
	holder, where := w.holder, ""
	if t := r.tenure; t != nil && len(t.levels) > 0 {
		first := &t.levels[0]
		holder, where = t.text[:wire.TenureLen]+first.Owner.String(), first.place.Known().String()
		if p := first.wholeOf(); p != nil {
			where = p.Place.Known().String()
		}
	}
	r.client.Config.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", r.name.Key, "kind", r.name.kindOf(w.Shared),
		"owner", w.Owner, "waited", now.Sub(w.began).Round(time.Millisecond), "place", place.Known().String(),
		"holder", holder, "holder_place", where)
}
