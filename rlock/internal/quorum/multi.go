package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// NewMulti returns the lock that is all of these; nil stands for a zero lock.
func NewMulti(locks []engine.Form) engine.Form {
	ordered, err := partsOf(locks)
	if err != nil {
		return Refusing("", err)
	}
	slices.SortStableFunc(ordered, func(a, b engine.Form) int {
		return slices.CompareFunc(a.Beneath(), b.Beneath(), inOrder)
	})
	var names []string
	for _, p := range ordered {
		names = append(names, p.Title())
	}
	c := newCompound(strings.Join(slices.Compact(names), ","), ordered, len(ordered))
	c.gather, c.kind = c.oneAfterTheOther, engine.KindMulti
	return c
}

// partsOf looks into multi-locks, drops what is given twice, and refuses what has no
// order.
func partsOf(locks []engine.Form) (all []engine.Form, err error) {
	for i, l := range locks {
		if l == nil {
			return nil, fmt.Errorf("rlock: multi-lock: %w: lock %d is nil or a zero value", wire.ErrInvalidConfig, i)
		}
		if err := l.Unusable(); err != nil {
			return nil, err
		}
		more := []engine.Form{l}
		if c, ok := l.(*compound); ok && c.kind == engine.KindMulti {
			more = c.parts
		}
		for _, p := range more {
			if !slices.ContainsFunc(all, func(other engine.Form) bool { return sameLock(p, other) }) {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("rlock: multi-lock: %w: it has no locks: give it at least one", wire.ErrInvalidConfig)
	}
	return all, nil
}

func sameLock(a, b engine.Form) bool {
	return slices.EqualFunc(a.Beneath(), b.Beneath(), (*engine.Lock).Same)
}

// inOrder is the order in which parts are taken.
func inOrder(a, b *engine.Lock) int {
	order := cmp.Or(cmp.Compare(a.Name.Key, b.Name.Key), cmp.Compare(a.Name.KindID, b.Name.KindID))
	if order == 0 && a.Client != b.Client {
		order = cmp.Compare(a.Client.Redis.Where(), b.Client.Redis.Where())
	}
	if order == 0 && a.Shared != b.Shared && b.Shared {
		order = -1 // a writer may read, and not the other way round
	} else if order == 0 && a.Shared != b.Shared {
		order = 1
	}
	return order
}

// oneAfterTheOther takes all parts, and begins anew if one was lost meanwhile.
func (c *compound) oneAfterTheOther(ctx context.Context, whole *hold, req engine.Request) error {
	began := time.Now()
	for kept := false; ; kept = true { // a lease that was too short for the way is not again
		holds, err := c.takeAll(ctx, whole, req, began, kept)
		if err == nil {
			whole.add(holds...)
			return nil
		}
		giveBack(ctx, holds)
		if !errors.Is(err, errAnew) || req.Left(began) <= 0 {
			return err
		}
	}
}

// errAnew says that a part was lost while others were waited for.
var errAnew = errors.New("a part was lost while others were waited for")

// takeAll returns what it has taken, also with an error. If kept is set, or once a part
// has to be waited for, the watchdog keeps what is taken until all are.
func (c *compound) takeAll(ctx context.Context, whole *hold, req engine.Request, began time.Time, kept bool) (holds []engine.Handle, err error) {
	started := time.Now()
	for _, part := range c.parts {
		wait := req.Left(began)
		ask := engine.Request{Lease: req.Lease, Wait: max(wait, 0)}
		soon := !kept && req.Lease > 0 && wait > 0 && len(holds) > 0 // the leases of the others go on
		switch {
		case kept:
			ask.Lease = 0
		case soon:
			ask.Wait = 0
		}
		h, err := whole.takePart(ctx, part, ask)
		if err != nil && soon {
			kept = true
			relet(holds, 0)
			h, err = whole.takePart(ctx, part, engine.Request{Wait: wait})
		}
		if err != nil {
			return holds, err
		}
		holds = append(holds, h)
	}
	for _, h := range holds {
		if err := engine.WhyOver(h); err != nil {
			return holds, fmt.Errorf("rlock: lock %q: %w: %w", c.name, errAnew, err)
		}
	}
	if req.Lease > 0 && (kept || time.Since(started) > req.Lease/100) {
		relet(holds, req.Lease) // it begins now, and is trusted once Redis confirms it
	}
	return holds, nil
}
