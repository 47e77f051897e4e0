package rlock

import (
	"context"
	"time"
)

// An Observer has hooks for the events of a client's locks: set it in [Config.Observer]. Each
// hook may be nil, later versions may add hooks, and one Observer may serve several clients. It
// must not be changed once a client has it. Package rlockotel makes one for OpenTelemetry.
//
//	Waiting? --+--> Acquired --+--> Released
//	           |               +--> Lost
//	           +--> GaveUp
//
// A call that takes a lock ends with Acquired or GaveUp, and each Acquired is followed by
// Released or Lost. If several levels of one owner are lost together, Lost is called for the
// first alone.
//
// A hook with a caller runs in the caller's goroutine and with the caller's context. No mutex
// is held: a slow hook delays its caller only. It may call the client, but not runtime.Goexit.
// The context of Released may have ended. Lost and Renewed run in a goroutine of the client, one
// after the other; while 4000 events wait for a slow hook, more are dropped and counted for
// Missed. [Client.Close] waits for these hooks, for a second at most. After a panic of a hook the
// client goes on; the first of each hook is logged.
//
// A multi-lock or a red lock is observed as one lock, by the Observer of the client of its
// first part. Its parts are counted by [Client.Stats], and the loss of each is logged.
type Observer struct {
	// Opened is called by New, when the client is ready and before it is returned.
	Opened func(*Client)

	// Waiting is called once a call has to wait: the lock has a holder, other calls come first,
	// or Redis does not answer. For a lock over several it is called at the start of the call.
	Waiting func(context.Context, WaitingInfo)

	// Acquired is called when a call has the lock, before it returns.
	Acquired func(context.Context, AcquiredInfo)

	// GaveUp is called when a call fails, before it returns the error, and when it returns
	// false without an error.
	GaveUp func(context.Context, GaveUpInfo)

	// Released is called when Unlock, Release, Detach or Do has given up a level of the lock,
	// before it returns. Close calls it for the levels that it releases, with an error that is
	// [ErrClosed].
	Released func(context.Context, ReleasedInfo)

	// Lost is called when a lock was lost. Its context has the values of the handle's. If an
	// Unlock finds that its lock is gone, it calls Lost in its goroutine and with its context.
	Lost func(context.Context, LostInfo)

	// Renewed is called after each batch of renewals.
	Renewed func(RenewedInfo)

	// Missed is told how many calls of Lost and Renewed were dropped since its last call.
	Missed func(n int)

	// Closed is called once the first Close of the client has released all.
	Closed func(*Client)
}

// A LockInfo identifies the lock and the owner of an event.
type LockInfo struct {
	Client *Client
	Name   string
	Kind   Kind
	Owner  Owner
}

// A WaitingInfo is the argument of [Observer].Waiting.
type WaitingInfo struct {
	LockInfo
}

// An AcquiredInfo is the argument of [Observer].Acquired.
type AcquiredInfo struct {
	LockInfo
	AcquiredBy AcquiredBy
	// Waited is the time since the call began. It includes the round trips to Redis, and
	// is 0 for a nested lock.
	Waited time.Duration
	// Contended says that Waiting was called for this call.
	Contended bool
}

// A GaveUpInfo is the argument of [Observer].GaveUp.
type GaveUpInfo struct {
	LockInfo
	// Err is the reason: [ErrNotAcquired], the context's error, or a fault.
	Err error
	// Waited is the time since the call began.
	Waited time.Duration
	// Contended says that Waiting was called for this call.
	Contended bool
}

// A ReleasedInfo is the argument of [Observer].Released.
type ReleasedInfo struct {
	LockInfo
	// AcquiredBy is how the level was acquired; of the levels of one owner it is ByNesting for all but
	// the last to be released. Of a lock over several it is that of Acquired.
	AcquiredBy AcquiredBy
	// Held is the time from Acquired to the call that gives the level up.
	Held time.Duration
	// Err is nil if the release is confirmed, or needs no confirmation since the owner has
	// more levels or the lock was handed off. [ErrUnconfirmed] says that Redis did not
	// answer, [ErrClosed] that Close has released the lock.
	Err error
	// Detached says that the handle was given up by [Hold.Detach]: the lock is left to its
	// lease.
	Detached bool
}

// A LostInfo is the argument of [Observer].Lost.
type LostInfo struct {
	LockInfo
	// AcquiredBy is how the lock was acquired.
	AcquiredBy AcquiredBy
	// Held is the time from Acquired to the loss.
	Held   time.Duration
	Reason LossReason
	// Err is an [ErrLost] that says more.
	Err error
}

// A RenewedInfo is about one batch of renewals, and changes of depth or owner, to one server.
type RenewedInfo struct {
	Client *Client
	// Locks is how many locks were to be renewed, and Failed for how many of them the
	// answer was no or was missing.
	Locks, Failed int
	// Took is the time from before the batch was sent to the last answer.
	Took time.Duration
	// Kept is how many of them the watchdog has kept for a while.
	Kept int
	// Margin is the shortest validity left among Kept when the answers were in: usually two
	// thirds of Lease. Near zero is an early warning of losses. It is Lease if Kept is 0.
	Margin time.Duration
	// Lease is that of the client's Config.
	Lease time.Duration
	// Err is an error of one of those that failed, nil if there was none.
	Err error
}

// AcquiredBy is how a lock was acquired: a word in lower case, fit for a label of a metric.
type AcquiredBy string

const (
	ByNesting AcquiredBy = "nesting" // the owner held the lock already
	ByJoining AcquiredBy = "joining" // the client held the lock for other readers
	ByHandoff AcquiredBy = "handoff" // another goroutine of the process passed it on, without Redis
	ByLinger  AcquiredBy = "linger"  // this client still had the lock: see [Config].Linger
	ByRedis   AcquiredBy = "redis"   // Redis granted it to an attempt, since it was free
	ByQueue   AcquiredBy = "queue"   // Redis granted it to a waiter's ticket in the queue
	ByParts   AcquiredBy = "parts"   // enough of the locks that it is made of were acquired
)

// A LossReason is why a lock was lost: a word in lower case, fit for a label of a metric.
type LossReason string

const (
	LostUnrenewed  LossReason = "unrenewed"   // its lease ended, since Redis did not confirm a renewal in time
	LostLeaseEnded LossReason = "lease_ended" // the fixed lease that its owner had asked for ended before Unlock
	LostKeyGone    LossReason = "key_gone"    // Redis says that the lock's key is gone, or another's
	LostForced     LossReason = "forced"      // this client unlocked it by force; by another it is LostKeyGone
	LostParts      LossReason = "parts"       // too few of the locks that it is made of are left
)
