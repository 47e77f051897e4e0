package contract

import (
	"errors"
	"fmt"
)

// The errors of a caller that holds or wants a lock. Package rlock exports them and says what each
// means for a caller.
var (
	ErrNotHeld      = errors.New("lock is not held by the caller")
	ErrLost         = errors.New("lock was lost")
	ErrHeldTooLong  = errors.New("it was held for as long as its holder may")
	ErrTakenOver    = errors.New("another owner has taken it over")
	ErrNotAcquired  = errors.New("lock is held by another owner")
	ErrNoToken      = errors.New("the lock has no fencing tokens")
	ErrPass         = errors.New("the hold cannot be passed on")
	ErrInvalidPass  = errors.New("invalid pass")
	ErrNotPassed    = errors.New("the lock is not passed on any more: it was resumed, its time is over, or it was freed")
	ErrUpgrade      = errors.New("the caller has less of the lock than it asks for")
	ErrFenced       = errors.New("not executed, since the hold does not have the lock")
	ErrAnswered     = errors.New("answered in place of the lock")
	ErrUnconfirmed  = errors.New("not confirmed by Redis")
	ErrInvalidLease = errors.New("invalid lease")
	ErrPermits      = errors.New("invalid number of permits")
)

// ErrTooManyWaiters is the ErrNotAcquired of a call that does not wait, because as many callers
// wait already as its bound allows.
var ErrTooManyWaiters = fmt.Errorf("%w, and too many callers wait for it", ErrNotAcquired)

// ErrUnanswered is the error of a call whose time is up while no owner is known to have the lock:
// the command of another call, or the release of the last owner, has no answer.
var ErrUnanswered = errors.New("no answer of Redis says yet whether the lock is free")

// ErrLeaseEnded is the cause of a loss that the caller has asked for by a fixed lease.
var ErrLeaseEnded = errors.New("its lease ended")

// ErrPassed is ErrNotHeld after Pass.
var ErrPassed = fmt.Errorf("%w: it was passed on", ErrNotHeld)

// NoToken is the error of a lock that has no tokens.
func NoToken(name string) error {
	return fmt.Errorf("rlock: lock %q: %w: use Client.NewFencedLock", name, ErrNoToken)
}

// Released returns the cause with which the context of a hold ends when it is released.
func Released(name string) error { return fmt.Errorf("rlock: lock %q: released: %w", name, ErrNotHeld) }
