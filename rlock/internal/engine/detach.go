package engine

import (
	"context"
	"fmt"
	"maps"
	"sync"
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
		case <-h.Context().Done(): // no mirror may be sent any more
			return context.Cause(h.Context())
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
	h.End(fmt.Errorf("rlock: lock %q: detached: %w", h.lock.Name.Key, ErrNotHeld))
	if h.lock.Client.Observer.On() {
		e := h.lock.Client.closedLevel(h.lock.Name, &was, now, nil)
		e.Detached = true
		h.lock.Client.Observer.Released.Tell(ctx, e)
	}
	return nil, nil
}

// detach is the part of it that needs the mutex.
func (r *room) detach(h *hold) (landed <-chan struct{}, err error) {
	t := h.tenure
	shown := t.shows(time.Now())
	switch {
	case !t.bounded():
		return nil, fmt.Errorf("rlock: lock %q: %w: the watchdog keeps it: use WithLease", r.name.Key, ErrDetach)
	case len(t.levels) > 1:
		return nil, fmt.Errorf("rlock: lock %q: %w: it is held %d times", r.name.Key, ErrDetach, len(t.levels))
	case t.dirty || t.flying || !shown:
		// One in flight that shows the tenure as it is needs no other behind it: that would be
		// in flight when this one has landed, and so on until the lease ends.
		if !shown {
			t.mirror()
		}
		if t.landed == nil {
			t.landed = make(chan struct{})
		}
		return t.landed, nil
	}
	h.released = true
	r.client.detached.add(t, time.Now())
	if !t.seen.IsZero() {
		r.unmark(t)
	}
	r.shard.counts.closed(t.levels[0].way)
	r.tenure = nil
	r.escaped = true
	t.end()
	r.wakeHead()
	return nil, nil
}

// unmark takes the mark of the tenure out of the queue, which its release would else do: Redis
// would take the client for dead at the end of the lease, and drop its other tickets.
func (r *room) unmark(t *tenure) {
	redis, n, ticket := r.client.Redis, r.name, t.text
	redis.Start(func() { _ = redis.Unmark(redis.Deadline(time.Now()), &n.Keys, ticket) })
}

// detached has the tenures whose locks were detached. The message of such a grant may be late, or
// be of somebody else who has seen the owner in Redis. No waiter here wants the tenure then, but
// it is not to be released.
type detached struct {
	mu    sync.Mutex           // protects following
	until map[string]time.Time // by UUID and colon, when the lease has ended
	sweep int                  // at how many those are forgotten whose leases have ended
}

// leastSweep is so few that it does not matter if the leases of all have ended.
const leastSweep = 64

// add remembers a tenure that is detached now. It forgets those whose leases have ended whenever the
// number of the others may have doubled.
func (d *detached) add(t *tenure, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.until = make(map[string]time.Time)
	}
	if len(d.until) >= d.sweep {
		maps.DeleteFunc(d.until, func(_ string, until time.Time) bool { return now.After(until) })
		d.sweep = max(2*len(d.until), leastSweep)
	}
	d.until[t.text[:wire.TenureLen]] = now.Add(t.lease)
}

func (d *detached) has(ticket string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.until[ticket[:wire.TenureLen]]
	return ok
}
