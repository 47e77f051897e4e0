package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// A part is a lock that a compound lock can be made of: any of this package's.
type part interface {
	Locker
	// beneath returns the locks of one key that it consists of.
	beneath() []*lock
	// unusable returns why there are none, nil if there are.
	unusable() error
}

func (l *lock) beneath() []*lock { return []*lock{l} }

func (l *lock) unusable() error {
	if l.client == nil {
		return errZero
	}
	return nil
}

// errZero is the fault of a lock that no constructor has made.
var errZero = fmt.Errorf("rlock: %w: a lock is a zero value: use the methods of a Client, NewMultiLock or NewRedLock", ErrInvalidConfig)

// A compound is a lock that is made of others, of which so many make it. It has the
// methods of [MultiLock], which needs all of them, and of [RedLock], which needs most.
// Like them it holds no state of any call.
type compound struct {
	name  string
	parts []part
	locks []*lock // beneath all of them
	need  int
	home  *Client // has what is remembered of the lock between its calls
	id    string  // what it is remembered by there: the same for the same parts
	err   error   // every call returns it

	// gather takes enough of the parts for p, whose context carries the owner, and
	// has them join it; or none.
	gather func(ctx context.Context, p *parts, req request) error
}

// newCompound returns the lock of these parts, which are in the order in which they
// are taken.
func newCompound(name string, parts []part, need int) compound {
	c := compound{name: name, parts: parts, need: need}
	var id strings.Builder
	for _, p := range parts {
		locks := p.beneath()
		fmt.Fprintf(&id, "%d of", len(locks))
		for _, l := range locks {
			fmt.Fprintf(&id, " %s %d %t %q", l.client.id.prefix, l.name.id, l.shared, l.name.key)
			c.err = cmp.Or(c.err, l.name.err)
		}
		c.locks = append(c.locks, locks...)
	}
	fmt.Fprintf(&id, " need %d", need)
	c.id = id.String()
	c.home = c.locks[0].client
	return c
}

func (c *compound) beneath() []*lock { return c.locks }

func (c *compound) unusable() error {
	if c.err == nil && len(c.locks) == 0 {
		return errZero
	}
	return c.err
}

// key is what the lock's client remembers the owner by. No lock of one key has it.
func (c *compound) key(o Owner) lossKey { return lossKey{kindCount, c.id, o} }

// Name returns the name that a [RedLock] was made with, and of a [MultiLock] those of
// its parts with commas between them, each name once.
func (c *compound) Name() string { return c.name }

