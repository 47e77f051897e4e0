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
	c := newCompound(strings.Join(slices.Compact(names), ","), engine.KindMulti, ordered, len(ordered))
	c.gather = c.oneAfterTheOther
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
	began time.Time // the call
	// kept is set if the watchdog keeps what is taken until all are: leases would run out
	// while others are waited for.
	kept  bool
	holds []engine.Handle
}

// oneAfterTheOther takes all parts, and begins anew if one was lost meanwhile.
func (c *compound) oneAfterTheOther(ctx context.Context, whole *hold) error {
	began := time.Now()
	for kept := false; ; kept = true { // a lease that was too short for the way is not again
		g := gathering{whole: whole, began: began, kept: kept}
		err := g.takeAll(ctx)
		if err == nil {
			whole.add(g.holds...)
			return nil
		}
		giveBack(ctx, g.holds)
		if !errors.Is(err, errAnew) || whole.req.Left(began) <= 0 {
			return err
		}
	}
}

// errAnew says that a part was lost while others were waited for.
var errAnew = errors.New("a part was lost while others were waited for")

// takeAll takes all parts. After an error it has some of them. It waits for no other part once
// one that it has is lost.
func (g *gathering) takeAll(caller context.Context) error {
	started := time.Now()
	ctx, end := context.WithCancel(caller)
	defer end()
	for _, part := range g.whole.of.parts {
		h, err := g.take(ctx, part)
		if err != nil && ctx.Err() != nil && caller.Err() == nil {
			return cmp.Or(g.lost(), err)
		} else if err != nil {
			return err
		}
		g.holds = append(g.holds, h)
		defer context.AfterFunc(h.Context(), end)()
	}
	if err := g.lost(); err != nil {
		return err
	}
	if g.whole.req.Lease > 0 && (g.kept || time.Since(started) > g.whole.req.Lease/100) {
		relet(g.holds, g.whole.req.Lease) // it begins now, and is trusted once Redis confirms it
	}
	return nil
}

// lost returns an errAnew if a part was lost, nil if none was.
func (g *gathering) lost() error {
	for _, h := range g.holds {
		switch err := engine.WhyOver(h); {
		case errors.Is(err, engine.ErrLost): // of a caller that had not got the lock
			return fmt.Errorf("rlock: lock %q: %w: %v", g.whole.of.name, errAnew, err)
		case err != nil:
			return fmt.Errorf("rlock: lock %q: %w: %w", g.whole.of.name, errAnew, err)
		}
	}
	return nil
}

// take takes one more part. Before it waits for that, the watchdog keeps the others.
func (g *gathering) take(ctx context.Context, part engine.Form) (engine.Handle, error) {
	ask := engine.Request{Lease: g.whole.req.Lease, Wait: max(g.whole.req.Left(g.began), 0)}
	switch {
	case g.kept:
		ask.Lease = 0
	case g.whole.req.Lease > 0 && len(g.holds) > 0:
		ask.Wait = 0 // the leases of the others go on
	}
	h, err := g.whole.takePart(ctx, part, ask)
	if left := g.whole.req.Left(g.began); err != nil && ask.Wait < left {
		g.kept = true
		relet(g.holds, 0)
		h, err = g.whole.takePart(ctx, part, engine.Request{Wait: left})
	}
	return h, err
}
