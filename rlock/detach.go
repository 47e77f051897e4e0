package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Detach gives up the handle and leaves the lock in Redis until the lease of the hold ends
// there by itself: nothing renews or releases it, not even [Client.Close]. A job that is to
// run once per tick detaches the lock of the tick, so that a replica that is late is refused
// although the job is done and its process may have ended.
//
// Only a hold with a lease of its own ([WithLease]) that is the only level of its lock can
// be detached. Detach returns [ErrDetach] for a hold that the watchdog keeps, for one that is
// nested, has others nested in it or reads beside others, and for one of a lock over several;
// then nothing has changed. It returns [ErrNotHeld] or [ErrLost] if the hold is over.
//
// Redis may have been told of another lease yet, if the lock was handed off inside the
// process or granted out of the queue. Detach waits until Redis has confirmed the one that
// was asked for, or ctx ends; after ctx's error the lock is held as before.
//
// Afterwards the hold is released for this process: its context ends with cause
// [ErrNotHeld], Release returns that, and a Lock waits for the end of the lease, by whatever
// owner. [Lock.ForceUnlock] frees the lock before.
func (h *Hold) Detach(ctx context.Context) error {
	if h.parts != nil {
		return fmt.Errorf("rlock: lock %q: %w: it is made of several locks", h.name.Key, ErrDetach)
	}
	for {
		landed, err := h.detach(ctx)
		if landed == nil {
			return err
		}
		select {
		case <-landed:
		case <-h.ctx.Done(): // no mirror may be sent any more
			return context.Cause(h.ctx)
		case <-ctx.Done():
			return fmt.Errorf("rlock: lock %q: not detached: %w", h.name.Key, wire.TimeUp(ctx, nil))
		}
	}
}

// detach is one attempt. It returns a channel if a mirror has to be awaited before.
func (h *Hold) detach(ctx context.Context) (landed <-chan struct{}, err error) {
	r := h.enter()
	if r == nil {
		return nil, h.Err()
	}
	t := h.tenure
	was, now := closedLevel{t.levels[0].since, t.levels[0].way}, time.Now()
	landed, err = r.detach(h)
	r.exit()
	if landed != nil || err != nil {
		return landed, err
	}
	h.cancel(fmt.Errorf("rlock: lock %q: detached: %w", h.name.Key, ErrNotHeld))
	if h.client.observer.on() {
		h.client.tellDetached(ctx, h, was, now)
	}
	return nil, nil
}

// detach is the part of it that needs the mutex.
func (r *room) detach(h *Hold) (landed <-chan struct{}, err error) {
	t := h.tenure
	_, bounded := t.asked()
	switch {
	case !bounded:
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
