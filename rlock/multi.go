package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// newMulti returns the lock that is all of these; nil stands for a zero lock.
func newMulti(locks []form) form {
	ordered, err := partsOf(locks)
	if err != nil {
		return refusing("", err)
	}
	slices.SortStableFunc(ordered, func(a, b form) int {
		return slices.CompareFunc(a.beneath(), b.beneath(), inOrder)
	})
	var names []string
	for _, p := range ordered {
		names = append(names, p.title())
	}
	c := newCompound(strings.Join(slices.Compact(names), ","), ordered, len(ordered))
	c.gather, c.kind = c.oneAfterTheOther, KindMulti
	return c
}

// partsOf looks into multi-locks, drops what is given twice, and refuses what has no
// order.
func partsOf(locks []form) (all []form, err error) {
	for i, l := range locks {
		if l == nil {
			return nil, fmt.Errorf("rlock: multi-lock: %w: lock %d is nil or a zero value", ErrInvalidConfig, i)
		}
		if err := l.unusable(); err != nil {
			return nil, err
		}
		more := []form{l}
		if c, ok := l.(*compound); ok && c.kind == KindMulti {
			more = c.parts
		}
		for _, p := range more {
			if !slices.ContainsFunc(all, func(other form) bool { return sameLock(p, other) }) {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("rlock: multi-lock: %w: it has no locks: give it at least one", ErrInvalidConfig)
	}
	return all, nil
}

func sameLock(a, b form) bool {
	return slices.EqualFunc(a.beneath(), b.beneath(), (*single).same)
}

// inOrder is the order in which parts are taken.
func inOrder(a, b *single) int {
	order := cmp.Or(cmp.Compare(a.name.Key, b.name.Key), cmp.Compare(a.name.id, b.name.id))
	if order == 0 && a.client != b.client {
		order = cmp.Compare(a.client.redis.Where(), b.client.redis.Where())
	}
	if order == 0 && a.shared != b.shared && b.shared {
		order = -1 // a writer may read, and not the other way round
	} else if order == 0 && a.shared != b.shared {
		order = 1
	}
	return order
}

// oneAfterTheOther takes all parts, and begins anew if one was lost meanwhile.
func (c *compound) oneAfterTheOther(ctx context.Context, p *compoundHold, req request) error {
	began := time.Now()
	for kept := false; ; kept = true { // a lease that was too short for the way is not again
		holds, err := c.takeAll(ctx, p, req, began, kept)
		if err == nil {
			p.add(holds...)
			return nil
		}
		giveBack(ctx, holds)
		if !errors.Is(err, errAnew) || req.left(began) <= 0 {
			return err
		}
	}
}

// errAnew says that a part was lost while others were waited for.
var errAnew = errors.New("a part was lost while others were waited for")

// takeAll returns what it has taken, also with an error. If kept is set, or once a part
// has to be waited for, the watchdog keeps what is taken until all are.
func (c *compound) takeAll(ctx context.Context, p *compoundHold, req request, began time.Time, kept bool) (holds []handle, err error) {
	started := time.Now()
	for _, l := range c.parts {
		wait := req.left(began)
		if !kept && req.lease > 0 && wait > 0 && len(holds) > 0 {
			if h, err := p.takePart(ctx, l, request{lease: req.lease}); err == nil {
				holds = append(holds, h)
				continue
			}
			kept = true
			for _, h := range holds {
				h.relet(0)
			}
		}
		lease := req.lease
		if kept {
			lease = 0
		}
		h, err := p.takePart(ctx, l, request{lease: lease, wait: max(wait, 0)})
		if err != nil {
			return holds, err
		}
		holds = append(holds, h)
	}
	for _, h := range holds {
		if err := whyOver(h); err != nil {
			return holds, fmt.Errorf("rlock: lock %q: %w: %w", c.name, errAnew, err)
		}
	}
	if req.lease > 0 && (kept || time.Since(started) > req.lease/100) {
		for _, h := range holds {
			h.relet(req.lease) // it begins now, and is trusted once Redis confirms it
		}
	}
	return holds, nil
}
