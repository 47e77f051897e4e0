package history

import "time"

// An Event is one line of a history. Its kind tells which of the fields are set.
type Event struct {
	At      Time   `json:"at"`
	Kind    Kind   `json:"kind"`
	Process string `json:"process"`

	// Number distinguishes the operations of a process, and its faults. The events of one
	// operation share it.
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

// A Kind is the kind of an Event.
type Kind string

const (
	Called   Kind = "called"   // Op is about to begin
	Returned Kind = "returned" // it has returned, with Result
	Looked   Kind = "looked"   // the state that the holder observed at that time: Belief
	Told     Kind = "told"     // the holder was notified of its loss, in this Way
	Injected Kind = "injected" // Fault is about to begin
	Healed   Kind = "healed"   // Fault is over
	Stalled  Kind = "stalled"  // the machine did not run the process, for the time in Stall, until now
	Left     Kind = "left"     // Leftover was found when no lock was held
	Ended    Kind = "ended"    // the process ended in order: it was not killed
)

// A Method is the method that was called.
type Method string

// The methods that take a lock. For Do, the acquire ends where the function begins.
const (
	Lock       Method = "Lock"
	LockFor    Method = "LockFor"
	TryLock    Method = "TryLock"
	TryLockFor Method = "TryLockFor"
	Acquire    Method = "Acquire"
	TryAcquire Method = "TryAcquire"
	Do         Method = "Do"
)

// The methods that give a lock back. DoEnd is the part of Do after the function. Close has no
// name: it gives back every lock of its process.
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

	// Owner is the owner for whom the lock is taken or given back. It must be unique over all
	// processes. For a handle only the Result knows it.
	Owner string `json:"owner,omitempty"`

	// Lease is the lease that Redis is asked for: the caller's, or the watchdog's if the
	// watchdog keeps the lock (Kept).
	Lease time.Duration `json:"lease,omitempty"`
	Kept  bool          `json:"kept,omitempty"`

	// Shared marks an operation of a reader: any number of owners may read at once, and no
	// other owner has the lock then. A read hold and a write hold of one owner are two holds,
	// which may exist at the same time.
	Shared bool `json:"shared,omitempty"`

	// Permits is how many an operation takes of a semaphore, which is Shared, and Of is how many
	// there are.
	Permits int `json:"permits,omitempty"`
	Of      int `json:"of,omitempty"`

	// Ends is when the context of the call ends, 0 if that is not known: it returns at that time at
	// the latest.
	Ends Time `json:"ends,omitempty"`

	// From is the owner that has passed the lock on at the time Passed, which the call takes over: it
	// was that owner's until then.
	From   string `json:"from,omitempty"`
	Passed Time   `json:"passed,omitempty"`

	// Parts is how many names the call takes at once, each with an Op of its own; 0 is one. While
	// it waits for one of them it may have any other.
	Parts int `json:"parts,omitempty"`
}

// An Outcome tells how a call ended, as reported to the caller.
type Outcome string

const (
	// Outcomes of a method that takes. After all but the first, the caller holds nothing more
	// than before.
	Acquired  Outcome = "acquired"
	Refused   Outcome = "refused"   // another owner holds the lock
	Cancelled Outcome = "cancelled" // the caller gave up
	Failed    Outcome = "failed"    // any other error

	// Outcomes of a method that gives back. After all but the last the caller holds one level
	// less; after Failed as well, since it cannot know.
	Released    Outcome = "released"    // it had been held until then
	Lost        Outcome = "lost"        // it had been lost before
	Unconfirmed Outcome = "unconfirmed" // Redis did not answer
	NotHeld     Outcome = "not held"    // the caller had nothing to give back
)

// A Result is the result of a call.
type Result struct {
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`

	// Until is the end of the lock's validity, 0 if not known. After a call that gave the last
	// level back, no other owner has the lock before it.
	Until Time `json:"until,omitempty"`

	// The following are set for an acquire that succeeded.

	Owner   string `json:"owner,omitempty"`   // the owner of the handle, if the Op could not have it
	Count   int    `json:"count,omitempty"`   // the levels of the owner, 0 if not asked
	Token   uint64 `json:"token,omitempty"`   // 0 if none
	Watched bool   `json:"watched,omitempty"` // the worker waits for Done, and notes Told
}

// A Belief is the state that a holder observes when it looks.
type Belief struct {
	Held  bool `json:"held"`
	Until Time `json:"until,omitempty"` // 0 if not known
	Count int  `json:"count,omitempty"` // the levels of the owner, 0 if not asked
	Seen  Time `json:"seen"`            // when the look was over; set by Look
}

// A Fault is a fault that is injected on purpose.
type Fault struct {
	What string `json:"what"`
	Kind string `json:"kind,omitempty"` // the kind of fault; What distinguishes faults of one kind

	// Forgets marks a fault by which Redis may forget a grant: FLUSHALL, DEL, a failover,
	// eviction, a restart without its data. No lock in Redis can prevent an overlap then.
	Forgets bool `json:"forgets,omitempty"`

	Name   string `json:"name,omitempty"`   // the only lock that it affects; all if empty
	Victim string `json:"victim,omitempty"` // the process that is stopped or killed
}
