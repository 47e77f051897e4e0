package group

import (
	"cmp"
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A Locker is a lock that others are made of: of one key, or a [Lock]. Its methods may be called concurrently.
type Locker interface {
	// Name returns the name that the lock was made with.
	Name() string
	// Leaves returns the locks of one key that it consists of.
	Leaves() []Leaf
	// Acquire takes the lock once for the owner. The context that the Part has does not end with ctx.
	Acquire(ctx context.Context, o terms.Owner, options Options) (terms.Part, error)
	// State returns the state of the lock without asking Redis. It waits for nothing.
	State(o terms.Owner) terms.State

	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// Options say how a lock is to be taken.
type Options struct {
	Lease  time.Duration // 0: until the release, kept by the watchdog
	Wait   time.Duration // how long to wait between attempts; 0 is one attempt
	Caller uint64        // the goroutine that calls, if that is not the owner; 0 if that is not known
	Within *terms.Life   // of the hold that the owner is a guest of, nil for an owner that is no guest
	Life   *terms.Life   // of the outermost hold, nil for one without a handle

	// Quit, once closed, ends the wait between attempts as its time would, and no attempt; nil for never.
	Quit <-chan struct{}

	// Whole is the lock over several that this is a part of, nil for none. Lost is called once if
	// the part has ended by loss or by Close, with the cause, before another owner can be granted
	// the part; also before Acquire returns the part.
	Whole *terms.Whole
	Lost  func(cause error)
}

// left returns the rest of the wait, which began then.
func (o *Options) left(began time.Time) time.Duration {
	if o.Wait == terms.Forever {
		return terms.Forever
	}
	return o.Wait - time.Since(began)
}

// A Leaf is a lock of one key. Equal leaves are the same lock.
type Leaf struct {
	Name   string
	Kind   uint8 // locks of one name and different kinds are kept apart
	Shared bool  // it is the read lock of its name
	Home   *Home // of its client
}

// SameName reports whether both are the same lock, or a reader's and a writer's.
func (l Leaf) SameName(other Leaf) bool {
	l.Shared = other.Shared
	return l == other
}

// inOrder is the order in which parts are taken.
func inOrder(a, b Leaf) int {
	order := cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	if order == 0 && a.Home != b.Home {
		order = cmp.Compare(a.Home.Where(), b.Home.Where())
	}
	if order == 0 && a.Shared != b.Shared && b.Shared {
		order = -1 // a writer may read, and not the other way round
	} else if order == 0 && a.Shared != b.Shared {
		order = 1
	}
	return order
}
