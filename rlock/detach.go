package rlock

import "context"

// Detach gives up the handle and leaves the lock in Redis until the lease of the hold ends
// there by itself: nothing renews or releases it, not even [Client.Close]. A job that is to
// run once per tick detaches the lock of the tick, so that a replica that is late is refused
// although the job is done and its process may have ended.
//
// Only a hold with a lease of its own ([WithLease]) that is the only level of its lock can
// be detached. Detach returns [ErrDetach] for a hold that the watchdog keeps, for one that is
// nested, has others nested in it or reads beside others, and for one of a lock over several;
// then nothing has changed. It returns [ErrNotHeld] or [ErrLost] if the hold is over.
//
// Redis may have been told of another lease yet, if the lock was handed off inside the
// process or granted out of the queue. Detach waits until Redis has confirmed the one that
// was asked for, or ctx ends; after ctx's error the lock is held as before.
//
// Afterwards the hold is released for this process: its context ends with cause
// [ErrNotHeld], Release returns that, and a Lock waits for the end of the lease, by whatever
// owner. [Lock.ForceUnlock] frees the lock before.
func (h *Hold) Detach(ctx context.Context) error {
	return h.held.Detach(ctx)
}
