package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// maxEvents is how many events wait at most for a hook of the Observer. It is larger than
// for the Logger: all locks of a client may be lost at once.
const maxEvents = 4000

// observing has the Observer of a client. Those of its methods that have a caller are called
// where the caller has no mutex of ours; the others, which the keeper and the wheel bring
// about, go through notices.
type observing struct {
	*terms.Observer          // nil for none
	Notices         *notices // nil without an Observer
}

// On reports whether there is an Observer.
func (o *observing) On() bool { return o.Observer != nil }

// Later queues the call of a hook about an event without a caller.
func (o *observing) Later(ctx context.Context, hook terms.Hook, e terms.Event) {
	if hook != nil {
		o.Notices.Tell(func() { hook(ctx, e) })
	}
}

// close waits for the events that must still be reported.
func (o *observing) close() {
	if o.On() {
		o.Notices.close()
		o.Closed()
	}
}

// Event returns an event about the lock for an owner.
func (n *Name) Event(o terms.Owner, shared bool) terms.Event {
	return terms.Event{Name: n.Key, Kind: n.KindOf(shared), Owner: o}
}

// watches reports whether the request is reported to the Observer: not if it is for a part of
// a lock that is observed as a whole.
func (c *Client) watches(req *Request) bool { return c.Observer.On() && req.Whole == nil }

// tellAcquired reports a call that has the lock. It is called without a mutex, as gaveUp.
func (c *Client) tellAcquired(ctx context.Context, n *Name, req *Request, waited time.Duration, contended bool) {
	if c.Observer.Observer != nil && req.Whole == nil {
		e := n.Event(req.Owner, req.Shared)
		e.Way, e.Waited, e.Contended = req.Way, waited, contended
		c.Observer.Acquired.Tell(ctx, e)
	}
}

// gaveUp reports a call that has failed with err, and returns that.
func (c *Client) gaveUp(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) error {
	if c.watches(req) {
		e := n.Event(req.Owner, req.Shared)
		e.Err, e.Waited, e.Contended = err, waited, contended
		c.Observer.GaveUp.Tell(ctx, e)
	}
	return err
}

// tellRenewed reports a batch that had any renewals. The keeper does not wait.
func (c *Client) tellRenewed(i terms.RenewedInfo) {
	if c.Observer.On() && c.Observer.Renewed != nil && i.Locks > 0 {
		c.Observer.Notices.Tell(func() { c.Observer.Renewed(i) })
	}
}

const (
	// maxMessages is how many messages wait at most for the Logger.
	maxMessages = 1000
	// lastWords is how long Close waits at most for notices to be delivered.
	lastWords = time.Second
)

// notices call the code of the user that is told of events, as the Logger's handler:
// one call after the other, in the order of the events, in a goroutine that exists
// while there is something to tell. So code that is slow delays no lock, and may call
// the client. Nothing of the user's is called by the keeper or with a mutex held: what
// is to be told goes through here. If the user's code is too slow, the events that find
// no room are counted, and it is told how many.
type notices struct {
	missed func(n int) // called as a notice is, where n notices found no room
	most   int         // how many wait at most for the one before them

	panicked sync.Once // a panic of the user's code was reported

	mu      sync.Mutex // protects following
	waiting []func()
	lost    int           // how many found no room since the last of waiting
	running bool          // the goroutine exists
	closed  bool          // nothing is accepted
	silent  chan struct{} // closed when the goroutine ends after close
}

func newNotices(most int, missed func(n int)) *notices {
	return &notices{missed: missed, most: most, silent: make(chan struct{})}
}

// Tell queues the notice. It waits for nothing, and may be called with a mutex held.
func (n *notices) Tell(notice func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return
	case len(n.waiting) == n.most:
		n.lost++
		return
	}
	n.waiting = append(n.waiting, notice)
	if !n.running {
		n.running = true
		go n.run()
	}
}

func (n *notices) run() {
	for notice := n.next(); notice != nil; notice = n.next() {
		n.deliver(notice)
	}
}

// deliver calls the user's code. Its panic is written to the standard error, once: where it could be logged is
// what may have panicked.
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

// next returns nil when the goroutine must end.
func (n *notices) next() (notice func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
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
	return notice
}

// close accepts no more notices, and waits until those that were accepted have been
// delivered, but not for long: the ones that are left then are dropped, and the
// goroutine ends as soon as the user's code returns.
func (n *notices) close() {
	n.mu.Lock()
	n.closed = true
	running := n.running
	n.mu.Unlock()
	if !running {
		return
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-n.silent:
	case <-timer.C:
		n.mu.Lock()
		n.waiting, n.lost = nil, 0
		n.mu.Unlock()
	}
}

