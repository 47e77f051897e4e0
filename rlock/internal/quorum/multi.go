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

// A gathering is one attempt at all parts of a multi-lock, one after the other.
type gathering struct {
	whole *hold
	req   engine.Request
	began time.Time // the call
	// kept is set if the watchdog keeps what is taken until all are: leases would run out
	// while others are waited for.
	kept  bool
	holds []engine.Handle
}

// oneAfterTheOther takes all parts, and begins anew if one was lost meanwhile.
func (c *compound) oneAfterTheOther(ctx context.Context, whole *hold, req engine.Request) error {
	began := time.Now()
	for kept := false; ; kept = true { // a lease that was too short for the way is not again
		g := gathering{whole: whole, req: req, began: began, kept: kept}
		err := g.takeAll(ctx)
		if err == nil {
			whole.add(g.holds...)
			return nil
		}
		giveBack(ctx, g.holds)
		if !errors.Is(err, errAnew) || req.Left(began) <= 0 {
			return err
		}
	}
}

// errAnew says that a part was lost while others were waited for.
var errAnew = errors.New("a part was lost while others were waited for")

// takeAll takes all parts. After an error it has some of them.
func (g *gathering) takeAll(ctx context.Context) error {
	started, c := time.Now(), g.whole.of
	for _, part := range c.parts {
		if err := g.take(ctx, part); err != nil {
			return err
		}
	}
	for _, h := range g.holds {
		if err := engine.WhyOver(h); err != nil {
			return fmt.Errorf("rlock: lock %q: %w: %w", c.name, errAnew, err)
		}
	}
	if g.req.Lease > 0 && (g.kept || time.Since(started) > g.req.Lease/100) {
		relet(g.holds, g.req.Lease) // it begins now, and is trusted once Redis confirms it
	}
	return nil
}

// take takes one more part. Before it waits for that, the watchdog keeps the others.
func (g *gathering) take(ctx context.Context, part engine.Form) error {
	wait := g.req.Left(g.began)
	ask := engine.Request{Lease: g.req.Lease, Wait: max(wait, 0)}
	switch {
	case g.kept:
		ask.Lease = 0
	case g.req.Lease > 0 && len(g.holds) > 0:
		ask.Wait = 0 // the leases of the others go on
	}
	h, err := g.whole.takePart(ctx, part, ask)
	if err != nil && ask.Wait < wait {
		g.kept = true
		relet(g.holds, 0)
		h, err = g.whole.takePart(ctx, part, engine.Request{Wait: wait})
	}
	if err == nil {
		g.holds = append(g.holds, h)
	}
	return err
}
