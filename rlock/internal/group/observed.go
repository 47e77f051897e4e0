package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/losses"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// How a lock that is made of others is reported to the Observer: as one lock. Of a hold that is a part itself the whole
// tells.

// observes reports whether the hold is reported to the Observer.
func (h *Hold) observes() bool { return h.of.home.Observer != nil && h.options.Whole == nil }

// event returns one about the hold.
func (h *Hold) event() terms.Event {
	return terms.Event{Name: h.of.name, Kind: h.of.kind, Owner: h.owner}
}

// observed calls obtain beside an Observer. Whether the owner nests is asked before, since the parts are acquired in many
// ways. How long the lock is waited for at each of them is their matter: a call that may have to wait counts as one that
// does.
func (h *Hold) observed(ctx context.Context, obtain func() error) error {
	if !h.observes() {
		return obtain()
	}
	began, home, e := time.Now(), h.of.home, h.event()
	o := home.Observer
	e.Way = terms.ByParts
	if h.of.Depth(h.owner) > 0 {
		e.Way = terms.ByNesting
	}
	e.Contended = h.options.Wait > 0 && e.Way != terms.ByNesting
	if e.Contended {
		o.Waiting.Tell(ctx, e)
	}
	home.observe(h, e.Way)
	err := obtain()
	e.Err, e.Waited = err, time.Since(began)
	if err != nil {
		home.unobserve(h, false)
		o.GaveUp.Tell(ctx, e)
		return err
	}
	if e.Way == terms.ByNesting {
		e.Waited = 0
	}
	o.Acquired.Tell(ctx, e)
	return nil
}

// observe notes a hold that the Observer is told of, and how it is acquired.
func (h *Home) observe(hold *Hold, way terms.Way) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hold.way = way
	if h.observed == nil {
		h.observed = make(map[losses.Key][]*Hold)
	}
	k := hold.of.key(hold.owner)
	h.observed[k] = append(h.observed[k], hold)
}

// unobserve takes the hold away, and returns how it was acquired. If it is the owner's first, and the next one goes on, that is
// the first from now on: so what the Observer was told of an owner that has acquired the lock has an end.
func (h *Home) unobserve(hold *Hold, goesOn bool) (way terms.Way) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := hold.of.key(hold.owner)
	left := slices.DeleteFunc(h.observed[k], func(o *Hold) bool { return o == hold })
	if h.observed[k] = left; len(left) == 0 {
		delete(h.observed, k)
	} else if next := left[0]; goesOn && next.way == terms.ByNesting {
		next.way, hold.way = hold.way, next.way
		hold.mu.Lock()
		since := hold.since
		hold.mu.Unlock()
		next.mu.Lock()
		if !next.since.IsZero() { // else it is still being acquired, and begins by itself
			next.since = since
		}
		next.mu.Unlock()
	}
	return hold.way
}

// tellReleased reports the end of the hold by Release. It is called without a mutex.
func (h *Hold) tellReleased(ctx context.Context, held time.Duration, err error) {
	if h.observes() {
		way := h.of.home.unobserve(h, !errors.Is(err, terms.ErrLost))
		h.of.home.Observer.TellReleased(ctx, h.ended(way, held, err), terms.LostParts)
	}
}

// ended is the event of its end.
func (h *Hold) ended(way terms.Way, held time.Duration, err error) terms.Event {
	e := h.event()
	e.Way, e.Held, e.Err = way, held, err
	return e
}

// first returns the first of the owner's holds that the Observer is told of, nil for none.
func (h *Home) first(k losses.Key) *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all := h.observed[k]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// tellLost reports that too few parts are left, as why says of the last to go. If all levels of the owner are lost, the first is
// told of. One that is lost alone is told of itself: its own parts were lost, or the first is about to be released.
func (h *Hold) tellLost(since time.Time, why, cause error) {
	if !h.observes() {
		return
	}
	home, ctx := h.of.home, context.WithoutCancel(h.Context())
	way := home.unobserve(h, false)
	if way == terms.ByNesting {
		if first := home.first(h.of.key(h.owner)); first == nil || errors.Is(first.Err(), terms.ErrLost) {
			return
		}
	}
	e := h.ended(way, time.Since(since), cause)
	if errors.Is(why, wire.ErrClosed) {
		home.Later(ctx, home.Observer.Released, e)
		return
	}
	e.Reason = terms.LostParts
	if errors.Is(why, terms.ErrLeaseEnded) {
		e.Reason = terms.LostLeaseEnded
	}
	home.Later(ctx, home.Observer.Lost, e)
}

// watchWait logs the call as a long wait, unless it is ended before.
func (h *Hold) watchWait() (end func()) {
	home := h.of.home
	limit := home.LongWait
	if limit <= 0 || h.options.Wait <= limit || h.options.Whole != nil {
		return func() {}
	}
	timer := time.AfterFunc(limit, func() {
		home.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", h.of.name, "kind", h.of.kind,
			"owner", h.owner, "waited", limit, "site", terms.Known(h.whole.Site).String())
	})
	return func() { timer.Stop() }
}
