package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
)

// maxEvents is the largest number of events that wait for the hooks of the Observer. It is larger
// than maxMessages, since all locks of a client may be lost at once.
const maxEvents = 4000

// observing has the Observer of a client. A hook that has a caller runs in the caller's goroutine,
// without a mutex; any other runs by notices.
type observing struct {
	*contract.Observer          // or nil
	Notices            *notices // calls the hooks for losses and renewals; nil if there is no Observer
	last               *notices // calls the hooks of Close; nil if there is no Observer
}

func newObserving(o *contract.Observer) observing {
	if o == nil {
		return observing{}
	}
	return observing{o, newNotices(maxEvents, o.Missed), newNotices(math.MaxInt, nil)} // Close reports each hold once
}

// On reports whether there is an Observer.
func (o *observing) On() bool { return o.Observer != nil }

// Later queues the call of a hook that has no caller.
func (o *observing) Later(ctx context.Context, hook contract.Hook, e contract.Event) {
	if hook != nil {
		o.Notices.Enqueue(func() { hook(ctx, e) })
	}
}

// atClose queues the call of a hook for a level that Close ends.
func (o *observing) atClose(ctx context.Context, hook contract.Hook, e contract.Event) {
	if hook != nil {
		o.last.Enqueue(func() { hook(ctx, e) })
	}
}

// runsHooksIn reports whether the goroutine calls hooks of the Observer that have no caller.
func (o *observing) runsHooksIn(goroutine uint64) bool {
	return o.On() && (o.Notices.runs(goroutine) || o.last.runs(goroutine))
}

// close waits for lastWords until all events are reported, the last of them by the hook Closed.
// Then it drops those for Later; the hooks of Close are still called, once the user's code returns.
func (o *observing) close() {
	if !o.On() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	o.Notices.close(ctx)
	o.last.Enqueue(o.Closed)
	o.last.end(ctx)
}

// Event returns an event about the lock and an owner.
func (n *Name) Event(o contract.Owner, shared bool) contract.Event {
	return contract.Event{Name: n.Key, Kind: n.KindOf(shared), Owner: o}
}

// tellAcquired reports a call that acquired the lock, unless that is for a part of a lock over
// several. It is called without a mutex, as is tellNotAcquired.
func (c *Client) tellAcquired(ctx context.Context, n *Name, req *Request, waited time.Duration, contended bool) {
	if c.Observer.On() && req.Whole == nil {
		e := n.Event(req.Owner, req.Shared)
		e.Way, e.Waited, e.Contended = req.Way, req.missed.waited+waited, req.missed.contended || contended
		c.Observer.Acquired.Tell(ctx, e)
	}
}

// tellNotAcquired reports a call that returns err in place of the lock, and returns err.
func (c *Client) tellNotAcquired(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) error {
	if c.Observer.On() && req.Whole == nil {
		e := n.Event(req.Owner, req.Shared)
		e.Err, e.Waited, e.Contended = err, req.missed.waited+waited, req.missed.contended || contended
		hook := c.Observer.GaveUp
		if errors.Is(err, contract.ErrAnswered) {
			hook = c.Observer.Answered
		}
		hook.Tell(ctx, e)
	}
	return err
}

const (
	// maxMessages is the largest number of messages that wait for the Logger.
	maxMessages = 1000
	// lastWords is the longest time for which Close waits for the hooks of the Observer, and for
	// the Logger.
	lastWords = time.Second
)

// notices call code of the user, such as the Logger's handler, one call after the other in the
// order of the events, in a goroutine that exists while notices wait. So slow code delays no lock,
// and the code may call the client. The keeper, and code that holds a mutex, call code of the user
// only in this way. If that code is too slow, events that find no room are dropped and counted.
type notices struct {
	missed func(n int) // reports, as a notice, that n notices were dropped
	most   int         // the largest number of notices that wait

	panicked sync.Once     // reports the first panic of the user's code
	runner   atomic.Uint64 // the goroutine that delivers notices, or the last one that did

	mu      sync.Mutex // guards the fields below
	waiting []func()
	lost    int           // the number of notices dropped since the last one that waits
	running bool          // the goroutine exists
	closed  bool          // no more notices are accepted
	silent  chan struct{} // closed when the goroutine ends after close
}

func newNotices(most int, missed func(n int)) *notices {
	return &notices{missed: missed, most: most, silent: make(chan struct{})}
}

