package monitor

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
)

// Looks find waits and holds that last for a long time, and goroutines that wait for their own
// lock: one look a second while calls wait, one a minute while locks are held, and one at the time
// at which a wait or a hold that was seen before reaches its limit. So no wait and no hold has a
// timer, and short holds cost nothing. Looks also find handles that the program has dropped.

const (
	// lookTime and leastPause are the longest and the shortest time from a look to the next one.
	lookTime, leastPause = time.Second, 50 * time.Millisecond
	// mostHoldLook is the longest time between two looks at holds: a handle may have been dropped.
	mostHoldLook = time.Minute
	// ownTime is the age at which a wait is compared with the holders: its own goroutine may be
	// one.
	ownTime = time.Second
)

// WaitBegins notes that a call waits. It waits for nothing, and may be called with a mutex held.
func (d *Watcher) WaitBegins() { d.waits.Ask() }

// HoldBegins notes that a hold has begun. It waits for nothing, and may be called with a mutex
// held.
func (d *Watcher) HoldBegins() {
	if d.LongHold > 0 || d.ReleaseDropped {
		d.holds.Ask()
	}
}

// A look is one look of a watch. Another one follows as long as there is something to look at.
type look struct {
	now   time.Time // the time of this look
	next  time.Time // the latest time of the next look
	again bool      // there is something to look at
}

// begin begins a look; longest is the longest time until the next one.
func (l *look) begin(longest time.Duration) {
	l.now, l.again = time.Now(), false
	l.next = l.now.Add(longest)
}

// end returns what background.Task does next: pause, and look again or not.
func (l *look) end() (pause time.Duration, again bool) {
	return max(leastPause, pausePerLook*time.Since(l.now), l.next.Sub(l.now)), l.again
}

// checkDue reports whether a wait or hold that began at since has lasted for limit. If it has not,
// checkDue makes the next look come in time for it.
func (l *look) checkDue(since time.Time, limit time.Duration) bool {
	at := since.Add(limit)
	if at.After(l.now) && at.Before(l.next) {
		l.next = at
	}
	return !at.After(l.now)
}

// A waitWatch looks at waits. It is used by one goroutine at a time.
type waitWatch struct {
	*Watcher
	look
	searched memory           // waits whose own goroutine was looked for among the holders
	logged   memory           // waits that were logged as long
	due      map[lasting]bool // waits whose own goroutine this look has to find
}

// A holdWatch looks at holds. It is used by one goroutine at a time.
type holdWatch struct {
	*Watcher
	look
	logged  memory // holds that were logged as long
	dropped memory // holds that were logged because their handles were dropped
}

// A lasting is a wait or a hold.
type lasting struct {
	name  string
	kind  contract.Kind
	owner contract.Owner
	since time.Time
}

// A memory has the waits or holds that earlier looks have dealt with. A look forgets those that it
// does not meet.
type memory struct{ before, now map[lasting]bool }

func (m *memory) begin() { m.before, m.now = m.now, make(map[lasting]bool) }

// had reports whether an earlier look has dealt with the wait or hold. If so, the memory keeps it.
func (m *memory) had(one lasting) bool {
	had := m.before[one]
	if had {
		m.now[one] = true
	}
	return had
}

// work looks at all waits once, as the work of a task.
func (w *waitWatch) work() (pause time.Duration, again bool) {
	w.begin(lookTime)
	w.due = make(map[lasting]bool)
	w.searched.begin()
	w.logged.begin()
	look := contract.Look{Waits: true}
	if w.LongWait > 0 {
		look.Locate = w.now.Add(-w.LongWait)
	}
	w.Source.ReadLocks(look, func(v *contract.View) {
		for i := range v.Waits {
			w.again = true
			w.wait(v, &v.Waits[i])
		}
	})
	if len(w.due) > 0 {
		w.tellOwnWaits()
	}
	return w.end()
}

// work looks at all holds once, as the work of a task.
func (w *holdWatch) work() (pause time.Duration, again bool) {
	longest := mostHoldLook
	if w.LongHold > 0 {
		longest = min(longest, w.LongHold)
	}
	w.begin(longest)
	w.logged.begin()
	w.dropped.begin()
	w.Source.ReadLocks(contract.Look{Holds: true}, func(v *contract.View) {
		if !v.ValidUntil.After(w.now) {
			return
		}
		for i := range v.Levels {
			w.again = true
			w.checkDropped(v, &v.Levels[i])
			w.hold(v, &v.Levels[i])
		}
	})
	return w.end()
}

// wait looks at a call that waits.
func (w *waitWatch) wait(v *contract.View, one *contract.Wait) {
	key := lasting{v.Name, v.KindOf(one.Reads), one.Owner, one.Since}
	if v.Tenure != "" && !one.Logged && w.now.Sub(one.Since) >= ownTime && !w.searched.had(key) {
		w.searched.now[key], w.due[key] = true, true
	}
	switch {
	case w.LongWait <= 0 || one.Whole != nil || one.Standing: // the whole logs its own waits
	case !w.checkDue(one.Since, w.LongWait) || w.logged.had(key):
	case one.Site == nil: // its goroutine finds out the site
		w.next = w.now
	default:
		w.logged.now[key] = true
		w.tellLongWait(v, one)
	}
}

