package engine

import (
	"context"
	"fmt"
	"time"

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
		case <-h.ctx.Done(): // no mirror may be sent any more
			return context.Cause(h.ctx)
		case <-ctx.Done():
			return fmt.Errorf("rlock: lock %q: not detached: %w", h.lock.Name.Key, wire.TimeUp(ctx, nil))
		}
	}
}

// tryDetach is one attempt. It returns a channel if a mirror has to be awaited before.
func (h *hold) tryDetach(ctx context.Context) (landed <-chan struct{}, err error) {
	r := h.enter()
	if r == nil {
		return nil, WhyOver(h)
	}
	t := h.tenure
	was, now := t.levels[0], time.Now()
	landed, err = r.detach(h)
	r.exit()
	if landed != nil || err != nil {
		return landed, err
	}
	h.cancel(fmt.Errorf("rlock: lock %q: detached: %w", h.lock.Name.Key, ErrNotHeld))
	if h.lock.Client.Observer.On() {
		e := h.lock.Client.closedLevel(h.lock.Name, &was, now, nil)
		e.Detached = true
		h.lock.Client.Observer.Released(ctx, e)
	}
	return nil, nil
}

// detach is the part of it that needs the mutex.
func (r *room) detach(h *hold) (landed <-chan struct{}, err error) {
	t := h.tenure
	switch {
	case !t.bounded():
		return nil, fmt.Errorf("rlock: lock %q: %w: the watchdog keeps it: use WithLease", r.name.Key, ErrDetach)
	case len(t.levels) > 1:
		return nil, fmt.Errorf("rlock: lock %q: %w: it is held %d times", r.name.Key, ErrDetach, len(t.levels))
	case t.dirty || t.flying || !t.shows(time.Now()):
		t.mirror()
		if t.landed == nil {
			t.landed = make(chan struct{})
		}
		return t.landed, nil
	}
	h.released = true
	r.shard.counts.closed(t.levels[0].way)
	r.tenure = nil
	r.escaped = true
	t.end()
	r.wakeHead()
	return nil, nil
}