// A noticeHandler is a [slog.Handler] that hands its records to another one by notices.
type noticeHandler struct {
	notices *notices
	to      slog.Handler
}

// newLogger returns a logger that writes to the given one by notices.
func newLogger(to *slog.Logger) (*slog.Logger, *notices) {
	n := newNotices(maxMessages, func(n int) {
		to.Warn("rlock: the Logger was too slow: messages were dropped", "count", n)
	})
	return slog.New(noticeHandler{n, to.Handler()}), n
}

// Enabled leaves the decision to Handle, since the other handler is the user's.
func (h noticeHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h noticeHandler) Handle(ctx context.Context, record slog.Record) error {
	h.notices.Tell(func() {
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

// traceChange logs a change of what this client wants of a tenure, or of where it is: each decision of package core. A mutex is held.
func (c *Client) traceChange(t *core.Tenure, want core.Want, place core.Place) {
	n := t.Lock().Tag.(*lock).name
	c.trace.Debug("rlock: a tenure changes", "lock", n.Key, "kind", n.KindOf(false), "tenure", c.textOf(t.ID, 0, 0)[:wire.TenureLen-1],
		"want", t.Want().String(), "place", t.Place().String(), "wanted", want.String(), "was", place.String())
}

// A call that waits for a lock goes on while Redis refuses to serve it, or does not answer,
// since a failover may cure that. If it lasts, one line in the log says why.

const (
	troubleTime  = 5 * time.Second // how long it lasts before it is logged
	troubleEvery = time.Minute     // how often a client logs it at most
)

// TellTrouble tells those that watch the lock that an attempt of a call has failed with err, and logs that every attempt has
// since then, if that lasts and was not logged just now. It may be called with a mutex held.
func (c *Client) TellTrouble(lock string, since time.Time, err error) {
	c.troubles.tell(lock, err)
	now := time.Now()
	if now.Sub(since) < troubleTime {
		return
	}
	at, next := int64(now.Sub(c.clock.start)), c.troubleAt.Load()
	if at >= next && c.troubleAt.CompareAndSwap(next, at+int64(troubleEvery)) {
		c.Config.Logger.Warn("rlock: Redis does not serve the calls for a lock, which go on trying", "lock", lock,
			"for", now.Sub(since).Round(time.Millisecond), "error", err)
	}
}

// mostRefusals is how many refusals of releases a client tells apart.
const mostRefusals = 16

// tellRefused logs that Redis has refused a release since its user lacks a right, once for each right: the lock stays until its
// lease ends, and a caller that leaves the error of Unlock unread does not know. It may be called with a mutex held.
func (c *Client) tellRefused(lock string, err error) {
	if err = wire.Explain(err); !errors.Is(err, wire.ErrNoPermission) {
		return
	}
	text := err.Error()
	c.refusals.Lock()
	defer c.refusals.Unlock()
	if slices.Contains(c.refusals.texts, text) || len(c.refusals.texts) >= mostRefusals {
		return
	}
	c.refusals.texts = append(c.refusals.texts, text)
	c.Config.Logger.Warn("rlock: Redis has refused a release, since its user lacks a right", "lock", lock, "error", err)
}

// troubles has, for each lock, the listeners that hear why calls fail while they go on trying.
type troubles struct {
	count atomic.Int32 // number of listeners; read without the mutex, since most clients have none

	mu sync.Mutex // protects following
	of map[string]map[*func(error)]struct{}
}

// WatchTrouble calls told with the error of each failed attempt of a call for the lock with that key that goes on trying, until
// stop is called. told is called with a mutex of a lock held: it must return at once, and call no lock.
func (c *Client) WatchTrouble(key string, told func(err error)) (stop func()) {
	t, id := &c.troubles, &told
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[key] == nil {
		if t.of == nil {
			t.of = make(map[string]map[*func(error)]struct{})
		}
		t.of[key] = make(map[*func(error)]struct{}, 1)
	}
	t.of[key][id] = struct{}{}
	t.count.Add(1)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if _, ok := t.of[key][id]; !ok {
			return
		}
		t.count.Add(-1)
		if delete(t.of[key], id); len(t.of[key]) == 0 {
			delete(t.of, key)
		}
	}
}

func (t *troubles) tell(key string, err error) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for told := range t.of[key] {
		(*told)(err)
	}
}
