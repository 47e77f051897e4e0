package rlock

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Hold is a handle to one level of a lock that is held. Its methods may be called by any
// goroutine, and concurrently. The methods of a Hold that is not from [Lock.Acquire] or
// [Client.Resume] panic.
type Hold struct {
	*holding
	cleanup runtime.Cleanup // notes that the program has dropped the handle
}

// A holding is a hold without its handle. It does not refer to the Hold, so that the garbage
// collector finds a Hold that the program has dropped.
type holding struct {
	held   driver.Handle
	scoped heldContext // the parent of the context of held, with the owner
}

// handle returns the handle for a program, which may drop it.
func (h *holding) handle() *Hold {
	handle := &Hold{holding: h}
	handle.cleanup = runtime.AddCleanup(handle, (*contract.Life).Drop, h.scoped.scope.life)
	return handle
}

// An AcquireOption changes one acquire; nil changes nothing. Some exclude each other, or a kind:
//
//	WithMaxHold   and WithLease, or a longer WithMinHold: ErrInvalidLease
//	WithPermits   of several permits, and a kind that is no semaphore: errors.ErrUnsupported
//	all but WithLease, WithNote and WithWait, and a lock over several: errors.ErrUnsupported
type AcquireOption func(*acquireOptions)

type acquireOptions = contract.AcquireOptions

// WithLease takes the lock for a fixed time, like [Lock.LockFor]; 0, the default, means the
// watchdog.
func WithLease(lease time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Lease = lease }
}

// WithMaxHold limits how long the lock is held, for work that may hang: [Hold.Extend] moves the
// end. At the end the lock is lost: the hold's context ends with cause [ErrHeldTooLong], then the
// lock is released. The first level of an owner to end ends all.
func WithMaxHold(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.MaxHold = d }
}

// WithMinHold keeps the lock until d has passed since it was acquired, also after a release: so a
// short job does not run again in a process whose clock runs behind. The lock ends sooner if its
// release is [ErrUnconfirmed], or if it is lost, or passed on or closed in place of the release.
func WithMinHold(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.MinHold = max(d, 0) }
}

// WithTakeover puts the call before all that wait. Holders in its way have the grace left; then
// their holds end with cause [ErrTakenOver], and the call has the lock: see docs/guarantees.md.
func WithTakeover(grace time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Takeover = max(grace, 1) }
}

// WithWait limits how long Acquire or Do waits. If other owners hold the lock until then, or come
// first, the call returns [ErrNotAcquired]. A wait of 0 or less is one attempt, which returns any
// fault at once. An attempt in flight ends with its answer, or after some 4 s if the server is
// silent; to leave earlier, end the context. By default a call waits until its context ends.
func WithWait(wait time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Wait = max(wait, 0) }
}

// WithPermits takes k permits of a semaphore at once: all of them or none. The last level of their
// owner gives all back. A nested call takes none, and returns [ErrUpgrade] if the owner has fewer
// than k. A k below 1, or above the semaphore's number, is [ErrPermits].
func WithPermits(k int) AcquireOption {
	return func(o *acquireOptions) { o.More = max(k, 0) - 1 }
}

// WithNote shows in Redis, beside the holder, when the hold began and a text: which job, which
// release. The text, cut off behind 1 KiB, may be "". Others see it in package inspect, "rlock show"
// and the errors of refused calls, also while the call waits, and never after the hold. The note of
// a hold never changes: a nested call has none.
func WithNote(text string) AcquireOption {
	text = wire.Short(text, wire.MaxNote)
	return func(o *acquireOptions) { o.Note = &text }
}

// WithLine gives tenants turns at a fair lock or a semaphore (else errors.ErrUnsupported): each text,
// cut off behind 64 bytes, is a line of calls, and each line has its turn. A call without a line
// joins behind all.
func WithLine(tenant string) AcquireOption {
	tenant = wire.Short(tenant, wire.MaxLine)
	return func(o *acquireOptions) { o.Line = tenant }
}

// WithMaxWaiters makes a call that has to wait return [ErrTooManyWaiters] at once if n callers wait
// already; with 0 or less it never waits. Redis counts places in the queue. A caller with this
// option has a place of its own, as has each caller of a fair lock or a semaphore. The other
// callers of a process share one place, and only their own process counts them one by one.
func WithMaxWaiters(n int) AcquireOption {
	return func(o *acquireOptions) {
		if o.MaxWaiters = int32(min(n, math.MaxInt32)); n <= 0 {
			o.MaxWaiters = -1
		}
	}
}

// WithProgress calls f, in a goroutine of its own, with the caller's place, from 1, among the
// waiters, counted as by WithMaxWaiters, at least every two seconds, without more commands. The
// call returns after f has, even if its context ends before; if f panics, so does the caller, with
// f's stack, and holds nothing. A call granted the lock while f runs loses it after a second, and
// waits again.
func WithProgress(f func(place, waiting int)) AcquireOption {
	return func(o *acquireOptions) { o.Progress = f }
}

