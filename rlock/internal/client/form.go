package client

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A Form is a lock of one key.
// A request carries its owner: the caller has decided in whose name the lock is taken.
type Form interface {
	// Title returns the name that the lock was made with.
	Title() string
	// Take acquires the lock without a handle.
	Take(ctx context.Context, req Request) error
	// Hold acquires the lock with a handle, whose context is made from parent.
	Hold(ctx, parent context.Context, req Request) (Handle, error)
	// Unlock takes back one level of the owner that was taken without a handle.
	Unlock(ctx context.Context, o terms.Owner) error
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	// Depth returns how often the owner has to unlock the lock.
	Depth(o terms.Owner) int
	// State returns what the client knows of the lock without asking Redis.
	State(o terms.Owner) terms.State
	// Token returns the fencing token of what the owner holds.
	Token(o terms.Owner) (uint64, error)
	// Base returns the client and the name of the lock.
	Base() *Lock
}

// A Handle is one level of a lock that was taken with a handle. All its methods may be called concurrently.
type Handle interface {
	// Context returns the context that ends when the hold does.
	Context() context.Context
	// Merge returns a context that is made from ctx, and ends also when that of the hold does: before
	// that ends.
	Merge(ctx context.Context) context.Context
	// ValidUntil returns until when the lock is certainly held, the zero time if it is not.
	ValidUntil() time.Time
	// Err returns nil while the lock is held, [ErrNotHeld] after its release, and why it was lost after that.
	Err() error
	// FencingToken returns the token of the hold, 0 if it has none.
	FencingToken() uint64
	// SetLease sets the lease that the hold asks for from now on, 0 for the watchdog, in place of
	// what it asked for before. It needs no network, and changes nothing of a hold that
	// is over.
	SetLease(lease time.Duration)
	// Write executes the source of a script in Redis if the hold has the lock, in one step.
	Write(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error)
	// Detach gives the handle up and leaves the lock to its lease.
	Detach(ctx context.Context) error
	// Pass gives the handle up and passes the lock on, to the client that presents the text.
	Pass(ctx context.Context, within time.Duration) (string, error)
	// Release gives the hold back, and ends its context.
	Release(ctx context.Context) error
	// ReleaseLater is Release that waits for nothing. The next acquire of the lock in this process waits
	// for the release.
	ReleaseLater()
}

// A Base is what every Handle has: its context, and the whole that it was taken for.
type Base struct {
	terms.HoldContext
	Whole *terms.Whole // nil for none
	lost  func(cause error)
}

// Begin makes the context from parent.
func (b *Base) Begin(parent context.Context, req *Request) {
	b.HoldContext.Begin(parent)
	b.Whole, b.lost = req.Whole, req.Lost
}

// IsHeld reports whether the hold is one of its owner's: not if it is a part of a whole that is not held.
func (b *Base) IsHeld() bool { return b.Whole == nil || b.Whole.IsHeld() }

// Lose ends the context of the handle, which has ended without a release, and tells the whole.
func (b *Base) Lose(cause error) {
	b.End(cause)
	if b.lost != nil {
		b.lost(cause)
	}
}

// An Ending is a handle as it is given back.
type Ending interface {
	Title() string
	ValidUntil() time.Time
	// Cause returns why a hold that was not released is over, nil if it was released.
	Cause() error
	// Unlock gives the level back. It leaves the context alone.
	Unlock(ctx context.Context) error
	End(cause error)
}

// Valid reports whether the lock is held at this moment, by the clock.
func Valid(h interface{ ValidUntil() time.Time }) bool { return !h.ValidUntil().IsZero() }

// WhyOver is [Handle].Err.
func WhyOver(h Ending) error {
	if Valid(h) {
		return nil
	}
	if cause := h.Cause(); cause != nil {
		return cause
	}
	return terms.Released(h.Title())
}

// Release is [Handle].Release.
func Release(ctx context.Context, h Ending) error {
	released := terms.Released(h.Title())
	if Valid(h) {
		h.End(released) // before another can have it
	}
	err := h.Unlock(ctx)
	h.End(released)
	return err
}
