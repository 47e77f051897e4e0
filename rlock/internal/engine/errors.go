package engine

import (
	"errors"
	"fmt"
)

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

// refusal is what a caller gets whose wait is over. The words are for a handle: nobody
// reads those of a TryLock, which may be called in a loop.
func (r *room) refusal(w *waiter) error {
	reason := ErrNotAcquired
	if r.tenure == nil && r.inFlight > 0 {
		reason = ErrUnanswered
	}
	if w.hold == nil {
		return reason
	}
	return r.withHolder(w, reason)
}

// withHolder adds who has the lock to an error, if that is known.
func (r *room) withHolder(w *waiter, err error) error {
	if holder := r.holder(w); holder != "" {
		return fmt.Errorf("%w: it is %s", err, holder)
	}
	return err
}

// holder says in whose hands the lock was when this client last heard of it, "" if it does
// not know.
func (r *room) holder(w *waiter) string {
	if r.tenure != nil {
		return "held by " + r.tenure.owner.words() + " of this process"
	}
	return r.client.HolderWords(w.holder)
}

// words names the owner as its code knows it.
func (o Owner) words() string {
	switch {
	case o.OfHandle():
		return "a Hold"
	case o.ID >= firstOwner:
		return "owner " + o.String()
	}
	return "goroutine " + o.String()
}
