package contract

import (
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// maxEnded is the largest number of owners that are remembered after their fixed leases have ended
// without an Unlock: a program may leave each of its leases to end by itself.
const maxEnded = 10_000

// Losses are the levels of a client that were lost and not unlocked yet, by owner: so the next
// Unlock returns ErrLost and not ErrNotHeld, and a nested Lock is refused. They are for owners that
// are known by their number; a handle remembers its own loss. The zero value is empty. Methods may
// be called concurrently.
//
// A loss that refuses a nested Lock is kept as long as the client lives. It takes less memory than
// the hold did, and the owner has not unlocked that either. Once a fixed lease is over, the loss
// refuses nothing, and only serves the answer to Unlock. At most maxEnded of such losses are kept.
// After one was forgotten, an owner without anything to unlock gets both errors, since either may
// be true.
type Losses struct {
	count     atomic.Int64 // the number of entries: if it is 0, as usual, no mutex is needed
	forgotten atomic.Bool  // an entry was forgotten

	mu      sync.Mutex // guards the fields below
	entries map[LossKey]loss
	most    int // the number of entries at which the next sweep begins
}

// A LossKey is an owner of a lock.
type LossKey struct {
	Kind  uint8 // locks of one name and different kinds are kept apart
	Name  string
	Owner Owner
}

// OverSeveral is the kind of multi and red locks, which are named after their parts.
const OverSeveral = math.MaxUint8

// A LostLevel is a level that was lost.
type LostLevel struct {
	Shared bool      // the level was a reader's
	Until  time.Time // the end of its fixed lease; zero for a level that the watchdog renewed
}

type loss struct {
	cause          error
	writes, shared int       // the number of levels that are not unlocked yet
	kept           bool      // the watchdog renewed one of the levels
	until          time.Time // the latest end of a fixed lease
}

// None reports whether there are no losses, as is usual.
func (l *Losses) None() bool { return l.count.Load() == 0 }

// Add remembers that the owner lost the level: before its end or, if lost.Until has passed, at its
// end.
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

// sweep forgets the losses that no longer refuse anything. The caller holds mu.
func (l *Losses) sweep(now time.Time) {
	before := len(l.entries)
	maps.DeleteFunc(l.entries, func(_ LossKey, e loss) bool { return !e.refuses(now) })
	if len(l.entries) < before {
		l.forgotten.Store(true)
	}
	l.most = max(maxEnded, 2*len(l.entries))
}

// refuses reports whether the owner may not nest now: it lost the lock before the time was over for
// which it had asked, and that time is still not over.
func (e *loss) refuses(now time.Time) bool { return e.kept || now.Before(e.until) }

// Unlock removes one level from the losses of the owner. It returns the cause of the loss, or nil
// if the owner lost nothing.
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

// Blocks returns the cause for which the owner may not lock the name at now, or nil. A nested Lock
// would run in a section that is no longer protected. Once a fixed lease is over, the owner expects
// to hold nothing, and its Lock is not nested.
func (l *Losses) Blocks(key LossKey, now time.Time) error {
	if e := l.read(key); e.refuses(now) {
		return e.cause
	}
	return nil
}

// Cause returns the cause of the loss that the owner has not unlocked yet, or nil.
func (l *Losses) Cause(key LossKey) error { return l.read(key).cause }

// read returns the owner's losses that it has not unlocked yet, or the zero loss.
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

// NotHeld returns the error of an owner that has no loss.
func (l *Losses) NotHeld() error {
	if l.forgotten.Load() {
		return errForgotten
	}
	return ErrNotHeld
}
