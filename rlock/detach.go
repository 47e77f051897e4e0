package rlock

import "context"

// Detach gives up the handle and leaves the lock in Redis until the lease of the hold ends
// there by itself: nothing renews or releases it, not even [Client.Close]. A job that is to
// run once per tick detaches the lock of the tick: a replica that is late does not acquire it,
// although the job is done and its process may have ended.
//
// Only a hold with a lease of its own ([WithLease]) that is the only level of its lock can
// be detached. Detach returns [ErrDetach] for a hold that the watchdog keeps, for one that is
// nested, has others nested in it or reads beside others, and for one of a lock over several;
// then nothing has changed. It returns [ErrNotHeld] or [ErrLost] if the hold is over.
//
// If the lock was handed off inside the process, or granted out of the queue, Redis may not
// have the lease of the hold yet. Detach then waits until Redis has confirmed it, or ctx
// ends; after ctx's error the lock is held as before.
//
// After Detach the hold is released as far as this process is concerned: its context ends
// with cause [ErrNotHeld], and Release returns ErrNotHeld. Every owner that locks the lock,
// the former one included, waits until the lease ends or [Lock.ForceUnlock] frees the lock.
func (h *Hold) Detach(ctx context.Context) error {
	return h.held.Detach(ctx)
}
