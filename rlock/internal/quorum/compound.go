package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A compound is a lock that is made of others, of which so many make it: all of them for a
// multi-lock, and most for a red lock.
type compound struct {
	name  string
	kind  engine.Kind // KindMulti or KindRed
	parts []engine.Form
	locks []*engine.Lock // beneath all of them
	need  int
	home  *engine.Client // has what is remembered of the lock between its calls
	id    string         // what it is remembered by there: the same for the same parts
	err   error          // every call returns it

	// gather takes enough of the parts for the whole, and has them join it; or none.
	gather func(ctx context.Context, whole *hold) error
}

var _ engine.Form = (*compound)(nil)

// Refusing returns a lock that refuses every call with err.
func Refusing(name string, err error) engine.Form { return &compound{name: name, err: err} }

// newCompound returns the lock of these parts, which are in the order in which they
// are taken.
func newCompound(name string, kind engine.Kind, parts []engine.Form, need int) *compound {
	c := &compound{name: name, kind: kind, parts: parts, need: need}
	var id strings.Builder
	for _, p := range parts {
		locks := p.Beneath()
		fmt.Fprintf(&id, "%d of", len(locks))
		for _, l := range locks {
			fmt.Fprintf(&id, " %s %d %t %q", l.Client.ID.Prefix, l.Name.KindID, l.Shared, l.Name.Key)
			c.err = cmp.Or(c.err, l.Name.Err)
		}
		c.locks = append(c.locks, locks...)
	}
	fmt.Fprintf(&id, " need %d", need)
	c.id = id.String()
	c.home = c.locks[0].Client
	return c
}

// Title implements [engine.Form], as all exported methods here.
func (c *compound) Title() string { return c.name }

func (c *compound) Beneath() []*engine.Lock { return c.locks }

func (c *compound) Unusable() error { return c.err }

// key is what the lock's client remembers the owner by. No lock of one key has it.
func (c *compound) key(o engine.Owner) engine.LossKey {
	return engine.LossKey{Kind: engine.KindCount, Name: c.id, Owner: o}
}

func (c *compound) Hold(ctx, parent context.Context, req engine.Request) (engine.Handle, error) {
	if c.err != nil {
		return nil, c.err
	}
	if !c.home.Watches(&req) {
		return c.obtain(ctx, parent, req)
	}
	return c.observed(ctx, parent, req)
}

func (c *compound) obtain(ctx, parent context.Context, req engine.Request) (engine.Handle, error) {
	for _, l := range c.locks {
		if err := l.Client.CheckLease(l.Name, req.Lease); err != nil {
			return nil, err
		}
	}
	if err := wire.Over(ctx); err != nil {
		return nil, fmt.Errorf("rlock: lock %q: %w", c.name, err)
	}
	if cause := c.home.Losses.Blocks(c.key(req.Owner), time.Now()); cause != nil {
		return nil, fmt.Errorf("rlock: nested lock %q: unlock what was lost first: %w", c.name, cause)
	}
	h := &hold{of: c, req: req, at: c.home.Place(), lease: req.Lease, leave: func() {}}
	h.Begin(parent, req.Whole)
	defer c.watchWait(req, h.at)()
	if err := c.gather(ctx, h); err != nil {
		h.End(err)
		return nil, err
	}
	return h, nil
}

func (c *compound) Take(ctx context.Context, req engine.Request) error {
	h, err := c.Hold(ctx, context.Background(), req)
	if err == nil {
		c.home.Taken.Push(c.key(req.Owner), h)
	}
	return err
}

// Unlock takes back what Take took, and leaves alone what the owner has taken of the parts
// by themselves.
func (c *compound) Unlock(ctx context.Context, o engine.Owner) error {
	if c.err != nil {
		return c.err
	}
	if h := c.home.Taken.Remove(c.key(o), nil); h != nil {
		return engine.Release(ctx, h)
	}
	losses := &c.home.Losses
	return c.home.NothingToUnlock(c.name, o, losses.Unlock(c.key(o), false), losses.NotHeld())
}

func (c *compound) Token(engine.Owner) (uint64, error) {
	if c.err != nil {
		return 0, c.err
	}
	return 0, engine.NoToken(c.name)
}

func (c *compound) Depth(o engine.Owner) int {
	if c.err != nil {
		return 0
	}
	counts := make([]int, 0, len(c.parts))
	for _, p := range c.parts {
		counts = append(counts, p.Depth(o))
	}
	return best(counts, c.need, cmp.Compare[int])
}

// IsLocked stops asking once the answer is certain.
func (c *compound) IsLocked(ctx context.Context) (bool, error) {
	locked, free := 0, 0
	failed := poll(ctx, c, engine.Form.IsLocked, func(is bool) (enough bool) {
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

func (c *compound) TTL(ctx context.Context) (time.Duration, error) {
	var ttls []time.Duration
	failed := poll(ctx, c, engine.Form.TTL, func(ttl time.Duration) bool {
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

func (c *compound) ForceUnlock(ctx context.Context) (bool, error) {
	freed := false
	failed := poll(ctx, c, engine.Form.ForceUnlock, func(was bool) bool {
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
func poll[T any](ctx context.Context, c *compound, ask func(engine.Form, context.Context) (T, error), heard func(T) bool) (failed []error) {
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