// Enqueue queues the notice. It does not wait, and may be called with a mutex held.
func (n *notices) Enqueue(notice func()) { n.enqueueUpTo(n.most, notice) }

// enqueueUpTo is Enqueue with a limit of its own: while most notices wait, the notice is dropped.
func (n *notices) enqueueUpTo(most int, notice func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return
	case len(n.waiting) >= most:
		n.lost++
		return
	}
	n.waiting = append(n.waiting, notice)
	if !n.running {
		n.running = true
		go n.deliverAll()
	}
}

// runs reports whether the goroutine delivers the notices.
func (n *notices) runs(goroutine uint64) bool { return n.runner.Load() == goroutine }

// deliverAll delivers notices until none waits.
func (n *notices) deliverAll() {
	n.runner.Store(contract.GoroutineID())
	for {
		var notice func()
		n.mu.Lock()
		switch {
		case len(n.waiting) > 0:
			notice = n.waiting[0]
			n.waiting = n.waiting[1:]
		case n.lost > 0:
			lost := n.lost
			n.lost = 0
			notice = func() { n.missed(lost) }
		default:
			n.waiting, n.running = nil, false
			if n.closed {
				close(n.silent)
			}
		}
		n.mu.Unlock()
		if notice == nil {
			return
		}
		n.deliver(notice)
	}
}

// deliver calls the user's code. Its first panic is written to the standard error, since the code
// may be the log.
func (n *notices) deliver(notice func()) {
	defer func() {
		if p := recover(); p != nil {
			n.panicked.Do(func() {
				fmt.Fprintf(os.Stderr, "rlock: the handler of Config.Logger panicked; its next panics are not reported: %v\n\n%s", p, debug.Stack())
			})
		}
	}()
	notice()
}

// end accepts no more notices, and waits until the accepted ones are delivered, or until ctx ends.
// silent reports whether all are delivered. The goroutine that delivers them does not wait for
// itself.
func (n *notices) end(ctx context.Context) (silent bool) {
	n.mu.Lock()
	n.closed = true
	running := n.running
	n.mu.Unlock()
	if !running {
		return true
	}
	if n.runs(contract.GoroutineID()) {
		return false
	}
	select {
	case <-n.silent:
		return true
	case <-ctx.Done():
		return false
	}
}

// close is end that drops the notices which were not delivered in time. The goroutine then ends as
// soon as the user's code returns.
func (n *notices) close(ctx context.Context) {
	if !n.end(ctx) && ctx.Err() != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.waiting, n.lost = nil, 0
	}
}

// A noticeHandler is a [slog.Handler] that passes its records to another one by notices.
type noticeHandler struct {
	notices *notices
	to      slog.Handler
}

// newLogger returns a logger that logs to another one by notices.
func newLogger(to *slog.Logger) (*slog.Logger, *notices) {
	n := newNotices(maxMessages, func(n int) {
		to.Warn("rlock: the Logger was too slow: messages were dropped", "count", n)
	})
	return slog.New(noticeHandler{n, to.Handler()}), n
}

// Enabled always returns true, since the other handler is code of the user: Handle asks it.
func (h noticeHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler]. Messages of level Debug leave the others half of the room: with
// Config.LogSteps there are several for each hold.
func (h noticeHandler) Handle(ctx context.Context, record slog.Record) error {
	most := h.notices.most
	if record.Level < slog.LevelInfo {
		most /= 2
	}
	h.notices.enqueueUpTo(most, func() {
		if h.to.Enabled(ctx, record.Level) {
			_ = h.to.Handle(ctx, record)
		}
	})
	return nil
}

func (h noticeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noticeHandler{h.notices, h.to.WithAttrs(attrs)}
}

func (h noticeHandler) WithGroup(name string) slog.Handler {
	return noticeHandler{h.notices, h.to.WithGroup(name)}
}

// traceChange logs a change of the want or the place of a tenure, which is each decision of package
// core. It is called with the shard's mutex held, if Config.LogSteps is set.
func (c *Client) traceChange(t *core.Tenure, want core.Want, place core.Place) {
	n := t.Lock().Tag.(*lockState).name
	c.Config.Logger.Debug("rlock: a tenure changes", "lock", n.Key, "kind", n.KindOf(false), "tenure", c.textOf(t.ID, 0, 0).UUID(),
		"want", t.Want().String(), "place", t.Place().String(), "wanted", want.String(), "was", place.String())
}
