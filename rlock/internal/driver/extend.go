package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Extend implements [Handle]. The keeper sends the command for a lease, and repeats it until the lease has ended.
func (h *hold) Extend(ctx context.Context, d time.Duration) error {
	n, c := h.lock.Name, h.lock.driver
	if err := c.checkExtension(n, d); err != nil {
		return err
	}
	l, now := h.enter()
	if l == nil {
		return h.Err()
	}
	result := l.Extend(core.OwnerID(h.owner.ID), h.lock.mode(), h, core.Span(d), now)
	l.shard.exit(l)
	switch result {
	case core.NoLevel:
		return h.Err()
	case core.NoEnd:
		return fmt.Errorf("rlock: lock %q: %w: the hold has no end that could be moved: use WithMaxHold or WithLease", n.Key, terms.ErrInvalidLease)
	case core.EndAsked:
		return h.awaitLease(ctx)
	case core.EndMoves:
		return nil
	default:
		panic("driver: an extension ends as " + result.String())
	}
}

// awaitLease waits until Redis has confirmed the lease that the levels ask for.
func (h *hold) awaitLease(ctx context.Context) error {
	for {
		l, now := h.enter()
		if l == nil {
			return h.Err()
		}
		var landed <-chan struct{}
		if !l.IsShown(now) {
			landed = l.shard.awaitMirror(l)
		}
		l.shard.exit(l)
		if landed == nil {
			return nil
		}
		select {
		case <-landed:
		case <-h.Context().Done():
			return context.Cause(h.Context())
		case <-ctx.Done():
			return fmt.Errorf("rlock: lock %q: its lease may be extended, or may be yet: %w", h.title(), wire.TimeUp(ctx, nil))
		}
	}
}
