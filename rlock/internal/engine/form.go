package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Form is what a lock is made of: one key ([Lock]), or several locks (package quorum).
// A request carries its owner: the caller has decided in whose name the lock is taken.
type Form interface {
	// Title returns the name that the lock was made with.
	Title() string
	// Take acquires the lock without a handle.
	Take(ctx context.Context, req Request) error
	// Hold acquires the lock with a handle, whose context is made from parent.
	Hold(ctx, parent context.Context, req Request) (Handle, error)
	// Unlock takes back one level of the owner that was taken without a handle.
	Unlock(ctx context.Context, o Owner) error
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	// Depth returns how often the owner has to unlock the lock.
	Depth(o Owner) int
	// Token returns the fencing token of what the owner holds.
	Token(o Owner) (uint64, error)

	// Beneath returns the locks of one key that it consists of.
	Beneath() []*Lock
	// Unusable returns why it can never be taken, nil if it can.
	Unusable() error
}

// A Handle is one level of a lock that was taken with a handle: of one key (hold), or of
// several locks (package quorum). All its methods may be called concurrently. It is given back
// by [Release], or as a part by [Drop].
type Handle interface {
	// Title returns the name of the lock.
	Title() string
	// Context returns the context that ends when the hold does.
	Context() context.Context
	// End ends the context; the second call changes nothing.
	End(cause error)
	// Merge returns a context that is made from ctx, and ends also when that of the hold does: before
	// End returns.
	Merge(ctx context.Context) context.Context
	// ValidUntil returns until when the lock is certainly held, the zero time if it is not.
	ValidUntil() time.Time
	// Cause returns why a hold that was not released is over, nil if it was released.
	Cause() error
	// FencingToken returns the token of the hold, 0 if it has none.
	FencingToken() uint64
	// Unlock gives the level back. It leaves the context alone.
	Unlock(ctx context.Context) error
	// Detach gives the handle up and leaves the lock to its lease.
	Detach(ctx context.Context) error
	// Relet has the hold ask for the lease from now on, 0 for the watchdog, in place of
	// what it asked for before. It needs no network, and changes nothing of a hold that
	// is over.
	Relet(lease time.Duration)

	// Join is called once the hold has joined the whole that it was taken for: from now on
	// the whole is told when it ends by loss.
	Join()
	// Drop is Unlock for a part whose whole was not acquired, or is lost. It waits for nothing,
	// and the next acquire of the part in this process waits for the release.
	Drop()
	// Disclaim releases a hold that is over already, and returns why it was.
	Disclaim() error
}

// A Whole is a hold of several locks, as its parts know it. The Observer, the log and the
// owner are told of the whole, and not of its parts.
type Whole interface {
	Title() string
	Kind() Kind
	// Place returns where it was acquired, nil if that is not recorded.
	Place() *Place
	// TellsLong reports whether it is yet to be told that the whole is held for a long
	// time, and is true once.
	TellsLong() bool
	// Ended takes a part away that was lost, after it has joined. It waits for nothing. The
	// second call for a part changes nothing.
	Ended(part Handle)
}

// A Base is what every Handle has: its context, and the whole that it was taken for.
type Base struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	Whole  Whole       // nil for none
	joined atomic.Bool // the handle is a part of the whole

	mu     sync.Mutex                        // protects following
	merged map[*context.CancelCauseFunc]bool // ends those contexts that Merge has made, and that have not ended
}

// Begin makes the context from parent.
func (b *Base) Begin(parent context.Context, whole Whole) {
	b.ctx, b.cancel = context.WithCancelCause(parent)
	b.Whole = whole
}

// Context implements [Handle], as the methods that follow.
func (b *Base) Context() context.Context { return b.ctx }

func (b *Base) End(cause error) {
	b.cancel(cause)
	b.mu.Lock()
	merged := b.merged
	b.merged = nil
	b.mu.Unlock()
	for end := range merged {
		(*end)(cause)
	}
}

func (b *Base) Merge(ctx context.Context) context.Context {
	merged, end := context.WithCancelCause(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		end(context.Cause(b.ctx))
		return merged
	}
	if b.merged == nil {
		b.merged = make(map[*context.CancelCauseFunc]bool)
	}
	b.merged[&end] = true
	// The context of the hold may end with its parent, and not by End.
	stop := context.AfterFunc(b.ctx, func() { end(context.Cause(b.ctx)) })
	context.AfterFunc(merged, func() {
		stop()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.merged, &end)
	})
	return merged
}

func (b *Base) Join() { b.joined.Store(true) }

// Joined reports whether the hold is a part of the whole that it was taken for.
func (b *Base) Joined() bool { return b.joined.Load() }

// Lose ends the context of the handle, which has ended without a release, and tells the whole.
func (b *Base) Lose(of Handle, cause error) {
	b.End(cause)
	if b.joined.Load() {
		b.Whole.Ended(of)
	}
}

// Valid reports whether the lock is held at this moment, by the clock.
func Valid(h Handle) bool { return !h.ValidUntil().IsZero() }

// WhyOver returns nil while the lock is held, [ErrNotHeld] after its release, and why it was
// lost after that.
func WhyOver(h Handle) error {
	if Valid(h) {
		return nil
	}
	if cause := h.Cause(); cause != nil {
		return cause
	}
	return errReleased(h)
}

// Release gives the hold back, and ends its context.
func Release(ctx context.Context, h Handle) error {
	released := errReleased(h)
	if Valid(h) {
		h.End(released) // before another can have it
	}
	err := h.Unlock(ctx)
	h.End(released)
	return err
}

// Drop is Release for a part whose whole was not acquired, or is lost. It waits for nothing.
func Drop(h Handle) {
	h.End(errReleased(h))
	h.Drop()
}

func errReleased(h Handle) error {
	return fmt.Errorf("rlock: lock %q: released: %w", h.Title(), ErrNotHeld)
}
