package engine

import "errors"

// The errors of a caller that holds or wants a lock. Package rlock exports them, and says
// there what each means for a caller.
var (
	ErrNotHeld      = errors.New("lock is not held by the caller")
	ErrLost         = errors.New("lock was lost")
	ErrNotAcquired  = errors.New("lock is held by another owner")
	ErrNoToken      = errors.New("the lock has no fencing tokens")
	ErrDetach       = errors.New("the hold cannot be detached")
	ErrUpgrade      = errors.New("a reader cannot become a writer")
	ErrUnconfirmed  = errors.New("release was not confirmed by Redis")
	ErrInvalidLease = errors.New("invalid lease")
)
