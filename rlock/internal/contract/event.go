package contract

import (
	"context"
	"errors"
	"time"
)

// An Observer is told of the events of each lock: package rlock has their order, and what each
// event means. A hook with a caller runs in the caller's goroutine and with its context. Lost and
// Renewed run in a goroutine of the client, unless an Unlock finds that its lock is gone. A hook
// may be nil.
type Observer struct {
	Waiting  Hook
	Acquired Hook
	Answered Hook
	GaveUp   Hook
	Released Hook
	Lost     Hook
	Renewed  func(RenewedInfo)
	Missed   func(n int) // gets the number of calls of Lost and Renewed dropped since its last call
	Closed   func()
}

// A Hook is told of an event.
type Hook func(context.Context, Event)

// Tell calls the hook, if there is one.
func (h Hook) Tell(ctx context.Context, e Event) {
	if h != nil {
		h(ctx, e)
	}
}

// An Event is an event of a lock, with the fields that its hook needs.
type Event struct {
	Name  string
	Kind  Kind
	Owner Owner // the owner that takes the lock

	Way       Way           // Acquired, Released, Lost: how the lock was acquired
	Waited    time.Duration // Acquired, Answered, GaveUp
	Contended bool          // Acquired, Answered, GaveUp: Waiting was called
	Held      time.Duration // Released, Lost: the time since Acquired
	Err       error         // GaveUp, Released, Lost
	Passed    bool          // Released: the lock is passed on
	Reason    LossReason    // Lost
}

// A RenewedInfo is about a batch of renewals.
type RenewedInfo struct {
	Locks, Failed int
	Took          time.Duration
	Kept          int // the number of Locks whose whole lease the watchdog renews
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
	ByPass

	WayCount = iota // the number of ways
)

// A LossReason is why a lock was lost.
type LossReason uint8

// The reasons.
const (
	LostUnrenewed LossReason = iota
	LostLeaseEnded
	LostHeldTooLong
	LostKeyGone
	LostForced
	LostParts

	LossReasonCount = iota // the number of reasons
)

// TellReleased calls the hook for an Unlock: Lost with the reason lost if the Unlock has found that
// the lock was lost, else Released.
func (o *Observer) TellReleased(ctx context.Context, e Event, lost LossReason) {
	if errors.Is(e.Err, ErrLost) {
		e.Reason = lost
		o.Lost.Tell(ctx, e)
	} else {
		o.Released.Tell(ctx, e)
	}
}
