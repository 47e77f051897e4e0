package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A compound is a lock that is made of others, of which so many make it: all of them for a
// multi-lock, and most for a red lock.
type compound struct {
	name  string
	kind  Kind // KindMulti or KindRed
	parts []form
	locks []*single // beneath all of them
	need  int
	home  *Client // has what is remembered of the lock between its calls
	id    string  // what it is remembered by there: the same for the same parts
	err   error   // every call returns it

	// gather takes enough of the parts for p, and has them join it; or none.
	gather func(ctx context.Context, p *compoundHold, req request) error
}

var _ form = (*compound)(nil)

// refusing returns a lock that refuses every call with err.
func refusing(name string, err error) *compound { return &compound{name: name, err: err} }

// newCompound returns the lock of these parts, which are in the order in which they
// are taken.
func newCompound(name string, parts []form, need int) *compound {
	c := &compound{name: name, parts: parts, need: need}
	var id strings.Builder
	for _, p := range parts {
		locks := p.beneath()
		fmt.Fprintf(&id, "%d of", len(locks))
		for _, l := range locks {
			fmt.Fprintf(&id, " %s %d %t %q", l.client.id.Prefix, l.name.id, l.shared, l.name.Key)
			c.err = cmp.Or(c.err, l.name.err)
		}
		c.locks = append(c.locks, locks...)
	}
	fmt.Fprintf(&id, " need %d", need)
	c.id = id.String()
	c.home = c.locks[0].client
	return c
}

func (c *compound) title() string { return c.name }

func (c *compound) beneath() []*single { return c.locks }

func (c *compound) unusable() error { return c.err }

// key is what the lock's client remembers the owner by. No lock of one key has it.
func (c *compound) key(o Owner) lossKey { return lossKey{kindCount, c.id, o} }

func (c *compound) hold(ctx, parent context.Context, req request) (handle, error) {
	if c.err != nil {
		return nil, c.err
	}
	if !c.home.watches(&req) {
		return c.obtain(ctx, parent, req)
	}
	return c.observed(ctx, parent, req)
}

func (c *compound) obtain(ctx, parent context.Context, req request) (handle, error) {
	if req.lease != 0 {
		for _, l := range c.locks {
			if err := l.client.checkLease(l.name, req.lease); err != nil {
				return nil, err
			}
		}
	}
	if err := wire.Over(ctx); err != nil {
		return nil, fmt.Errorf("rlock: lock %q: %w", c.name, err)
	}
	if cause := c.home.losses.blocks(c.key(req.owner), time.Now()); cause != nil {
		return nil, fmt.Errorf("rlock: nested lock %q: unlock what was lost first: %w", c.name, cause)
	}
	h := &compoundHold{of: c, owner: req.owner, whole: req.whole, way: req.way, asked: req.lease, lease: req.lease, leave: func() {}}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	h.at = c.home.place()
	defer c.watchWait(req, h.at)()
	if err := c.gather(ctx, h, req); err != nil {
		h.cancel(err)
		return nil, err
	}
	return h, nil
}

func (c *compound) take(ctx context.Context, req request) error {
	h, err := c.hold(ctx, context.Background(), req)
	if err == nil {
		c.home.taken.push(c.key(req.owner), h)
	}
	return err
}

// unlock takes back what take took, and leaves alone what the owner has taken of the parts
// by themselves.
func (c *compound) unlock(ctx context.Context, o Owner) error {
	if c.err != nil {
		return c.err
	}
	if h := c.home.taken.pop(c.key(o)); h != nil {
		return release(ctx, h)
	}
	switch cause := c.home.losses.unlock(c.key(o), false); {
	case cause != nil:
		return cause
	case c.home.closed.Load():
		return fmt.Errorf("rlock: unlock %q: %w", c.name, ErrClosed)
	}
	return fmt.Errorf("rlock: unlock %q: owner %s: %w", c.name, o, c.home.losses.notHeld())
}

func (c *compound) token(Owner) (uint64, error) {
	if c.err != nil {
		return 0, c.err
	}
	return 0, errNoToken(c.name)
}

func (c *compound) depth(o Owner) int {
	if c.err != nil {
		return 0
	}
	counts := make([]int, 0, len(c.parts))
	for _, p := range c.parts {
		counts = append(counts, p.depth(o))
	}
	return best(counts, c.need, cmp.Compare[int])
}

// isLocked stops asking once the answer is certain.
func (c *compound) isLocked(ctx context.Context) (bool, error) {
	locked, free := 0, 0
	failed := poll(ctx, c, form.isLocked, func(is bool) (enough bool) {
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

func (c *compound) ttl(ctx context.Context) (time.Duration, error) {
	var ttls []time.Duration
	failed := poll(ctx, c, form.ttl, func(ttl time.Duration) bool {
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

func (c *compound) forceUnlock(ctx context.Context) (bool, error) {
	freed := false
	failed := poll(ctx, c, form.forceUnlock, func(was bool) bool {
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
func poll[T any](ctx context.Context, c *compound, ask func(form, context.Context) (T, error), heard func(T) bool) (failed []error) {
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
