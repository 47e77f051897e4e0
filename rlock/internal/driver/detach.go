package driver

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Detach waits until Redis has confirmed the lease that was asked for, or ctx ends.
func (h *hold) Detach(ctx context.Context) error {
	for {
		landed, err := h.tryDetach(ctx)
		if landed == nil {
			return err
		}
		select {
		case <-landed:
		case <-h.Context().Done(): // no mirror may be sent any more
			return context.Cause(h.Context())
		case <-ctx.Done():
			return fmt.Errorf("rlock: lock %q: not detached: %w", h.title(), wire.TimeUp(ctx, nil))
		}
	}
}

// tryDetach is one attempt. It returns a channel if a mirror has to be awaited before.
func (h *hold) tryDetach(ctx context.Context) (landed <-chan struct{}, err error) {
	l, now := h.enter()
	if l == nil {
		return nil, h.Err()
	}
	c := h.lock.driver
	was, t, result := l.Detach(core.OwnerID(h.owner.ID), h.lock.mode(), h, now)
	switch result {
	case core.HasParted:
		h.released = true
		l.shard.counts.Closed(was.First)
		l.shard.parts(l.shard.workOf(l, t))
	case core.WouldRenew:
		err = fmt.Errorf("rlock: lock %q: %w: the watchdog keeps it: use WithLease", h.title(), terms.ErrDetach)
	case core.NotAlone:
		err = fmt.Errorf("rlock: lock %q: %w: it is held %d times", h.title(), terms.ErrDetach, len(l.Levels()))
	case core.NothingHeld:
		err = terms.ErrNotHeld
	case core.NotYet:
		landed = l.shard.awaitMirror(l)
	default:
		panic("driver: a detach ends as " + result.String())
	}
	l.shard.exit(l)
	if landed != nil || err != nil {
		return landed, err
	}
	h.End(fmt.Errorf("rlock: lock %q: detached: %w", h.title(), terms.ErrNotHeld))
	if c.shared.Observer.On() {
		e := c.closedLevel(h.lock.Name, &was, now, nil)
		e.Detached = true
		c.shared.Observer.Released.Tell(ctx, e)
	}
	return nil, nil
}