// tellOwnWaits logs each due wait for a lock that the waiting goroutine itself holds by another
// owner: a handle, which another goroutine may still release. A semaphore is left out: its waiter
// needs any permit.
func (w *waitWatch) tellOwnWaits() {
	type key struct {
		name      string
		goroutine uint64
	}
	holders := make(map[key]contract.Level)
	w.Source.ReadLocks(contract.Look{Holds: true, Waits: true}, func(v *contract.View) {
		if v.Kind == contract.KindSemaphore {
			return
		}
		for i := range v.Levels { // of several views of a lock only the first has its levels
			if l := &v.Levels[i]; l.Goroutine != 0 {
				holders[key{v.Name, l.Goroutine}] = *l
			}
		}
		for i := range v.Waits {
			one := &v.Waits[i]
			l, ok := holders[key{v.Name, one.Goroutine}]
			if !ok || l.Reads && one.Reads || !w.due[lasting{v.Name, v.KindOf(one.Reads), one.Owner, one.Since}] {
				continue
			}
			w.Logger.Warn("rlock: a call waits for a lock that its own goroutine holds: use the context of the Hold, or WithOwner, to nest",
				"lock", v.Name, "kind", v.KindOf(one.Reads), "owner", one.Owner, "waited", w.now.Sub(one.Since).Round(time.Millisecond),
				"site", wholeSite(one.Whole, one.Site), "holder", l.Owner, "held", w.now.Sub(l.Since).Round(time.Millisecond), "holder_site", wholeSite(l.Whole, l.Site))
		}
	})
}

// wholeSite returns the place at which the whole was taken, or the lock if it is no part.
func wholeSite(of *contract.Whole, site *contract.Site) string {
	if of != nil {
		site = of.Site
	}
	return contract.Known(site).String()
}

// tellLongWait logs a wait that has lasted too long, and the holder if it is known.
func (w *waitWatch) tellLongWait(v *contract.View, one *contract.Wait) {
	holder, note, where := one.Holder, one.Note, ""
	if v.Tenure != "" {
		holder, note, where = v.Tenure+v.Holder.Owner.String(), v.Note, wholeSite(v.Holder.Whole, v.Holder.Site)
	}
	about := []any{"lock", v.Name, "kind", v.KindOf(one.Reads),
		"owner", one.Owner, "waited", w.now.Sub(one.Since).Round(time.Millisecond), "site", contract.Known(one.Site).String(),
		"holder", holder, "holder_site", where}
	if note != "" {
		about = append(about, "holder_note", note)
	}
	if one.Endless && v.Tenure == "" {
		about = append(about, "expires", "never: the key of the lock has no TTL, and ends only by an unlock")
	}
	w.Logger.Warn("rlock: a call waits for a lock for a long time", about...)
}

// hold looks at a level. Only the first level of a hold is reported.
func (w *holdWatch) hold(v *contract.View, one *contract.Level) {
	key := lasting{v.Name, v.KindOf(one.Reads), one.Owner, one.Since}
	if w.LongHold <= 0 || !one.First || one.Standing || !w.checkDue(one.Since, w.LongHold) || w.logged.had(key) {
		return
	}
	w.logged.now[key] = true
	name, kind, site := v.Name, key.kind, one.Site
	if whole := one.Whole; whole != nil {
		if !whole.TellsLong() { // the whole was reported for another of its parts
			return
		}
		name, kind, site = whole.Name, whole.Kind, whole.Site
	}
	w.Logger.Warn("rlock: a lock is held for a long time", "lock", name, "kind", kind,
		"owner", one.Owner, "held", w.now.Sub(one.Since).Round(time.Millisecond), "site", contract.Known(site).String())
}

// checkDropped logs a level whose handle the program has dropped, and releases it if the Config
// says so. Such a level ends only with its lease, its longest hold or the process.
func (w *holdWatch) checkDropped(v *contract.View, one *contract.Level) {
	if !one.Dropped {
		return
	}
	name, kind, site := v.Name, v.KindOf(one.Reads), one.Site
	if whole := one.Whole; whole != nil {
		name, kind, site = whole.Name, whole.Kind, whole.Site
	}
	key := lasting{name, kind, one.Owner, time.Time{}}
	had := w.dropped.had(key) || w.dropped.now[key]
	w.dropped.now[key] = true
	released := w.ReleaseDropped && one.Release != nil && w.Redis.Start(one.Release)
	if had {
		return
	}
	w.Logger.Warn("rlock: the program has dropped a Hold without releasing it", "lock", name, "kind", kind,
		"owner", one.Owner, "held", w.now.Sub(one.Since).Round(time.Millisecond), "site", contract.Known(site).String(), "released", released)
}
