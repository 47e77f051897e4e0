package rlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Hold is one level of a lock, as a handle. Any goroutine that has the handle may
// release it. All its methods may be called concurrently.
type Hold struct {
	client *Client
	name   *name
	owner  Owner
	shared bool            // a read lock's
	ctx    context.Context // &scoped
	scoped heldContext
	cancel context.CancelCauseFunc
	token  uint64 // set when the lock was granted, and never changed; 0: it has none

	parts  *parts                // of a lock over several, which has no tenure of its own
	part   bool                  // it is a part of such a hold, which tells of its loss
	partOf atomic.Pointer[parts] // once it has joined it

	// The mutex of the name's shard protects following.

	tenure   *tenure // set when the lock was granted
	released bool
	lost     error // why it is over without a Release, nil if it is not
}

// An AcquireOption changes one acquire.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	lease time.Duration
	wait  time.Duration
	part  bool
	quit  <-chan struct{}
}

// WithLease takes the lock for a fixed time instead of having the watchdog keep
// it, as [Lock.LockFor] does. 0 means the watchdog.
func WithLease(lease time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.lease = lease }
}

// WithWait limits the time that Acquire or TryAcquire waits for the lock; when it is
// up the call returns [ErrNotAcquired]. A wait of 0 or less is one attempt. Without
// this option Acquire waits until its context ends, and TryAcquire makes one attempt.
func WithWait(wait time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.wait = max(wait, 0) }
}

// newRequest returns what a caller wants who waits without end unless an option says
// otherwise.
func newRequest(o Owner, options []AcquireOption) request {
	with := acquireOptions{wait: forever}
	for _, option := range options {
		option(&with)
	}
	return request{owner: o, lease: with.lease, wait: with.wait, part: with.part, quit: with.quit}
}

// Context returns a context that ends when the lock is released or lost;
// [context.Cause] is then [ErrNotHeld] or [ErrLost]. It ends before Redis can
// grant the lock to another client. From Acquire it carries the values of
// Acquire's context, but not its end: the time to wait for a lock is not the
// time to hold it.
//
// It carries the hold: the same lock, locked with it or with a context made from it, nests
// in this hold, from any goroutine. Other locks are not affected.
func (h *Hold) Context() context.Context { return h.ctx }

// Done is Context().Done().
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err returns nil while the lock is held, [ErrNotHeld] after Release, and why it
// was lost, [ErrLost], after that.
func (h *Hold) Err() error {
	if h.Valid() {
		return nil
	}
	if cause := h.cause(); cause != nil {
		return cause
	}
	return fmt.Errorf("rlock: lock %q: released: %w", h.name.Key, ErrNotHeld)
}

// Valid reports whether the lock is held at this moment, by the clock, without
// asking Redis: ask it before what must not be done twice. The context may end
// a little later where the machine is overloaded or was stopped; the clock does
// not.
func (h *Hold) Valid() bool { return !h.ValidUntil().IsZero() }

// ValidUntil returns until when the lock is certainly held, as far as Redis has
// confirmed it by now; the watchdog moves it on. It is the zero time if the lock
// is not held.
func (h *Hold) ValidUntil() time.Time {
	if h.parts != nil {
		return h.parts.validUntil()
	}
	if r := h.enter(); r != nil {
		defer r.exit()
		return h.tenure.validUntilFor(h.owner)
	}
	return time.Time{}
}

// enter enters the room if the hold is valid.
func (h *Hold) enter() *room {
	r := h.client.enterIfAny(h.name)
	if r == nil {
		return nil
	}
	if t := r.current(time.Now()); t == nil || t != h.tenure || h.released || h.lost != nil {
		r.exit()
		return nil
	}
	return r
}

// Token returns the fencing token of the hold, which is at least 1, to be given to
// the resource with each write; see [Client.NewFencedLock]. It stays the same
// after the hold is released or lost, so that the resource can refuse it. Only a fenced
// lock has tokens: for a hold of any other Token returns [ErrNoToken], and no other error.
func (h *Hold) Token() (uint64, error) {
	if h.token == 0 {
		return 0, errNoToken(h.name.Key)
	}
	return h.token, nil
}

// Owner returns in whose name the lock is held.
func (h *Hold) Owner() Owner { return h.owner }

// Release gives the level back, as [Lock.Unlock] does, with the same errors and
// the same disregard for the end of ctx. After the first call it returns
// [ErrNotHeld] and changes nothing.
func (h *Hold) Release(ctx context.Context) error {
	released := fmt.Errorf("rlock: lock %q: released: %w", h.name.Key, ErrNotHeld)
	if h.Valid() {
		h.cancel(released) // before another can have it
	}
	err := h.release(ctx)
	h.cancel(released)
	return err
}

func (h *Hold) release(ctx context.Context) error {
	if h.parts != nil {
		return h.parts.release(ctx)
	}
	return h.client.unlock(ctx, h.name, h.owner, h.shared, h)
}

// run calls fn with the lock held, and releases it whatever becomes of fn.
func (h *Hold) run(fn func(ctx context.Context) error) (err error) {
	defer func() {
		if failed := h.Release(h.ctx); failed != nil && !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
	}()
	return fn(h.ctx)
}

// cause returns why a hold that was not released is over, nil if it was released.
func (h *Hold) cause() error {
	if h.parts != nil {
		return h.parts.why()
	}
	s := h.name.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.released {
		return nil
	}
	return h.lost
}

// giveBack releases a hold that is over already, and returns why it was; nil if
// it had been released before.
func (h *Hold) giveBack() error {
	s := h.name.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.released {
		return nil
	}
	h.released = true
	return h.lost
}
