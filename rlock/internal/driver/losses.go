package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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

// The causes of a loss, beside [ErrLeaseEnded].
var (
	errGone   = errors.New("its key is gone, or another's")
	errForced = errors.New("it was unlocked by force")
)

// lostError returns the error of an owner that lost the lock.
func (n *Name) lostError(o terms.Owner, why error) error {
	return fmt.Errorf("rlock: lock %q of %s: %w: %w", n.Key, o.Title(), terms.ErrLost, why)
}

// lossKey returns the key of the owner in Losses.
func (n *Name) lossKey(o terms.Owner) terms.LossKey {
	return terms.LossKey{Kind: uint8(n.KindID), Name: n.Key, Owner: o}
}

// An ending is a report about levels that ended by loss or by Close. It is reported without a
// mutex, and before a later call for the lock returns.
type ending struct {
	lock     *lockState
	levels   []endedLevel
	at       core.Now
	why      error // the cause of the loss; nil for Close
	severity slog.Level
	number   uint64 // the number of the ending in its shard
	reported chan struct{}
}

// An endedLevel is a level that has ended.
type endedLevel struct {
	core.Level
	hold   *hold            // its handle, or nil
	cause  error            // the error that its owner gets
	reason terms.LossReason // the reason of a loss
}

// earlierLosses are the losses of a lock before a grant. They are reported before the call that was
// granted the lock returns.
type earlierLosses struct {
	unreported []*ending
	last       uint64 // the number of the last one
}

// noteLost notes that levels have ended, for their handles and for owners that come back by name.
func (s *shard) noteLost(l *lockState, t *core.Tenure, levels []core.Level, cause core.Cause) {
	c, n := s.client, l.name
	s.losses++
	e := &ending{lock: l, levels: make([]endedLevel, len(levels)), at: s.at, severity: slog.LevelDebug, number: s.losses, reported: make(chan struct{})}
	reason := terms.LostUnrenewed
	if cause != core.ByClose {
		reason, e.why = s.causeOf(t, levels, cause)
	}
	for i := range levels {
		v := &e.levels[i]
		v.Level = levels[i]
		v.hold, _ = v.Handle.(*hold)
		h, o := v.hold, levelOwner(&v.Level)
		if s.counts.CountClosed(v.First); e.why == nil {
			v.cause = fmt.Errorf("rlock: lock %q of %s: %w", n.Key, o.Title(), wire.ErrClosed)
		} else {
			v.cause, v.reason = n.lostError(o, e.why), reason
			lost := terms.LostLevel{Shared: v.Mode == core.Shared}
			if v.Until != core.NeverSafe && !v.Capped {
				lost.Until = c.clock.timeOfSafe(v.Until)
			} else if v.reason == terms.LostLeaseEnded { // the watchdog kept it
				v.reason = terms.LostUnrenewed
			}
			if v.reason != terms.LostLeaseEnded {
				e.severity = slog.LevelWarn
			} else { // as asked for, but each lease that is trusted ends a little early
				lost.Until = c.clock.timeOf(s.at.Time)
			}
			if v.First {
				s.counts.Lost[v.reason]++
			}
			if h == nil || !o.OfHandle() && !h.isPart() {
				c.Losses.Add(n.lossKey(o), lost, v.cause)
			}
		}
		if h != nil {
			h.lost = v.cause
		}
	}
	if s.unreported == nil {
		s.unreported = make(map[*lockState][]*ending)
	}
	s.unreported[l] = append(s.unreported[l], e)
	s.deferred.endings = append(s.deferred.endings, e)
}

func levelOwner(v *core.Level) terms.Owner { return terms.Owner{ID: uint64(v.Owner), Guest: v.Guest} }

