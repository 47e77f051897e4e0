package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Request is what a caller wants.
type Request struct {
	Owner    terms.Owner
	Shared   bool          // a read lock
	Whole    *terms.Whole  // that it is for, nil for none
	Within   *terms.Life   // of the hold that the owner is a guest of, nil for an owner that is no guest
	Life     *terms.Life   // of the hold with a handle, or of the whole that it is a part of
	Lost     func(error)   // called when the hold has ended by loss or by Close, before anything can follow; nil for nothing
	Way      terms.Way     // how it was acquired, set when it was
	Lease    time.Duration // 0: until Unlock, kept by the watchdog
	Capped   bool          // Lease is the longest hold, for which the watchdog keeps it
	Wait     time.Duration // how long to wait between attempts; 0 is one attempt
	Least    time.Duration // how long the lock stays at least, since it was acquired; only with a handle
	More     int           // how many permits of a semaphore it takes at once, beside the first
	Standing bool          // it waits, and holds, for long by design, and that is not logged
	Caller   uint64        // the goroutine that makes it, if that is not the owner; 0 if that is not known

	// Most is how many callers may wait, itself included, for it to wait; 0: any number, negative: none.
	Most int32
	// Progress is told where the caller stands among those that wait, when that is known and whenever it changes; nil for nothing.
	Progress func(place, waiting int)

	// Answer is filled in when the call returns that may be answered by a release; nil for a call that takes none.
	Answer *terms.Answer
	Unless *terms.Condition // of Answer; nil for none

	// Quit, once closed, ends the wait between attempts as its time would, and no
	// attempt; nil for never.
	Quit <-chan struct{}
}

// Goroutine returns the goroutine that makes the request, 0 if that is not known.
func (r *Request) Goroutine() uint64 {
	if id := r.Owner.Goroutine(); id != 0 && !r.Owner.Guest {
		return id
	}
	return r.Caller
}

// A Handle is one level of a lock that was taken with a handle.
type Handle interface {
	terms.Part
	// Merge returns a context that is made from ctx, and ends also when that of the hold does: before
	// that ends.
	Merge(ctx context.Context) context.Context
	// FencingToken returns the token of the hold, 0 if it has none.
	FencingToken() uint64
	// Write executes the source of a script in Redis if the hold has the lock, in one step.
	Write(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error)
	// ReleaseWith releases the hold, and executes the source in the same step if the hold has the lock.
	ReleaseWith(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error)
	// Extend moves the end of a hold that ends by itself.
	Extend(ctx context.Context, d time.Duration) error
	// Pass gives the handle up and passes the lock on, to the client that presents the text.
	Pass(ctx context.Context, within time.Duration) (string, error)
}

// Valid reports whether the lock is held at this moment, by the clock.
func Valid(h Handle) bool { return !h.ValidUntil().IsZero() }

// LimitHold makes the request one for no longer than that.
func (r *Request) LimitHold(d time.Duration) {
	r.Capped = true
	if r.Lease != 0 {
		d = TwoEnds
	}
	r.Lease = d
}

// TwoEnds is the Lease of a request with a fixed lease and with a longest hold.
const TwoEnds = time.Duration(math.MinInt64)

// check refuses a request that can be refused by itself.
func (c *Client) check(ctx context.Context, n *Name, req *Request) error {
	if n.Err != nil {
		return n.Err
	}
	switch {
	case req.Lease == 0:
	case req.Capped && req.Lease != TwoEnds:
		if err := c.checkLongest(n, req); err != nil {
			return err
		}
	default:
		if err := c.CheckLease(n, req.Lease); err != nil {
			return err
		}
	}
	if req.Answer != nil {
		if err := c.checkAnswer(n, req.Unless); err != nil {
			return err
		}
	}
	if req.More != 0 {
		if err := n.checkPermits(req.More); err != nil {
			return err
		}
	}
	if err := wire.Over(ctx); err != nil {
		return fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return nil
}

// checkPermits refuses a call for so many permits beside the first that no release can serve.
func (n *Name) checkPermits(more int) error {
	switch {
	case n.KindID != SemaphoreKind && more > 0:
		return fmt.Errorf("rlock: lock %q: %w: only a semaphore has several permits", n.Key, errors.ErrUnsupported)
	case more < 0:
		return fmt.Errorf("rlock: lock %q: %w: a call takes %d: use 1 or more", n.Key, terms.ErrPermits, 1+more)
	case more >= n.Permits:
		return fmt.Errorf("rlock: semaphore %q: %w: a call takes %d of %d", n.Key, terms.ErrPermits, 1+more, n.Permits)
	}
	return nil
}

func (c *Client) checkAnswer(n *Name, unless *terms.Condition) error {
	if n.KindID == ReadWriteKind || n.KindID == SemaphoreKind {
		return fmt.Errorf("rlock: lock %q: %w: a lock of this kind has no answers", n.Key, errors.ErrUnsupported)
	}
	if unless == nil {
		return nil
	}
	if err := c.Redis.CheckKeys(&n.Keys, unless.Keys); err != nil {
		return fmt.Errorf("rlock: lock %q with a condition: %w", n.Key, err)
	}
	return nil
}

// CheckLease refuses a lease that would be over, in the client's eyes, about as
// soon as it began. 0 is none.
func (c *Client) CheckLease(n *Name, ask time.Duration) error {
	switch ask {
	case 0:
		return nil
	case TwoEnds:
		return fmt.Errorf("rlock: lock %q: %w: WithLease ends the hold by itself: leave out WithMaxHold", n.Key, terms.ErrInvalidLease)
	}
	if shortest := c.shortestLease(); ask < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: use at least %v, or 0 for the watchdog", n.Key, terms.ErrInvalidLease, ask, shortest)
	}
	return nil
}

// checkLongest is CheckLease for the longest time of a hold, which is no shorter than the least.
func (c *Client) checkLongest(n *Name, req *Request) error {
	shortest := max(c.shortestLease(), req.Least)
	switch {
	case req.Lease >= shortest:
		return nil
	case req.Lease > 0 && req.Lease < req.Least:
		return fmt.Errorf("rlock: lock %q: %w: WithMaxHold of %v is shorter than WithMinHold of %v", n.Key, terms.ErrInvalidLease, req.Lease, req.Least)
	default:
		return fmt.Errorf("rlock: lock %q: %w: WithMaxHold of %v: use at least %v", n.Key, terms.ErrInvalidLease, req.Lease, shortest)
	}
}

// checkExtension is CheckLease for a new end.
func (c *Client) checkExtension(n *Name, d time.Duration) error {
	if shortest := c.shortestLease(); d < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: a hold goes on for %v at least", n.Key, terms.ErrInvalidLease, d, shortest)
	}
	return nil
}

// checkPass is CheckLease for the time of a pass, which no watchdog renews.
func (c *Client) checkPass(n *Name, within time.Duration) error {
	if shortest := c.shortestLease(); within < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: a lock is passed on for %v at least", n.Key, terms.ErrInvalidLease, within, shortest)
	}
	return nil
}

func (c *Client) shortestLease() time.Duration {
	return (2 * lease.Drift(0, c.Tick)).Round(time.Millisecond) + time.Millisecond
}
