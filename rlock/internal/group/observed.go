package group

import (
	"context"
	"errors"
	"time"

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
	began, o, e := time.Now(), h.of.home.Observer, h.event()
	h.way = terms.ByParts
	if h.of.Depth(h.owner) > 0 {
		h.way = terms.ByNesting
	}
	e.Contended = h.options.Wait > 0 && h.way != terms.ByNesting
	if e.Contended {
		o.Waiting.Tell(ctx, e)
	}
	err := obtain()
	e.Way, e.Err, e.Waited = h.way, err, time.Since(began)
	if err != nil {
		o.GaveUp.Tell(ctx, e)
		return err
	}
	if h.way == terms.ByNesting {
		e.Waited = 0
	}
	o.Acquired.Tell(ctx, e)
	return nil
}

// tellReleased reports the end of the hold by Release. It is called without a mutex.
func (h *Hold) tellReleased(ctx context.Context, held time.Duration, err error) {
	if h.observes() {
		h.of.home.Observer.TellReleased(ctx, h.ended(held, err), terms.LostParts)
	}
}

// ended is the event of its end.
func (h *Hold) ended(held time.Duration, err error) terms.Event {
	e := h.event()
	e.Way, e.Held, e.Err = h.way, held, err
	return e
}

// tellLost reports that too few parts are left, as why says of the last to go.
func (h *Hold) tellLost(since time.Time, why, cause error) {
	if !h.observes() || h.way == terms.ByNesting {
		return
	}
	home, ctx := h.of.home, context.WithoutCancel(h.Context())
	e := h.ended(time.Since(since), cause)
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
