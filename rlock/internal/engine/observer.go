package engine

import (
	"context"
	"time"
)

// An Observer is told what happens to each lock: package rlock says what follows what, and
// what each event means. A hook with a caller runs in the caller's goroutine and with its
// context. Lost and Renewed run in a goroutine of the client, unless an Unlock finds that
// its lock is gone; these two are nil if nobody wants to know.
type Observer struct {
	Waiting  func(context.Context, LockInfo)
	Acquired func(context.Context, Event)
	GaveUp   func(context.Context, Event)
	Released func(context.Context, Event)
	Lost     func(context.Context, Event)
	Renewed  func(RenewedInfo)
	Missed   func(n int) // calls of Lost and Renewed, since the last call
	Closed   func()
}

// A LockInfo says which lock an event is about, and in whose name it is taken.
type LockInfo struct {
	Name  string
	Kind  Kind
	Owner Owner
}

// An Event is what has happened to a lock, with the fields that its hook needs.
type Event struct {
	LockInfo
	Way       Way           // how the lock was acquired; not of GaveUp
	Waited    time.Duration // Acquired, GaveUp
	Contended bool          // Acquired, GaveUp: Waiting was called
	Held      time.Duration // Released, Lost: since Acquired
	Err       error         // GaveUp, Released, Lost
	Detached  bool          // Released: it is left to its lease
	Reason    LossReason    // Lost
}

// A RenewedInfo is about a batch of renewals.
type RenewedInfo struct {
	Locks, Failed int
	Took          time.Duration
	Kept          int // of Locks, by the watchdog
	Margin        time.Duration
	Lease         time.Duration
	Err           error
}

// A Way is how a lock was acquired.
type Way uint8

// The ways.
const (
	ByNesting Way = iota
	ByJoining
	ByHandoff
	ByRedis
	ByQueue
	ByParts
	ByLinger

	wayCount = iota
)

// A LossReason is why a lock was lost.
type LossReason uint8

// The reasons.
const (
	LostUnrenewed LossReason = iota
	LostLeaseEnded
	LostKeyGone
	LostForced
	LostParts

	lossReasonCount = iota
)