// causeOf returns the cause of the loss of the levels, with the reason that the Observer is told.
func (s *shard) causeOf(t *core.Tenure, levels []core.Level, cause core.Cause) (terms.LossReason, error) {
	now := s.client.clock.timeOf(s.at.Time)
	//exhaustive:ignore
	switch cause {
	case core.KeyGone:
		return terms.LostKeyGone, errGone
	case core.ByForce:
		return terms.LostForced, errForced
	case core.TooLong:
		return terms.LostHeldTooLong, fmt.Errorf("%w, at %s", terms.ErrHeldTooLong, now.Format(time.TimeOnly))
	case core.LeaseEnded:
		until := core.SafeTime(0)
		for i := range levels {
			until = max(until, levels[i].Until)
		}
		now = s.client.clock.timeOfSafe(until)
	case core.Unrenewed:
		switch k, ok := t.Tag.(*work); {
		case ok && k.err != nil:
			return terms.LostUnrenewed, fmt.Errorf("it could not be renewed: %w", k.err)
		case ok && (k.state == nudged || k.state == batched || t.OpInFlight() == core.Mirror):
			return terms.LostUnrenewed, fmt.Errorf("it was not confirmed by %s", now.Format(time.TimeOnly))
		}
	default:
		panic("driver: a lock is lost " + cause.String())
	}
	return terms.LostLeaseEnded, fmt.Errorf("%w at %s", terms.ErrLeaseEnded, now.Format(time.TimeOnly))
}

// report reports the ending to the holders, the Observer and the log. It is called once, without a
// mutex. The hooks run in the goroutines of the notices, so that neither the keeper nor Close waits
// for code of the user.
func (e *ending) report() {
	l, s, c := e.lock, e.lock.shard, e.lock.shard.client
	if invariants {
		c.witness.outside("the report of a loss")
	}
	for i := range e.levels {
		if v := &e.levels[i]; v.hold != nil {
			v.hold.End(v.cause) // the same error as Release returns: a function under Do may return it as well
			if v.hold.ended != nil {
				v.hold.ended(v.cause)
			}
		}
	}
	for i := range e.levels {
		v := &e.levels[i]
		if !c.Observer.On() || v.Way == core.ByNesting || v.Part {
			continue
		}
		ctx := context.Background()
		if v.hold != nil {
			ctx = context.WithoutCancel(v.hold.Context())
		}
		event := c.closedLevel(l.name, &v.Level, e.at, v.cause)
		if e.why == nil {
			c.Observer.atClose(ctx, c.Observer.Released, event)
		} else {
			event.Reason = v.reason
			c.Observer.Later(ctx, c.Observer.Lost, event)
		}
	}
	if !c.Closed.Load() {
		c.Config.Logger.Log(context.Background(), e.severity, "rlock: lock lost",
			"lock", l.name.Key, "owner", levelOwner(&e.levels[0].Level), "cause", e.levels[0].cause)
	}
	s.lock()
	s.unreported[l] = slices.DeleteFunc(s.unreported[l], func(o *ending) bool { return o == e })
	if len(s.unreported[l]) == 0 {
		delete(s.unreported, l)
		for t := range l.Tenures { // those that were held back
			if k, _ := t.Tag.(*work); k != nil && k.tenure == t && k.state == nudged {
				c.keeper.Nudge(k)
			}
		}
	}
	close(e.reported)
	s.exit(l)
}

// maxEvents is the largest number of events that wait for the hooks of the Observer. It is larger
// than that for the Logger, since all locks of a client may be lost at once.
const maxEvents = 4000

// observing has the Observer of a client. A hook that has a caller runs in the caller's goroutine,
// without a mutex; any other runs by notices.
type observing struct {
	*terms.Observer          // or nil
	Notices         *notices // calls the hooks for losses and renewals; nil if there is no Observer
	last            *notices // calls the hooks of Close; nil if there is no Observer
}

func newObserving(o *terms.Observer) observing {
	if o == nil {
		return observing{}
	}
	return observing{o, newNotices(maxEvents, o.Missed), newNotices(math.MaxInt, nil)} // Close reports each hold once
}

// On reports whether there is an Observer.
func (o *observing) On() bool { return o.Observer != nil }

// Later queues the call of a hook that has no caller.
func (o *observing) Later(ctx context.Context, hook terms.Hook, e terms.Event) {
	if hook != nil {
		o.Notices.Enqueue(func() { hook(ctx, e) })
	}
}

