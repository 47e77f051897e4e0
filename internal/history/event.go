package history

import "time"

// An Event is one line of a history. Its kind tells which of the fields are set.
type Event struct {
	At      Time   `json:"at"`
	Kind    Kind   `json:"kind"`
	Process string `json:"process"`

	// Number distinguishes the calls of a process, and its faults. The events of one call share
	// it.
	Number uint64 `json:"number,omitempty"`

	Op     *Op     `json:"op,omitempty"`
	Result *Result `json:"result,omitempty"`
	Belief *Belief `json:"belief,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`

	// Stall is for how long the process could not run.
	Stall time.Duration `json:"stall,omitempty"`
}

// A Kind is the kind of an Event.
type Kind string

const (
	Called   Kind = "called"   // Op is about to begin
	Returned Kind = "returned" // it has returned, with Result
	Looked   Kind = "looked"   // the state that the holder observed at that time: Belief
	Told     Kind = "told"     // the context of the hold has ended with its loss
	Gives    Kind = "gives"    // the holder is about to give the level back
	Gave     Kind = "gave"     // the call that gives the level back has returned, with Result
	Closes   Kind = "closes"   // the client is about to be closed, which gives back all that the process has
	Injected Kind = "injected" // Fault is about to begin
	Healed   Kind = "healed"   // Fault is over
	Stalled  Kind = "stalled"  // the machine did not run the process, for the time in Stall, until now
	Ended    Kind = "ended"    // the process ended in order: it was not killed
)

// An Op is one call that takes a lock.
type Op struct {
	Method string `json:"method"`

	// Names are the names of the locks that it takes at once. While it waits for one of them it may
	// have any other. Without names the call is not judged.
	Names []string `json:"names"`

	// Owner is the owner for whom the lock is taken. It must be unique over all processes.
	Owner string `json:"owner"`

	// Lease is the lease that Redis is asked for: the caller's, or the watchdog's if the
	// watchdog keeps the lock (Kept).
	Lease time.Duration `json:"lease,omitempty"`
	Kept  bool          `json:"kept,omitempty"`

	// Shared marks the call of a reader: any number of owners may read at once, and no
	// other owner has the lock then. A read hold and a write hold of one owner are two holds,
	// which may exist at the same time.
	Shared bool `json:"shared,omitempty"`

	// Permits is how many a call takes of a semaphore, which is Shared, and Of is how many
	// there are.
	Permits int `json:"permits,omitempty"`
	Of      int `json:"of,omitempty"`

	// Ends is when the context of the call ends, 0 if that is not known: it returns at that time at
	// the latest.
	Ends Time `json:"ends,omitempty"`

	// From is the owner that has passed the lock on at the time Passed, which the call takes over:
	// it was that owner's until then.
	From   string `json:"from,omitempty"`
	Passed Time   `json:"passed,omitempty"`
}

// An Outcome tells how a call ended, as reported to the caller.
type Outcome string

const (
	// Outcomes of a call that takes. After all but the first, the caller holds nothing more
	// than before.
	Acquired  Outcome = "acquired"
	Refused   Outcome = "refused"   // another owner holds the lock
	Cancelled Outcome = "cancelled" // the caller gave up
	Failed    Outcome = "failed"    // any other error

	// Outcomes of a call that gives back. After each, and after Failed as well, since it cannot
	// know, the caller holds one level less.
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

	Count   int    `json:"count,omitempty"`   // the levels of the owner, 0 if not asked
	Token   uint64 `json:"token,omitempty"`   // 0 if none
	Watched bool   `json:"watched,omitempty"` // the level has a handle, and the worker waits for the end of its context: see Told
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
