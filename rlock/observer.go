package rlock

import (
	"context"
	"time"
)

// An Observer has hooks for the events of a client's locks: set it in [Config].Observer. Each hook
// may be nil, later versions may add hooks, and one Observer may serve several clients.
//
// A call that takes a lock may be Waiting, and ends with Acquired, Answered or GaveUp; each
// Acquired is followed by Released or Lost. If several levels of one owner are lost together, Lost
// is called for the first alone. A lock over several is observed as one lock, by the Observer of
// its first part's client.
//
// A hook may call the client, but not runtime.Goexit. Lost and Renewed run in a goroutine of the
// client, one after the other; while 4000 events wait, more are dropped and counted for Missed. The
// hooks of [Client.Close] run in another goroutine; Close waits for all these hooks, for a second
// at most. Any other hook runs in the caller's goroutine. The first panic of each hook is logged.
// Waiting is called once a call has to wait: for a holder, for calls that come first, or for Redis;
// for a lock over several at the start.
type Observer struct {
	Opened   func(*Client)                       // by New when the client is ready
	Closed   func(*Client)                       // once the first Close has released all locks
	Waiting  func(context.Context, WaitingInfo)  // once a call has to wait
	Acquired func(context.Context, AcquiredInfo) // before a call returns with the lock
	Answered func(context.Context, AnsweredInfo) // before package once returns another's result
	GaveUp   func(context.Context, GaveUpInfo)   // before a call returns an error, or just false
	Released func(context.Context, ReleasedInfo) // before a call that gave up a level returns
	Lost     func(context.Context, LostInfo)     // with the handle's values, or an Unlock's context
	Renewed  func(RenewedInfo)                   // after each batch of renewals
	Missed   func(n int)                         // the number of dropped calls of Lost and Renewed
}

// A LockInfo identifies the lock and the owner of an event.
type LockInfo struct {
	Client *Client
	Name   string
	Kind   Kind
	Owner  Owner
}

// A WaitingInfo is the argument of [Observer].Waiting.
type WaitingInfo struct{ LockInfo }

// An AcquiredInfo is the argument of [Observer].Acquired.
type AcquiredInfo struct {
	LockInfo
	AcquiredBy AcquiredBy
	Waited     time.Duration // the time since the call began, with round trips; 0 for a nested lock
	Contended  bool          // Waiting was called for this call
}

// An AnsweredInfo is the argument of [Observer].Answered.
type AnsweredInfo struct {
	LockInfo
	Waited    time.Duration // the time since the call began
	Contended bool          // Waiting was called for this call
}

// A GaveUpInfo is the argument of [Observer].GaveUp.
type GaveUpInfo struct {
	LockInfo
	Err       error         // [ErrNotAcquired], the context's error, or a fault
	Waited    time.Duration // the time since the call began
	Contended bool          // Waiting was called for this call
}

// A ReleasedInfo is the argument of [Observer].Released.
type ReleasedInfo struct {
	LockInfo
	AcquiredBy AcquiredBy    // ByNesting for all levels of an owner but the one released last
	Held       time.Duration // the time from Acquired to the call that gives the level up
	Err        error         // [ErrUnconfirmed]; [ErrClosed] by Close; otherwise nil
	Passed     bool          // [Hold.Pass] has passed the lock on
}

// A LostInfo is the argument of [Observer].Lost.
type LostInfo struct {
	LockInfo
	AcquiredBy AcquiredBy
	Held       time.Duration // the time from Acquired to the loss
	Reason     LossReason
	Err        error // an [ErrLost] with the reason
}

// A RenewedInfo is about one batch of renewals, and changes of depth or owner, to one server.
type RenewedInfo struct {
	Client *Client
	Locks  int           // the number of locks in the batch
	Failed int           // the number of locks that Redis refused to renew, or did not answer for
	Took   time.Duration // the time from before the batch was sent to the last answer
	Kept   int           // the number of locks whose whole lease the watchdog renews
	Margin time.Duration // the shortest validity left to Kept, or Lease; near zero warns of losses
	Lease  time.Duration // Config.Lease
	Err    error         // the error of one of the locks that failed
}

// AcquiredBy is how a lock was acquired: a lower-case word, fit for a metric.
type AcquiredBy string

const (
	ByNesting AcquiredBy = "nesting" // the owner already held the lock
	ByJoining AcquiredBy = "joining" // the client held the lock for other readers
	ByHandoff AcquiredBy = "handoff" // another goroutine of the process handed it off
	ByRedis   AcquiredBy = "redis"   // Redis granted it to an attempt, since the lock was free
	ByQueue   AcquiredBy = "queue"   // Redis granted it to a waiter's ticket in the queue
	ByPass    AcquiredBy = "pass"    // another client has passed the lock on, and Resume took it
	ByParts   AcquiredBy = "parts"   // enough parts of a multi or red lock were acquired
)

// A LossReason is why a lock was lost: a lower-case word, fit for a metric.
type LossReason string

const (
	LostUnrenewed   LossReason = "unrenewed"     // the lease ended, and no renewal was confirmed
	LostLeaseEnded  LossReason = "lease_ended"   // the fixed lease ended before Unlock
	LostHeldTooLong LossReason = "held_too_long" // the time of WithMaxHold was over before Unlock
	LostKeyGone     LossReason = "key_gone"      // the key is gone, or another's, as Redis answers
	LostForced      LossReason = "forced"        // this client unlocked it by force, or a takeover
	LostParts       LossReason = "parts"         // too few parts of a multi or red lock are left
)