// atClose queues the call of a hook for a level that Close ends.
func (o *observing) atClose(ctx context.Context, hook terms.Hook, e terms.Event) {
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
func (n *Name) Event(o terms.Owner, shared bool) terms.Event {
	return terms.Event{Name: n.Key, Kind: n.KindOf(shared), Owner: o}
}

// tellAcquired reports a call that acquired the lock, unless that is for a part of a lock over
// several. It is called without a mutex, as is tellNotAcquired.
func (c *Client) tellAcquired(ctx context.Context, n *Name, req *Request, waited time.Duration, contended bool) {
	if c.Observer.On() && req.Whole == nil {
		e := n.Event(req.Owner, req.Shared)
		e.Way, e.Waited, e.Contended = req.Way, waited, contended
		c.Observer.Acquired.Tell(ctx, e)
	}
}

// tellNotAcquired reports a call that returns err in place of the lock, and returns err.
func (c *Client) tellNotAcquired(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) error {
	if c.Observer.On() && req.Whole == nil {
		e := n.Event(req.Owner, req.Shared)
		e.Err, e.Waited, e.Contended = err, waited, contended
		hook := c.Observer.GaveUp
		if errors.Is(err, terms.ErrAnswered) {
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
func (n *notices) Enqueue(notice func()) {
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
		go n.deliverAll()
	}
}

// runs reports whether the goroutine delivers the notices.
func (n *notices) runs(goroutine uint64) bool { return n.runner.Load() == goroutine }

// deliverAll delivers notices until none waits.
func (n *notices) deliverAll() {
	n.runner.Store(terms.GoroutineID())
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

// end accepts no more notices, and waits until those that were accepted are delivered, or until ctx
// ends. It reports whether they are. The goroutine that delivers them does not wait for itself.
func (n *notices) end(ctx context.Context) (silent bool) {
	n.mu.Lock()
	n.closed = true
	running := n.running
	n.mu.Unlock()
	if !running {
		return true
	}
	if n.runs(terms.GoroutineID()) {
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

func (h noticeHandler) Handle(ctx context.Context, record slog.Record) error {
	h.notices.Enqueue(func() {
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
// core. A mutex is held.
func (c *Client) traceChange(t *core.Tenure, want core.Want, place core.Place) {
	n := t.Lock().Tag.(*lockState).name
	c.trace.Debug("rlock: a tenure changes", "lock", n.Key, "kind", n.KindOf(false), "tenure", c.textOf(t.ID, 0, 0)[:wire.TenureLen-1],
		"want", t.Want().String(), "place", t.Place().String(), "wanted", want.String(), "was", place.String())
}

// A call that waits for a lock goes on while Redis refuses to serve it, or does not answer, since a
// failover may cure that. If it lasts, a line in the log says why.

const (
	troubleTime  = 5 * time.Second // the time after which it is logged
	troubleEvery = time.Minute     // the shortest interval between two such lines of a client
)

// TellTrouble tells the watchers of the lock that an attempt of a call failed with err. It logs
// that all attempts have failed since the given time, if that is long ago and was not logged a
// short time ago. It may be called with a mutex held.
func (c *Client) TellTrouble(lock string, since time.Time, err error) {
	c.troubles.tellWatchers(lock, err)
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

// tellRedial logs that a connection was ended since its server may be the wrong one by now, by its
// reply, unless that was logged a short time ago.
func (c *Client) tellRedial(reply error) {
	at := int64(time.Since(c.clock.start))
	if next := c.redialAt.Load(); at >= next && c.redialAt.CompareAndSwap(next, at+int64(troubleEvery)) {
		c.Config.Logger.Warn("rlock: Redis refuses commands, as a replica does or a server that is not ready: connecting again, since its address may lead to another server now",
			"error", reply)
	}
}

// mostRefusals is the largest number of different refusals of releases that a client logs.
const mostRefusals = 16

// tellRefused logs that Redis refused a release since its user lacks a right, once for each right:
// the lock stays until its lease ends, and a caller that ignores the error of Unlock would not
// know. It may be called with a mutex held.
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

// troubles has the watchers of each lock, which hear why attempts fail while calls go on trying.
type troubles struct {
	count atomic.Int32 // the number of watchers, read without the mutex since most clients have none

	mu sync.Mutex // guards the fields below
	of map[string]map[*func(error)]struct{}
}

// WatchTrouble calls told with the error of each failed attempt for the lock with that key, until
// stop is called, once. told is called with a mutex held: it must return at once, and use no lock.
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
		t.count.Add(-1)
		if delete(t.of[key], id); len(t.of[key]) == 0 {
			delete(t.of, key)
		}
	}
}

func (t *troubles) tellWatchers(key string, err error) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for told := range t.of[key] {
		(*told)(err)
	}
}
