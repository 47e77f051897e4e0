package history

import "time"

// An Event is one line of a history. Its kind says which of the parts it has.
type Event struct {
	At      Time   `json:"at"`
	Kind    Kind   `json:"kind"`
	Process string `json:"process"`

	// Number tells the operations of a process apart, and its faults. The events
	// of one operation share it.
	Number uint64 `json:"number,omitempty"`

	Op       *Op     `json:"op,omitempty"`
	Result   *Result `json:"result,omitempty"`
	Belief   *Belief `json:"belief,omitempty"`
	Way      string  `json:"way,omitempty"` // of Told
	Fault    *Fault  `json:"fault,omitempty"`
	Leftover string  `json:"leftover,omitempty"`

	// Stall is for how long the process could not run.
	Stall time.Duration `json:"stall,omitempty"`
}

// A Kind is what an Event tells.
type Kind string

const (
	Called   Kind = "called"   // Op is about to be done
	Returned Kind = "returned" // it was done, with Result
	Looked   Kind = "looked"   // what the holder believed at that time: Belief
	Told     Kind = "told"     // the holder was told of its loss, in this Way
	Injected Kind = "injected" // Fault is about to begin
	Healed   Kind = "healed"   // Fault is over
	Stalled  Kind = "stalled"  // the machine did not let the process run, for as long as Stall says, until now
	Left     Kind = "left"     // Leftover was found when nobody held anything
	Ended    Kind = "ended"    // the process ended in order: it was not killed
)

// A Method is what was called.
type Method string

// The methods that take a lock. Of Do, the acquire ends where the function begins.
const (
	Lock       Method = "Lock"
	LockFor    Method = "LockFor"
	TryLock    Method = "TryLock"
	TryLockFor Method = "TryLockFor"
	Acquire    Method = "Acquire"
	TryAcquire Method = "TryAcquire"
	Do         Method = "Do"
)

// The methods that give one back. DoEnd is what follows the function of Do. Close
// has no name: it gives back all that its process holds.
const (
	Unlock      Method = "Unlock"
	Release     Method = "Release"
	DoEnd       Method = "DoEnd"
	ForceUnlock Method = "ForceUnlock"
	Close       Method = "Close"
)

// Takes reports whether m is one of the methods that take a lock.
func (m Method) Takes() bool {
	switch m {
	case Lock, LockFor, TryLock, TryLockFor, Acquire, TryAcquire, Do:
		return true
	}
	return false
}

// An Op is one call of a method.
type Op struct {
	Worker int    `json:"worker,omitempty"`
	Method Method `json:"method"`
	Name   string `json:"name,omitempty"`

	// Owner is in whose name the lock is taken or given back. It must be the same
	// for nothing else in any process. Of a handle it is known by the Result only.
	Owner string `json:"owner,omitempty"`

	// Lease is what Redis is asked for: the caller's, or the watchdog's if the
	// watchdog keeps the lock (Kept).
	Lease time.Duration `json:"lease,omitempty"`
	Kept  bool          `json:"kept,omitempty"`

	// Shared says that it is about what a reader has: any number of owners may have
	// it at once, and nobody beside them has the lock. What an owner has as a reader
	// and what it has as a writer are two things, of which it may have both.
	Shared bool `json:"shared,omitempty"`
}

// An Outcome is how a call ended, as far as the caller was told.
type Outcome string

const (
	// Of a method that takes. After all but the first, the caller holds nothing
	// more than before.
	Acquired  Outcome = "acquired"
	Refused   Outcome = "refused"   // another owner holds the lock
	Cancelled Outcome = "cancelled" // the caller gave up
	Failed    Outcome = "failed"    // any other error

	// Of a method that gives back. After all but the last the caller holds one level
	// less; after Failed as well, since it cannot know.
	Released    Outcome = "released"    // it had been held until then
	Lost        Outcome = "lost"        // it had been lost before
	Unconfirmed Outcome = "unconfirmed" // Redis did not answer
	NotHeld     Outcome = "not held"    // the caller had nothing to give back
)

// A Result is what is known when a call has returned.
type Result struct {
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`

	// Following are of an acquire that succeeded.

	Owner   string `json:"owner,omitempty"`   // of the handle, if the Op could not say
	Count   int    `json:"count,omitempty"`   // of the owner's levels, 0 if not asked
	Token   uint64 `json:"token,omitempty"`   // 0 if none
	Until   Time   `json:"until,omitempty"`   // until when the lock is valid, 0 if not known
	Watched bool   `json:"watched,omitempty"` // the worker waits for Done, and notes Told
}

// A Belief is what a holder finds when it looks.
type Belief struct {
	Held  bool `json:"held"`
	Until Time `json:"until,omitempty"` // 0 if not known
	Count int  `json:"count,omitempty"` // of the owner's levels, 0 if not asked
	Seen  Time `json:"seen"`            // when the look was over; set by Look
}

// A Fault is something done to the world on purpose.
type Fault struct {
	What string `json:"what"`
	Kind string `json:"kind,omitempty"` // of such faults, which What tells apart

	// Forgets says that Redis may forget by it what it has granted: FLUSHALL, DEL,
	// a failover, eviction, a restart without its data. No lock in Redis can
	// prevent an overlap then.
	Forgets bool `json:"forgets,omitempty"`

	Name   string `json:"name,omitempty"`   // the one lock that it is about; all if empty
	Victim string `json:"victim,omitempty"` // the process that is stopped or killed
}
