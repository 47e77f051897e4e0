package engine

import "fmt"

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
		return "held by " + r.tenure.owner.Words() + " of this process"
	}
	return r.client.HolderWords(w.holder)
}
