package rlock

import (
	"context"
	"fmt"
	"time"
)

// A form is what a lock is made of: one key (single), or several locks (compound).
// A request carries its owner: the caller has decided in whose name the lock is taken.
type form interface {
	// title returns the name that the lock was made with.
	title() string
	// take acquires the lock without a handle.
	take(ctx context.Context, req request) error
	// hold acquires the lock with a handle, whose context is made from parent.
	hold(ctx, parent context.Context, req request) (handle, error)
	// unlock takes back one level of the owner that was taken without a handle.
	unlock(ctx context.Context, o Owner) error
	forceUnlock(ctx context.Context) (bool, error)
	isLocked(ctx context.Context) (bool, error)
	ttl(ctx context.Context) (time.Duration, error)
	// depth returns how often the owner has to unlock the lock.
	depth(o Owner) int
	// token returns the fencing token of what the owner holds.
	token(o Owner) (uint64, error)

	// beneath returns the locks of one key that it consists of.
	beneath() []*single
	// unusable returns why it can never be taken, nil if it can.
	unusable() error
}

// A handle is one level of a lock that was taken with a handle: of one key (hold), or of
// several locks (compoundHold). All its methods may be called concurrently. It is given back
// by release.
type handle interface {
	// title returns the name of the lock.
	title() string
	// context returns the context that ends when the hold does.
	context() context.Context
	// end ends the context; the second call changes nothing.
	end(cause error)
	// validUntil returns until when the lock is certainly held, the zero time if it is not.
	validUntil() time.Time
	// cause returns why a hold that was not released is over, nil if it was released.
	cause() error
	// fencingToken returns the token of the hold, 0 if it has none.
	fencingToken() uint64
	// unlock gives the level back. It leaves the context alone.
	unlock(ctx context.Context) error
	// detach gives the handle up and leaves the lock to its lease.
	detach(ctx context.Context) error
	// relet has the hold ask for the lease from now on, 0 for the watchdog, in place of
	// what it asked for before. It needs no network, and changes nothing of a hold that
	// is over.
	relet(lease time.Duration)

	// join is called once the hold has joined the whole that it was taken for: from now on
	// the whole is told when it ends by loss.
	join()
	// disclaim releases a hold that is over already, and returns why it was.
	disclaim() error
}

// A whole is a hold of several locks, as its parts know it. The Observer, the log and the
// owner are told of the whole, and not of its parts.
type whole interface {
	title() string
	kind() Kind
	// place returns where it was acquired, nil if that is not recorded.
	place() *Place
	// tellsLong reports whether it is yet to be told that the whole is held for a long
	// time, and is true once.
	tellsLong() bool
	// ended takes a part away that was lost, after it has joined. It waits for nothing. The
	// second call for a part changes nothing.
	ended(part handle)
}

// valid reports whether the lock is held at this moment, by the clock.
func valid(h handle) bool { return !h.validUntil().IsZero() }

// whyOver returns nil while the lock is held, [ErrNotHeld] after its release, and why it was
// lost after that.
func whyOver(h handle) error {
	if valid(h) {
		return nil
	}
	if cause := h.cause(); cause != nil {
		return cause
	}
	return errReleased(h)
}

// release gives the hold back, and ends its context.
func release(ctx context.Context, h handle) error {
	released := errReleased(h)
	if valid(h) {
		h.end(released) // before another can have it
	}
	err := h.unlock(ctx)
	h.end(released)
	return err
}

func errReleased(h handle) error {
	return fmt.Errorf("rlock: lock %q: released: %w", h.title(), ErrNotHeld)
}
