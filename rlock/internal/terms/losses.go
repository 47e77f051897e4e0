package terms

import (
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// maxEnded bounds how many owners are remembered whose fixed leases are over without an
// Unlock: a program may leave each of its leases to end by itself.
const maxEnded = 10_000

// Losses remember the owners of a client that lost a lock and have not unlocked it yet, so that the Unlock to come says
// ErrLost and not ErrNotHeld, and a nested Lock is refused. Handles remember for themselves; this is for owners that come
// back by name. The zero value has none. Methods may be called concurrently.
//
// What refuses a nested Lock is kept for as long as the client lives. That is no leak
// beyond the caller's own: a loss takes less memory than the hold did, which would have
// lasted as long had it not been lost. Once a fixed lease is over nothing refuses, and
// the loss is kept for the answer to Unlock only. If there are more than maxEnded losses those
// are forgotten; from then on the answer to an owner without anything to unlock is both
// errors, since either may be true.
type Losses struct {
	count     atomic.Int64 // of entries, so that the usual case asks for no mutex
	forgotten atomic.Bool  // whether any was

	mu      sync.Mutex // protects following
	entries map[LossKey]loss
	most    int // how many entries there may be until the next sweep
}

// A LossKey is an owner of a lock.
type LossKey struct {
	Kind  uint8 // locks of one name and different kinds are kept apart
	Name  string
	Owner Owner
}

// OverSeveral is the kind of locks over several, which are named after their parts.
const OverSeveral = math.MaxUint8

// A LostLevel is one that was lost.
type LostLevel struct {
	Shared bool      // a reader's
	Until  time.Time // the end of the lease that it asked for; zero: kept by the watchdog
}

type loss struct {
	cause          error
	writes, shared int       // levels that are not yet unlocked
	kept           bool      // one of the levels was the watchdog's, which has no end
	until          time.Time // the latest end of the others
}

// None reports whether nothing is remembered, as usual.
func (l *Losses) None() bool { return l.count.Load() == 0 }

// Add remembers that the owner lost the level before its time, or that its time, which
// is then not in the future, was up.
func (l *Losses) Add(key LossKey, lost LostLevel, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries, l.most = make(map[LossKey]loss), maxEnded
	}
	e := l.entries[key]
	e.cause = cause
	if lost.Shared {
		e.shared++
	} else {
		e.writes++
	}
	e.kept = e.kept || lost.Until.IsZero()
	if lost.Until.After(e.until) {
		e.until = lost.Until
	}
	if len(l.entries) >= l.most {
		l.sweep(time.Now())
	}
	l.entries[key] = e
	l.count.Store(int64(len(l.entries)))
}

// sweep forgets what refuses nothing any more. The mutex is held.
func (l *Losses) sweep(now time.Time) {
	before := len(l.entries)
	maps.DeleteFunc(l.entries, func(_ LossKey, e loss) bool { return !e.refuses(now) })
	if len(l.entries) < before {
		l.forgotten.Store(true)
	}
	l.most = max(maxEnded, 2*len(l.entries))
}

// refuses reports whether the owner may not nest now: it lost what it had before the time that it
// had asked for, and that time is not up.
func (e *loss) refuses(now time.Time) bool { return e.kept || now.Before(e.until) }

// Unlock takes one level off what the owner lost, and returns the cause of the
// loss, nil if the owner lost nothing.
func (l *Losses) Unlock(key LossKey, shared bool) error {
	if l.None() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	levels := &e.writes
	if shared {
		levels = &e.shared
	}
	if *levels == 0 {
		return nil
	}
	if *levels--; e.writes+e.shared > 0 {
		l.entries[key] = e
	} else {
		delete(l.entries, key)
		l.count.Store(int64(len(l.entries)))
	}
	return e.cause
}

// Blocks returns why the owner may not lock the name again at now, nil if it may. A nested Lock
// would otherwise run inside of a section that is protected no longer. When a fixed lease is over
// the owner has nothing by its own choice, and its Lock is not a nested one.
func (l *Losses) Blocks(key LossKey, now time.Time) error {
	if e := l.read(key); e.refuses(now) {
		return e.cause
	}
	return nil
}

// Cause returns why the owner has lost what it has not unlocked yet, nil if there is nothing.
func (l *Losses) Cause(key LossKey) error { return l.read(key).cause }

// read returns what the owner has lost and not unlocked yet, the zero loss for nothing.
func (l *Losses) read(key LossKey) loss {
	if l.None() {
		return loss{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[key]
}

var errForgotten = fmt.Errorf("%w, or its fixed lease has ended, as those of %d others that were not unlocked either: %w",
	ErrNotHeld, maxEnded, ErrLost)

// NotHeld is the error of an owner that nothing is remembered of.
func (l *Losses) NotHeld() error {
	if l.forgotten.Load() {
		return errForgotten
	}
	return ErrNotHeld
}
