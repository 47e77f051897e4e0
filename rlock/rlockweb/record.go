package rlockweb

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/inspect"
)

const (
	span      = 60 // the number of looks in a record's curves
	mostDeeds = 50 // the number of events that a record keeps
)

// A record is what the watcher has seen of one lock.
type record struct {
	inspect.Lock
	at     time.Time            // the time of the last look
	until  time.Time            // the end of the lease
	length time.Duration        // the longest rest of a lease that was seen
	free   time.Time            // the time since which it is free; zero if it is not
	first  map[string]time.Time // the time at which each holder and waiter was first seen, by owner
	forced map[string]string    // who has taken the lock away, by owner
	turns  []int                // the number of new holders at each of the last looks
	waits  []int                // the number of waiters at each of them
	Deeds  []deed               // what happened, the last first
	other  bool                 // it is no lock, but a key with other data
}

// A deed is something that happened to a lock.
type deed struct {
	At   time.Time
	What string // "taken", "granted", "released", "lost", "forced" or "passed"
	Text string
}

// tolerance is how far two looks may disagree about one moment.
const tolerance = 300 * time.Millisecond

// see compares a look with the one before. The holders of the first look are no news.
func (r *record) see(now time.Time, lock inspect.Lock) {
	before, known := r.Lock, !r.at.IsZero()
	first := make(map[string]time.Time)
	seen := func(owner string) (isNew bool) {
		at, known := r.first[owner]
		if !known {
			at = now
		}
		first[owner] = at
		return !known
	}
	turns := 0
	for _, h := range lock.Holders {
		waited := slices.ContainsFunc(before.Queue, func(w inspect.Waiter) bool { return w.Owner == h.Owner })
		if held := slices.ContainsFunc(before.Holders, func(b inspect.Holder) bool { return b.Owner == h.Owner }); !held {
			delete(r.first, h.Owner) // it has held or waited for it before
			turns++
			switch {
			case !known:
			case h.Passed:
				r.note(now, "passed", "passed on, or held for its least time: without a holder")
			case waited:
				r.note(now, "granted", "granted to "+holderName(h)+", which had waited")
			default:
				r.note(now, "taken", "taken by "+holderName(h))
			}
		}
		seen(h.Owner)
	}
	for _, w := range lock.Queue {
		seen(w.Owner)
	}
	for _, h := range before.Holders {
		if !slices.ContainsFunc(lock.Holders, func(n inspect.Holder) bool { return n.Owner == h.Owner }) {
			r.ended(now, h)
		}
	}
	if waiting := lock.Waiting + max(lock.Foreign, 0); !known {
		r.turns, r.waits = []int{0}, []int{waiting}
	} else {
		r.turns = append(r.turns, turns)[max(len(r.turns)+1-span, 0):]
		r.waits = append(r.waits, waiting)[max(len(r.waits)+1-span, 0):]
	}
	if until := now.Add(lock.Lease); until.Sub(r.until).Abs() > tolerance {
		r.until = until
	}
	if r.length = max(r.length, lock.Lease); lock.HolderCount+lock.Waiting > 0 {
		r.free = time.Time{}
	} else if r.free.IsZero() {
		r.free, r.length = now, 0
	}
	r.Lock, r.at, r.first = lock, now, first
}

// ended notes how a hold has ended. In Redis a release leaves no trace, but a lease that ended has
// had its time at the last look.
func (r *record) ended(now time.Time, h inspect.Holder) {
	who, forced := r.forced[h.Owner]
	delete(r.forced, h.Owner)
	switch {
	case forced:
		r.note(now, "forced", fmt.Sprintf("taken away from %s by force, by %s", holderName(h), who))
	case h.Passed:
	case h.Lease >= 0 && !r.at.Add(h.Lease).After(now.Add(tolerance)):
		r.note(now, "lost", "lost by "+holderName(h)+": its lease ended, and was not renewed")
	default:
		r.note(now, "released", "released by "+holderName(h)+", or taken away elsewhere")
	}
}

func (r *record) note(now time.Time, what, text string) {
	r.Deeds = append([]deed{{now, what, text}}, r.Deeds...)
	r.Deeds = r.Deeds[:min(len(r.Deeds), mostDeeds)]
}

// sum returns the number of all turns in the curve.
func sum(all []int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}
