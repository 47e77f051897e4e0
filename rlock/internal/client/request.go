package client

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Request is what a caller wants.
type Request struct {
	Owner  terms.Owner
	Shared bool          // a read lock
	Whole  *terms.Whole  // that it is for, nil for none
	Lost   func(error)   // called when the hold has ended by loss or by Close, before anything can follow; nil for nothing
	Way    terms.Way     // how it was acquired, set when it was
	Lease  time.Duration // 0: until Unlock, kept by the watchdog
	Wait   time.Duration // how long to wait between attempts; 0 is one attempt
	Linger time.Duration // how long the lock lingers after it; 0: as the Config says, negative: not at all
	Caller uint64        // the goroutine that makes it, if that is not the owner; 0 if that is not known

	// Quit, once closed, ends the wait between attempts as its time would, and no
	// attempt; nil for never.
	Quit <-chan struct{}
}

// Goroutine returns the goroutine that makes the request, 0 if that is not known.
func (r *Request) Goroutine() uint64 {
	if id := r.Owner.Goroutine(); id != 0 {
		return id
	}
	return r.Caller
}

// Over reports whether Quit is closed.
func (r *Request) Over() bool {
	select {
	case <-r.Quit:
		return true
	default:
		return false
	}
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

// Valid reports whether the lock is held at this moment, by the clock.
func Valid(h Handle) bool { return !h.ValidUntil().IsZero() }

// Check refuses a request that can be refused by itself.
func (c *Client) Check(ctx context.Context, n *Name, req *Request) error {
	if n.Err != nil {
		return n.Err
	}
	if req.Lease != 0 {
		if err := c.CheckLease(n, req.Lease); err != nil {
			return err
		}
	}
	if err := wire.Over(ctx); err != nil {
		return fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return nil
}

// CheckLease refuses a lease that would be over, in the client's eyes, about as
// soon as it began. 0 is none.
func (c *Client) CheckLease(n *Name, ask time.Duration) error {
	if ask == 0 {
		return nil
	}
	shortest := (2 * lease.Drift(0, c.Tick)).Round(time.Millisecond) + time.Millisecond
	if ask < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: use at least %v, or 0 for the watchdog", n.Key, terms.ErrInvalidLease, ask, shortest)
	}
	return nil
}