// acquire waits for the lock. The context of its hold is made from parent.
func (c *compound) acquire(ctx, parent context.Context, req request) (*Hold, error) {
	if c.err != nil {
		return nil, c.err
	}
	if req.lease != 0 {
		for _, l := range c.locks {
			if err := l.client.checkLease(l.name, req.lease); err != nil {
				return nil, err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rlock: lock %q: %w", c.name, err)
	}
	if cause := c.home.losses.blocks(c.key(req.owner), time.Now()); cause != nil {
		return nil, fmt.Errorf("rlock: nested lock %q: unlock what was lost first: %w", c.name, cause)
	}
	h := &Hold{client: c.home, name: &name{key: c.name}, owner: req.owner, part: req.part}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	h.parts = &parts{of: c, whole: h, asked: req.lease, lease: req.lease, leave: func() {}}
	if err := c.gather(WithOwner(ctx, req.owner), h.parts, req); err != nil {
		h.cancel(err)
		return nil, err
	}
	return h, nil
}

// take is acquire without a handle.
func (c *compound) take(ctx context.Context, lease, wait time.Duration) error {
	o := ownerOf(ctx)
	h, err := c.acquire(ctx, context.Background(), request{owner: o, lease: lease, wait: wait})
	if err == nil {
		c.home.taken.push(c.key(o), h)
	}
	return err
}

// Lock is [Lock.Lock].
func (c *compound) Lock(ctx context.Context) error { return c.take(ctx, 0, forever) }

// LockFor is [Lock.LockFor]. The lease begins when the lock is had, and is that of all
// parts.
func (c *compound) LockFor(ctx context.Context, lease time.Duration) error {
	return c.take(ctx, lease, forever)
}

// TryLock is [Lock.TryLock]: one attempt at each part.
func (c *compound) TryLock(ctx context.Context) (bool, error) {
	return outcome(c.take(ctx, 0, 0))
}

// TryLockFor is [Lock.TryLockFor]. The wait is for all parts together.
func (c *compound) TryLockFor(ctx context.Context, wait, lease time.Duration) (bool, error) {
	return outcome(c.take(ctx, lease, max(wait, 0)))
}

// Acquire is [Lock.Acquire].
func (c *compound) Acquire(ctx context.Context, options ...AcquireOption) (*Hold, error) {
	return c.acquire(ctx, context.WithoutCancel(ctx), requestOf(ctx, options))
}

// TryAcquire is [Lock.TryAcquire]: one attempt at each part, unless [WithWait] gives
// it more time.
func (c *compound) TryAcquire(ctx context.Context, options ...AcquireOption) (*Hold, error) {
	return c.Acquire(ctx, oneAttempt(options)...)
}

// Do is [Lock.Do].
func (c *compound) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	h, err := c.acquire(ctx, ctx, request{owner: ownerOf(ctx), wait: forever})
	if err != nil {
		return err
	}
	return h.run(fn)
}

// Unlock is [Lock.Unlock]. It takes back what this lock's Lock took, and leaves alone
// what the owner has taken of the parts by themselves.
func (c *compound) Unlock(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	o := ownerOf(ctx)
	if h := c.home.taken.pop(c.key(o)); h != nil {
		return h.Release(ctx)
	}
	switch cause := c.home.losses.unlock(c.key(o), false); {
	case cause != nil:
		return cause
	case c.home.closed.Load():
		return fmt.Errorf("rlock: unlock %q: %w", c.name, ErrClosed)
	}
	return fmt.Errorf("rlock: unlock %q: owner %s: %w", c.name, o, c.home.losses.notHeld())
}

// IsHeld reports whether the caller holds enough of the parts, judged as by
// [Lock.IsHeld].
func (c *compound) IsHeld(ctx context.Context) bool { return c.HoldCount(ctx) > 0 }

// HoldCount returns how often the caller holds enough of the parts, judged as by
// [Lock.HoldCount]: also what it has taken of them by themselves counts.
func (c *compound) HoldCount(ctx context.Context) int {
	if c.err != nil {
		return 0
	}
	ctx = WithOwner(ctx, ownerOf(ctx))
	counts := make([]int, 0, len(c.parts))
	for _, p := range c.parts {
		counts = append(counts, p.HoldCount(ctx))
	}
	return best(counts, c.need, cmp.Compare[int])
}

// IsLocked asks Redis whether so many of the parts are locked, by anybody, that nobody
// else can get enough of them.
func (c *compound) IsLocked(ctx context.Context) (bool, error) {
	locked, free := 0, 0
	failed := poll(ctx, c, Locker.IsLocked, func(is bool) (enough bool) {
		if is {
			locked++
		} else {
			free++
		}
		return locked > len(c.parts)-c.need || free >= c.need
	})
	if locked > len(c.parts)-c.need {
		return true, nil
	}
	return false, c.tooMany(failed)
}

// TTL asks Redis how long enough of the parts will be held if nobody renews them, as
// [Lock.TTL] does.
func (c *compound) TTL(ctx context.Context) (time.Duration, error) {
	var ttls []time.Duration
	failed := poll(ctx, c, Locker.TTL, func(ttl time.Duration) bool {
		if ttl < 0 {
			ttl = math.MaxInt64
		}
		ttls = append(ttls, ttl)
		return false
	})
	if err := c.tooMany(failed); err != nil {
		return 0, err
	}
	ttl := best(ttls, c.need, cmp.Compare[time.Duration])
	if ttl == math.MaxInt64 {
		return -1, nil
	}
	return ttl, nil
}

// ForceUnlock frees all parts, regardless of their holders, as [Lock.ForceUnlock] does, and
// reports whether any was held.
func (c *compound) ForceUnlock(ctx context.Context) (bool, error) {
	freed := false
	failed := poll(ctx, c, Locker.ForceUnlock, func(was bool) bool {
		freed = freed || was
		return false
	})
	return freed, c.tooMany(failed)
}

// tooMany returns the errors of the parts if the others are not enough.
func (c *compound) tooMany(failed []error) error {
	if c.err != nil || len(failed) > len(c.parts)-c.need {
		return cmp.Or(c.err, errors.Join(failed...))
	}
	return nil
}

// poll asks all parts at once, and gives each answer to heard until that has enough. A
// lock that cannot be used asks nothing.
func poll[T any](ctx context.Context, c *compound, ask func(Locker, context.Context) (T, error), heard func(T) bool) (failed []error) {
	if c.err != nil {
		return nil
	}
	type answer struct {
		is  T
		err error
	}
	arrived := make(chan answer, len(c.parts))
	for _, p := range c.parts {
		go func() {
			is, err := ask(p, ctx)
			arrived <- answer{is, err}
		}()
	}
	for range c.parts {
		if a := <-arrived; a.err != nil {
			failed = append(failed, a.err)
		} else if heard(a.is) {
			break
		}
	}
	return failed
}
