package client

import "github.com/go-rlock/rlock/rlock/internal/terms"

// These are package terms', by the names that it has here.

type (
	Owner       = terms.Owner
	Place       = terms.Place
	Kind        = terms.Kind
	Way         = terms.Way
	LossReason  = terms.LossReason
	Event       = terms.Event
	Hook        = terms.Hook
	Observer    = terms.Observer
	RenewedInfo = terms.RenewedInfo
)

const (
	KindPlain     = terms.KindPlain
	KindFenced    = terms.KindFenced
	KindFair      = terms.KindFair
	KindRead      = terms.KindRead
	KindWrite     = terms.KindWrite
	KindSemaphore = terms.KindSemaphore

	ByNesting = terms.ByNesting
	ByJoining = terms.ByJoining
	ByHandoff = terms.ByHandoff
	ByRedis   = terms.ByRedis
	ByQueue   = terms.ByQueue
	ByParts   = terms.ByParts
	ByLinger  = terms.ByLinger
	ByPass    = terms.ByPass

	LostUnrenewed  = terms.LostUnrenewed
	LostLeaseEnded = terms.LostLeaseEnded
	LostKeyGone    = terms.LostKeyGone
	LostForced     = terms.LostForced
	LostParts      = terms.LostParts

	Forever = terms.Forever
	Silence = terms.Silence
)

var (
	ErrNotHeld      = terms.ErrNotHeld
	ErrLost         = terms.ErrLost
	ErrNotAcquired  = terms.ErrNotAcquired
	ErrNoToken      = terms.ErrNoToken
	ErrDetach       = terms.ErrDetach
	ErrPass         = terms.ErrPass
	ErrPassed       = terms.ErrPassed
	ErrInvalidPass  = terms.ErrInvalidPass
	ErrNotPassed    = terms.ErrNotPassed
	ErrUpgrade      = terms.ErrUpgrade
	ErrFenced       = terms.ErrFenced
	ErrUnconfirmed  = terms.ErrUnconfirmed
	ErrInvalidLease = terms.ErrInvalidLease
	ErrUnanswered   = terms.ErrUnanswered
	ErrLeaseEnded   = terms.ErrLeaseEnded

	NoToken            = terms.NoToken
	NewOwner           = terms.NewOwner
	NewHandleOwner     = terms.NewHandleOwner
	GoroutineID        = terms.GoroutineID
	PrintedGoroutineID = terms.PrintedGoroutineID
	Caller             = terms.Caller
)
