package diag

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// How a client finds waits and holds that last for a long time, and deadlocks. While calls wait, and with LongHold while
// locks are held, it looks at them once a second, and when one that it has seen will have lasted for long enough. So no
// wait and no hold has a timer for that.

const (
	// lookTime is how long after a look the next one is at most, and leastPause at least.
	lookTime, leastPause = time.Second, 50 * time.Millisecond
	// deadlockTime is how long a call waits until deadlocks are searched for.
	deadlockTime = time.Second
)

// MayLast notes that a call waits, or that a hold has begun. It waits for nothing, and may be called with a mutex held.
func (d *Diag) MayLast() { d.watching.Ask() }

// A watch looks at waits and holds, for as long as there are any. It is used by one goroutine at a time.
type watch struct {
	*Diag
	searched  memory          // waits for which deadlocks were searched for
	waits     memory          // that were logged
	holds     memory          // that were logged
	deadlocks map[string]bool // that the last search has found

	now   time.Time // of this look
	next  time.Time // when the next one is to be
	again bool      // there are waits or holds
	long  bool      // a wait is a reason to search for deadlocks
}

// A lasting is a wait or a hold.
type lasting struct {
	name  string
	kind  terms.Kind
	owner terms.Owner
	since time.Time
}

// A memory has the waits or holds about which something was done. Those that have ended are forgotten at the next look.
type memory struct{ before, now map[lasting]bool }

func (m *memory) begin() { m.before, m.now = m.now, make(map[lasting]bool) }

// had reports whether it was done about this one, which is remembered.
func (m *memory) had(one lasting) bool {
	had := m.before[one]
	if had {
		m.now[one] = true
	}
	return had
}

// work looks once. It is the work of a task.
func (w *watch) work() (pause time.Duration, again bool) {
	w.now = time.Now()
	w.next, w.again, w.long = w.now.Add(lookTime), false, false
	for _, m := range []*memory{&w.searched, &w.waits, &w.holds} {
		m.begin()
	}
	look := terms.Look{Waits: true, Holds: w.LongHold > 0}
	if w.LongWait > 0 {
		look.Locate = w.now.Add(-w.LongWait)
	}
	w.Source.Look(look, w.view)
	if w.long {
		w.deadlocks = w.tellDeadlocks(w.deadlocks)
	}
	return max(leastPause, share*time.Since(w.now), w.next.Sub(w.now)), w.again
}

// view looks at a lock.
func (w *watch) view(v *terms.View) {
	for i := range v.Waits {
		w.again = true
		w.wait(v, &v.Waits[i])
	}
	if w.LongHold <= 0 || !v.ValidUntil.After(w.now) {
		return
	}
	for i := range v.Levels {
		w.again = true
		w.hold(v, &v.Levels[i])
	}
}

// isDue reports whether what began then has lasted for so long, and makes the next look be in time.
func (w *watch) isDue(since time.Time, limit time.Duration) bool {
	at := since.Add(limit)
	if at.After(w.now) && at.Before(w.next) {
		w.next = at
	}
	return !at.After(w.now)
}

// wait looks at a call that waits.
func (w *watch) wait(v *terms.View, one *terms.Wait) {
	key := lasting{v.Name, v.KindOf(one.Reads), one.Owner, one.Since}
	if v.Tenure != "" && !one.Logged && w.now.Sub(one.Since) >= deadlockTime && !w.searched.had(key) {
		w.searched.now[key] = true
		w.long = true
	}
	switch {
	case w.LongWait <= 0 || one.Whole != nil || one.Stands: // a whole tells of its own waits
	case !w.isDue(one.Since, w.LongWait) || w.waits.had(key):
	case one.Site == nil: // its goroutine finds it out
		w.next = w.now
	default:
		w.waits.now[key] = true
		w.tellLongWait(v, one)
	}
}

// tellLongWait logs a wait that has lasted too long, with the holder as far as it is known.
func (w *watch) tellLongWait(v *terms.View, one *terms.Wait) {
	holder, where := one.Holder, ""
	if v.Tenure != "" {
		holder, where = v.Tenure+v.Holder.Owner.String(), terms.Known(v.Holder.Site).String()
		if whole := v.Holder.Whole; whole != nil {
			where = terms.Known(whole.Site).String()
		}
	}
	about := []any{"lock", v.Name, "kind", v.KindOf(one.Reads),
		"owner", one.Owner, "waited", w.now.Sub(one.Since).Round(time.Millisecond), "site", terms.Known(one.Site).String(),
		"holder", holder, "holder_site", where}
	if one.Endless && v.Tenure == "" {
		about = append(about, "expires", "never: the key of the lock has no TTL, and ends only by an unlock")
	}
	w.Logger.Warn("rlock: a call waits for a lock for a long time", about...)
}

// hold looks at a level. A hold is reported by its first one.
func (w *watch) hold(v *terms.View, one *terms.Level) {
	key := lasting{v.Name, v.KindOf(one.Reads), one.Owner, one.Since}
	if !one.First || !w.isDue(one.Since, w.LongHold) || w.holds.had(key) {
		return
	}
	w.holds.now[key] = true
	name, kind, site := v.Name, key.kind, one.Site
	if whole := one.Whole; whole != nil {
		if !whole.TellsLong() { // the first of its parts tells, in its name
			return
		}
		name, kind, site = whole.Name, whole.Kind, whole.Site
	}
	w.Logger.Warn("rlock: a lock is held for a long time", "lock", name, "kind", kind,
		"owner", one.Owner, "held", w.now.Sub(one.Since).Round(time.Millisecond), "site", terms.Known(site).String())
}