// newRequest returns the request of a caller that waits without end unless an option limits the
// wait. Its owner is not set.
func newRequest(options []AcquireOption) driver.Request {
	with := acquireOptions{Wait: contract.Forever}
	for _, option := range options {
		if option != nil {
			option(&with)
		}
	}
	req := driver.Request{AcquireOptions: with, Caller: contract.Caller()}
	if a := req.Answer; a != nil {
		*a = contract.Answer{Unless: a.Unless, Keys: a.Keys, Args: a.Args}
		if a.Unless != "" {
			req.Unless = &wire.Condition{Source: a.Unless, Keys: slices.Clone(a.Keys), Args: slices.Clone(a.Args)}
		}
	}
	return req
}

// acquire acquires the lock with a handle, whose context is made from parent. If ctx has no owner,
// of decides whether the owner is the goroutine, or a new one.
func acquire(ctx, parent context.Context, l *Lock, of fallback, options []AcquireOption) (*holding, error) {
	req := newRequest(options)
	for s := scopeOf(ctx).about(l); ; s = s.outer.about(l) {
		began := s.setOwner(&req, of)
		h := newHold(parent, l, &req)
		held, err := l.form().Hold(ctx, &h.scoped, req)
		if err == nil {
			h.held = held
			return h, nil
		}
		if !noteOutlived(err, &req, began) {
			return nil, err
		}
	}
}

// newHold returns a hold that has no handle yet, and whose context is to be made from parent.
func newHold(parent context.Context, l *Lock, req *driver.Request) *holding {
	life := new(contract.Life)
	req.Life = life
	h := &holding{scoped: heldContext{parent, scope{owner: req.Owner, of: l, outer: scopeOf(parent), life: life}}}
	h.scoped.scope.hold = h
	return h
}

// Context returns a context that ends when the lock is released or lost; [context.Cause] is then
// [ErrNotHeld], [ErrLost] with the reason, or [ErrClosed]. It ends before Redis can grant the lock
// to another client, unless the lock is freed by force or Redis loses it. It has the values of
// Acquire's context, but not its end. A call for the same lock with a context made from it nests in
// this hold while it is held, from any goroutine: see [Lock.Do].
func (h *Hold) Context() context.Context { return h.held.Context() }

// Valid reports whether the lock is held at this moment, by the clock, without asking Redis. Call
// it before a step that must not be done twice: on an overloaded machine the context may end a
// little later.
func (h *Hold) Valid() bool { return driver.Valid(h.held) }

// ValidUntil returns the time until which Redis has confirmed the hold so far, or the zero time if
// the lock is not held. Each renewal moves it.
func (h *Hold) ValidUntil() time.Time { return h.held.ValidUntil() }

// Wanted returns a channel that is closed, for good, once another owner waits while the hold lasts.
// From the first call on, the hold asks Redis: see docs/guarantees.md.
func (h *Hold) Wanted() <-chan struct{} { return h.held.Wanted() }

// Wanted is [Hold.Wanted] of the hold that ctx comes from, as in Do; nil if there is none.
func Wanted(ctx context.Context) <-chan struct{} {
	s := scopeOf(ctx)
	if s == nil || s.hold == nil {
		return nil
	}
	return s.hold.held.Wanted()
}

// Token returns the fencing token of the hold, at least 1, to be given to the resource with each
// write; see [Client.NewFencedLock]. It stays the same after the hold ends. The only error is
// [ErrNoToken], for a lock that is not fenced.
func (h *Hold) Token() (uint64, error) {
	token := h.held.FencingToken()
	if token == 0 {
		return 0, contract.NoToken(h.scoped.scope.of.form().Title())
	}
	return token, nil
}

// Release releases the hold. Like [Lock.Unlock] it returns [ErrLost] or [ErrUnconfirmed], and
// completes even if ctx has ended. Further calls return [ErrNotHeld] and change nothing.
func (h *Hold) Release(ctx context.Context) error {
	err := h.held.Release(ctx)
	h.cleanup.Stop()
	return err
}

// Extend moves the end of a hold with [WithMaxHold] or [WithLease] to d from now, sooner or later
// than it was. A maximum needs no command. A lease needs one; if ctx ends before its answer, the
// lease may be extended or not. A lease that was shortened is renewed, and believed for its
// shortest time, from then on. The error is [ErrInvalidLease] if the hold has no end, or d is too
// short.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error { return h.held.Extend(ctx, d) }

// run calls fn with the lock held, and releases it also if fn fails or panics.
func (h *holding) run(fn func(ctx context.Context) error) (err error) {
	ctx := h.held.Context()
	defer func() {
		if failed := h.held.Release(ctx); failed != nil && !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
	}()
	return fn(ctx)
}
