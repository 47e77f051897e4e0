package client

import (
	"container/heap"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// maxEnded bounds how many owners are remembered whose fixed leases are over without an
// Unlock: a program may leave each of its leases to end by itself.
const maxEnded = 10_000

// losses remembers the owners that lost a lock and have not unlocked it yet, so that the
// Unlock to come says ErrLost and not ErrNotHeld, and a nested Lock is refused. Handles
// remember for themselves; this is for owners that come back by name.
//
// What refuses a nested Lock is kept for as long as the client lives. That is no leak
// beyond the caller's own: a loss takes less memory than the hold did, which would have
// lasted as long had it not been lost. Once a fixed lease is over nothing refuses, and
// the loss is kept for the answer to Unlock only. Of these the first to end is
// forgotten when there are more than maxEnded; from then on the answer to an owner
// without anything to unlock is both errors, since either may be true.
type losses struct {
	count     atomic.Int64 // of entries, so that the usual case asks for no mutex
	forgotten atomic.Bool  // whether any was

	mu      sync.Mutex // protects following
	entries map[LossKey]*loss
	ends    leaseEnds
}

// A LossKey is an owner of a lock.
type LossKey struct {
	Kind  KindID // KindCount for a lock over several
	Name  string
	Owner terms.Owner
}

// A Lost is one level that was lost.
type Lost struct {
	Shared bool      // a reader's
	Until  time.Time // the end of the lease that it asked for; zero: kept by the watchdog
}

type loss struct {
	key            LossKey
	cause          error
	writes, shared int       // levels that are not yet unlocked
	kept           bool      // one of the levels was the watchdog's, which has no end
	until          time.Time // the latest end of the others
	place          int       // among the ends, unless kept
}

// levels is how many levels of the one sort are not yet unlocked.
func (l *loss) levels(shared bool) *int {
	if shared {
		return &l.shared
	}
	return &l.writes
}

// None reports whether nothing is remembered, as usual.
func (l *losses) None() bool { return l.count.Load() == 0 }

// Add remembers that the owner lost the level before its time, or that its time, which
// is then not in the future, was up.
func (l *losses) Add(key LossKey, lost Lost, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil {
		if l.entries == nil {
			l.entries = make(map[LossKey]*loss)
		}
		e = &loss{key: key}
		l.entries[key] = e
		l.count.Add(1)
		heap.Push(&l.ends, e)
	}
	e.cause = cause
	*e.levels(lost.Shared)++
	switch {
	case e.kept:
	case lost.Until.IsZero():
		heap.Remove(&l.ends, e.place)
		e.kept = true
	case lost.Until.After(e.until):
		e.until = lost.Until
		heap.Fix(&l.ends, e.place)
	}
	if len(l.ends) > maxEnded && !time.Now().Before(l.ends[0].until) {
		l.removeLocked(l.ends[0])
		l.forgotten.Store(true)
	}
}

// Unlock takes one level off what the owner lost, and returns the cause of the
// loss, nil if the owner lost nothing.
func (l *losses) Unlock(key LossKey, shared bool) error {
	if l.None() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil {
		return nil
	}
	levels := e.levels(shared)
	if *levels == 0 {
		return nil
	}
	if *levels--; e.writes+e.shared == 0 {
		l.removeLocked(e)
	}
	return e.cause
}

// Blocks returns why the owner may not lock the name again at now, nil if it may: it
// lost what it had before the time that it had asked for, it has not unlocked it, and
// that time is not up. A nested Lock would otherwise run inside of a section that is
// protected no longer. When a fixed lease is over the owner has nothing by its own
// choice, and its Lock is not a nested one.
func (l *losses) Blocks(key LossKey, now time.Time) error {
	if e := l.look(key); e.kept || now.Before(e.until) {
		return e.cause
	}
	return nil
}

// Cause returns why the owner has lost what it has not unlocked yet, nil if there is nothing.
func (l *losses) Cause(key LossKey) error { return l.look(key).cause }

// look returns what the owner has lost and not unlocked yet, the zero loss for nothing.
func (l *losses) look(key LossKey) (e loss) {
	if l.None() {
		return e
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.entries[key]; known != nil {
		e = *known
	}
	return e
}

var errForgotten = fmt.Errorf("%w, or its fixed lease ended before those of %d others that were not unlocked either: %w",
	terms.ErrNotHeld, maxEnded, terms.ErrLost)

// NotHeld is the error of an owner that nothing is remembered of.
func (l *losses) NotHeld() error {
	if l.forgotten.Load() {
		return errForgotten
	}
	return terms.ErrNotHeld
}

func (l *losses) removeLocked(e *loss) {
	delete(l.entries, e.key)
	l.count.Add(-1)
	if !e.kept {
		heap.Remove(&l.ends, e.place)
	}
}

// leaseEnds is a heap of the losses that the watchdog had no part in: the first to end
// comes first.
type leaseEnds []*loss

func (h leaseEnds) Len() int           { return len(h) }
func (h leaseEnds) Less(i, j int) bool { return h[i].until.Before(h[j].until) }

func (h leaseEnds) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements [heap.Interface].
func (h *leaseEnds) Push(x any) {
	e := x.(*loss)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop implements [heap.Interface].
func (h *leaseEnds) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
