package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Request has what a caller asks for, and the way in which the lock was acquired.
type Request struct {
	contract.AcquireOptions
	Owner  contract.Owner
	Shared bool               // the read lock
	Whole  *contract.Whole    // the lock over several that the hold is a part of; nil for none
	Within *contract.Life     // the life of the hold whose guest the caller is; nil for a part, and if the caller is no guest
	Again  *contract.Outlived // the error of the last attempt, if the call is repeated in the name of another owner; or nil
	Life   *contract.Life     // the life of the hold with a handle, or of the whole that the hold is a part of
	Lost   func(error)        // called when a loss or Close has ended the hold, before another owner can have the lock; may be nil
	Way    contract.Way       // the way in which the lock was acquired
	Caller uint64             // the goroutine of the caller, if that is not the owner; 0 if it is not known
	Unless *wire.Condition    // the condition of Answer, or nil
	missed missedTurn         // the zero value unless the call has missed its turn

	// Quit, once closed, ends the wait in the same way as the end of the wait's time. It does not
	// end a single attempt. It may be nil.
	Quit <-chan struct{}
}

// Goroutine returns the goroutine that makes the request, or 0 if it is not known.
func (req *Request) Goroutine() uint64 {
	if id := req.Owner.Goroutine(); id != 0 && !req.Owner.Guest {
		return id
	}
	return req.Caller
}

// acquire acquires the lock n for req, with the handle h if it is not nil. It returns nil when the
// caller holds the lock; otherwise nothing is held that the caller would have to release.
func (c *Client) acquire(ctx context.Context, n *Name, req *Request, h *hold) error {
	w, l, now, err := c.beginAcquire(ctx, n, req, h)
	if w == nil {
		return err
	}
	l.reuseSubscription(w, now)
	if req.Progress != nil {
		l.watchPlace(w)
	}
	l.Wait(&w.Call, now)
	if l.IsHeld() {
		l.logOwnWait(w, now)
	}
	return l.runAndExit(ctx, w, now)
}

// beginAcquire begins a call. If the call has to wait, beginAcquire returns it with the mutex held;
// else the call has ended, with the error.
func (c *Client) beginAcquire(ctx context.Context, n *Name, req *Request, h *hold) (waits *waiter, l *lockState, now core.Now, err error) {
	if invariants {
		ctx = c.witness.watchContext(ctx)
	}
	if err := c.checkRequest(ctx, n, req); err != nil {
		return nil, nil, core.Now{}, c.tellNotAcquired(ctx, n, req, err, 0, false)
	}
	site := c.Site()
	l, now = c.enter(n, core.OwnerID(req.Owner.ID))
	// A guest of a hold of this lock nests in the hold at once. A part has no Within: its
	// whole decides, since the whole may have lost parts.
	if req.Within != nil && !l.hasLife(req.Within, now) {
		l.shard.exit(l)
		return nil, nil, now, &contract.Outlived{Lock: n.Key, Began: c.clock.timeOf(now.Time)}
	}
	var w core.Call // a call that is served at once needs no memory that lasts
	req.fill(&w, h, site, now)
	if !l.Nest(&w, now) {
		l.shard.applyEffects() // the losses before the grant are noted
		if err := l.checkOwner(req, now); err != nil {
			return nil, nil, now, l.giveUp(ctx, req, err)
		}
		//exhaustive:ignore
		switch outcome := l.AtOnce(&w, now); outcome {
		case core.Acquired:
		case core.Waiting:
			waits = c.newWaiter(&w)
			waits.req, waits.hold, waits.site = *req, h, site
			return waits, l, now, nil
		case core.Closed, core.Upgrades, core.Denied, core.Full, core.Unanswered:
			var holder *holderView
			if h != nil { // nobody reads the error of a TryLock, which may be called in a loop
				holder = l.viewHolder("", req)
			}
			err := l.refusalError(outcome, w.Others, req, holder)
			if !errors.Is(err, contract.ErrNotAcquired) {
				err = fmt.Errorf("rlock: lock %q: %w", n.Key, err)
			}
			return nil, nil, now, l.giveUp(ctx, req, err)
		default:
			panic("driver: a call that does not wait ends as " + outcome.String())
		}
	}
	earlier := l.noteGranted(&w, req, h)
	l.shard.exit(l)
	c.awaitReports(n, w.Owner, &earlier)
	c.tellAcquired(ctx, n, req, 0, false)
	return nil, nil, now, nil
}

// fill fills in a call for the lock.
func (req *Request) fill(w *core.Call, h *hold, site *contract.Site, now core.Now) {
	w.Owner, w.Mode, w.Part, w.More = core.OwnerID(req.Owner.ID), modeFor(req.Shared), req.Whole != nil, int32(req.More)
	w.Lease, w.Capped = core.Span(cmp.Or(req.MaxHold, req.Lease)), req.MaxHold != 0
	w.Guest, w.Handle = req.Owner.Guest, handleOf(req.Owner, h)
	if site != nil {
		w.Info = site
	}
	w.Waits, w.Until = req.Wait > 0, core.Never
	w.Answerable, w.Most, w.Grace = req.Answer != nil, req.MaxWaiters, core.Span(req.Takeover)
	w.Repeats = req.Owner.IsNamed()
	if req.Note != nil || req.Line != "" {
		w.Note = &core.Note{Line: req.Line, Since: now.Time}
		if req.Note != nil {
			w.Note.Text = *req.Note
		}
	}
	if req.Wait < contract.Forever {
		w.Until = now.Time.After(core.Span(max(req.Wait, 0)))
	}
}

// runAndExit waits until the call has an outcome, and returns it.
//
// REQUIRES: shard.mu, which it gives back.
func (l *lockState) runAndExit(ctx context.Context, w *waiter, now core.Now) error {
	c, n := l.shard.client, l.name
	var slot *wire.Limit
	if w.Tenure != nil { // most likely the call has a command to send
		slot, _ = l.slots(w).TryEnter()
	}
	if !l.runCall(ctx, w, slot, now) {
		l.exitWithError(w)
	}
	return c.awaitResult(ctx, n, w)
}

// checkOwner returns the error of a request that is refused also if the lock is free: the client is
// closed, or the owner has not unlocked a loss. An owner that holds the lock is not refused.
//
// REQUIRES: shard.mu.
func (l *lockState) checkOwner(req *Request, now core.Now) error {
	c := l.shard.client
	if c.Closed.Load() {
		return fmt.Errorf("rlock: lock %q: %w", l.name.Key, wire.ErrClosed)
	}
	if c.Losses.None() {
		return nil
	}
	if cause := c.Losses.Blocks(l.name.lossKey(req.Owner), c.clock.timeOf(now.Time)); cause != nil {
		return fmt.Errorf("rlock: nested lock %q: unlock the lost lock first: %w", l.name.Key, cause)
	}
	return nil
}

// checkRequest returns the error of a request that is invalid by itself.
func (c *Client) checkRequest(ctx context.Context, n *Name, req *Request) error {
	if n.Err != nil {
		return n.Err
	}
	if req.Lease != 0 || req.MaxHold != 0 {
		if err := c.checkEnd(n, req); err != nil {
			return err
		}
	}
	if req.Answer != nil {
		if err := c.checkAnswer(n, req.Unless); err != nil {
			return err
		}
	}
	if req.Takeover != 0 && (req.Shared || req.Answer != nil) {
		return fmt.Errorf("rlock: lock %q: %w: WithTakeover is not for a reader, nor for a call that takes answers", n.Key, errors.ErrUnsupported)
	}
	if req.More != 0 {
		if err := n.checkPermits(req.More); err != nil {
			return err
		}
	}
	if req.Line != "" && n.KindID != FairKind && n.KindID != SemaphoreKind {
		return fmt.Errorf("rlock: lock %q: %w: only a fair lock or a semaphore has lines", n.Key, errors.ErrUnsupported)
	}
	if err := wire.Over(ctx); err != nil {
		return fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return nil
}

// checkPermits refuses a call that takes more permits than its lock has. more counts them beside the
// first.
func (n *Name) checkPermits(more int) error {
	switch {
	case n.KindID != SemaphoreKind && more > 0:
		return fmt.Errorf("rlock: lock %q: %w: only a semaphore has several permits", n.Key, errors.ErrUnsupported)
	case more < 0:
		return fmt.Errorf("rlock: lock %q: %w: a call takes fewer than one: use 1 or more", n.Key, contract.ErrPermits)
	case more >= n.Permits:
		return fmt.Errorf("rlock: semaphore %q: %w: a call takes %d of %d", n.Key, contract.ErrPermits, 1+more, n.Permits)
	}
	return nil
}

func (c *Client) checkAnswer(n *Name, unless *wire.Condition) error {
	if n.KindID == ReadWriteKind || n.KindID == SemaphoreKind {
		return fmt.Errorf("rlock: lock %q: %w: a lock of this kind has no answers", n.Key, errors.ErrUnsupported)
	}
	if unless == nil {
		return nil
	}
	if err := c.Redis.CheckKeys(&n.Keys, unless.Keys); err != nil {
		return fmt.Errorf("rlock: lock %q with a condition: %w", n.Key, err)
	}
	return nil
}

// CheckLease returns an error for a lease that is too short: the client would believe it for hardly
// any time. 0 stands for no lease.
func (c *Client) CheckLease(n *Name, ask time.Duration) error {
	if shortest := c.shortestLease(); ask != 0 && ask < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: use at least %v, or 0 for the watchdog", n.Key, contract.ErrInvalidLease, ask, shortest)
	}
	return nil
}

// checkEnd is CheckLease for a hold that ends by a lease or by its longest hold, which must not be
// shorter than the least hold.
func (c *Client) checkEnd(n *Name, req *Request) error {
	switch shortest := max(c.shortestLease(), req.MinHold); {
	case req.MaxHold == 0:
		return c.CheckLease(n, req.Lease)
	case req.Lease != 0:
		return fmt.Errorf("rlock: lock %q: %w: WithLease ends the hold by itself: leave out WithMaxHold", n.Key, contract.ErrInvalidLease)
	case req.MaxHold >= shortest:
		return nil
	case req.MaxHold > 0 && req.MaxHold < req.MinHold:
		return fmt.Errorf("rlock: lock %q: %w: WithMaxHold of %v is shorter than WithMinHold of %v", n.Key, contract.ErrInvalidLease, req.MaxHold, req.MinHold)
	default:
		return fmt.Errorf("rlock: lock %q: %w: WithMaxHold of %v: use at least %v", n.Key, contract.ErrInvalidLease, req.MaxHold, shortest)
	}
}

// checkShortest is CheckLease for a time other than a lease. what begins the hint in its error.
func (c *Client) checkShortest(n *Name, d time.Duration, what string) error {
	if shortest := c.shortestLease(); d < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: %s for %v at least", n.Key, contract.ErrInvalidLease, d, what, shortest)
	}
	return nil
}

func (c *Client) shortestLease() time.Duration {
	return (2 * lease.Drift(0, c.Tick)).Round(time.Millisecond) + time.Millisecond
}

// The end of a call: its result, and the release of an unused grant.

// giveUp ends a call with an error before it waits.
//
// REQUIRES: shard.mu, which it gives back.
func (l *lockState) giveUp(ctx context.Context, req *Request, err error) error {
	c, n := l.shard.client, l.name
	l.shard.counts.CountWithout(err, false)
	l.shard.exit(l)
	return c.tellNotAcquired(ctx, n, req, err, 0, false)
}

// exitWithError gives the mutex back for a call for which Next has said Returns. It sets w.err if
// the call does not have the lock.
//
// REQUIRES: shard.mu, which it gives back.
func (l *lockState) exitWithError(w *waiter) {
	s := l.shard
	if w.Outcome == core.Acquired {
		s.exit(l)
		return
	}
	s.applyEffects()
	var holder *holderView
	if w.hold != nil || w.Outcome == core.Cancelled { // else nobody reads the words
		holder = l.viewHolder(w.holderText, &w.req)
	}
	//exhaustive:ignore
	switch o := w.Outcome; o {
	case core.GotAnswer:
		w.err = contract.ErrAnswered
	case core.Closed, core.Upgrades, core.NotPassed, core.Full:
		w.err = l.refusalError(o, w.Others, &w.req, holder)
	case core.Unanswered:
		if w.err == nil { // else w.err is the error of another call's command, whose answer it waited for
			w.err = l.faultOfFirst()
		}
	case core.Denied, core.TimedOut:
		if w.err == nil { // else Redis has failed, or has answered the last attempt
			w.err = l.refusalError(o, 0, &w.req, holder)
		}
	case core.Cancelled, core.Failed: // its context, or Redis, has said why
	default:
		panic("driver: a call does not have the lock: " + o.String())
	}
	w.holder = holder
	s.exit(l)
}

// awaitResult returns the result of a decided call, after the function by which the caller is told
// its place has ended.
func (c *Client) awaitResult(ctx context.Context, n *Name, w *waiter) error {
	if !w.watches {
		return c.result(ctx, n, w)
	}
	switch missed := c.awaitTold(n, w); {
	case w.ends != nil:
	case missed:
		return c.waitAgain(ctx, n, w)
	default:
		return c.result(ctx, n, w)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	h, ends := w.hold, w.ends
	err := c.result(ctx, n, w)
	if h != nil && h.endIfFailed(err) == nil { // it was lost
		_ = h.Release(ctx)
	}
	ends()
	return err
}

// result returns the result of a call. If the context of the caller has ended, the level that the
// call was granted is given back, unless it has ended: then the call has acquired the lock and lost
// it, and its caller learns that.
func (c *Client) result(ctx context.Context, n *Name, w *waiter) (err error) {
	defer c.recycle(w)
	if a := w.req.Answer; a != nil {
		a.Text, a.Checked, a.Clock = w.answer, w.checked, w.clock
		// If a message overtook the answer to its Join, the call waited in Redis' queue although
		// waits is not set.
		a.Waited = w.contended || !w.checked && (w.Outcome == core.GotAnswer || w.Outcome == core.Acquired && w.Way == core.ByQueue)
		if w.clock > 0 {
			a.Read = c.clock.timeOf(w.read)
		}
	}
	cancelled := w.Outcome == core.Cancelled
	if w.Outcome == core.Acquired {
		if ctx.Err() == nil || !c.returnGrant(n, w) {
			c.awaitReports(n, w.Owner, &w.earlier)
			c.tellAcquired(ctx, n, &w.req, w.waited, w.contended)
			return nil
		}
		cancelled = true
	}
	waited := time.Duration(c.clock.now().Time.Since(w.Began))
	if err = w.err; cancelled { // by its context, or by another call that is acquired together with it: see finishJoint
		if err = cmp.Or(wire.TimeUp(ctx, w.err), context.Canceled); errors.Is(err, context.DeadlineExceeded) {
			err = w.holder.explain(err)
		}
	}
	if invariants {
		c.witness.fails(err)
	}
	s, ended := c.shardOf(n), cancelled || ctx.Err() != nil
	s.underMutex(func() {
		s.counts.CountWithout(err, ended)
		s.counts.Waited += waited - w.waited // a grant has counted w.waited already
	})
	if errors.Is(err, wire.ErrWrongType) {
		err = c.Redis.OfOtherKind(ctx, &n.Keys, err)
	}
	if !errors.Is(err, contract.ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return c.tellNotAcquired(ctx, n, &w.req, err, waited, w.contended)
}

// awaitReports waits until earlier losses are reported, before a call returns with the lock.
func (c *Client) awaitReports(n *Name, o core.OwnerID, earlier *earlierLosses) {
	for _, e := range earlier.unreported {
		<-e.reported
	}
	if invariants {
		c.witness.returns(c.shardOf(n), n, o, earlier)
	}
}

// returnGrant releases the lock that was granted to a call whose caller has left, and reports
// whether the call still had it.
func (c *Client) returnGrant(n *Name, w *waiter) bool {
	l, now := c.enter(n, w.Owner)
	was, _, ok := l.Unlock(w.Owner, w.Mode, w.Handle, now) // the keeper releases it
	if ok {
		l.shard.counts.countUndone(w.req.Way, was.First)
		w.err, w.holder = nil, nil
	}
	l.shard.exit(l)
	return ok
}

// refusalError returns the error of a call with the outcome o, which names the holder unless that
// is nil. others is the number of other waiters, for a call with a bound.
//
// REQUIRES: shard.mu.
func (l *lockState) refusalError(o core.Outcome, others int32, req *Request, holder *holderView) error {
	reason := contract.ErrNotAcquired
	switch {
	case o == core.Closed:
		return wire.ErrClosed
	case o == core.Upgrades && req.More > 0:
		return fmt.Errorf("%s: %w: it has fewer than %d permits, which it has to release first", req.Owner.Title(), contract.ErrUpgrade, 1+req.More)
	case o == core.Upgrades:
		return fmt.Errorf("%s: %w: a reader cannot become a writer: unlock the read lock first", req.Owner.Title(), contract.ErrUpgrade)
	case o == core.NotPassed:
		return contract.ErrNotPassed
	case o == core.Full:
		reason = fmt.Errorf("%w: %d of %d that may", contract.ErrTooManyWaiters, others, max(req.MaxWaiters, 0))
	case o == core.Unanswered:
		return l.faultOfFirst()
	}
	return holder.explain(reason)
}

// faultOfFirst returns the reason why it is not known who has the lock: the error of the first call
// in the line.
//
// REQUIRES: shard.mu.
func (l *lockState) faultOfFirst() error {
	if first := l.FirstWaiter(); first != nil {
		if w := first.Tag.(*waiter); w.err != nil {
			return w.err
		}
	}
	return contract.ErrUnanswered
}

// mostNamed is the number of levels that are searched for one of the caller's own.
const mostNamed = 16

// A holderView is a holder in the error of a call.
type holderView struct {
	words string // the words for the error: that the lock is held, and by whom
	wire.HeldError
}

// explain returns the reason with the holder; without one if h is nil.
func (h *holderView) explain(reason error) error {
	if h == nil {
		return reason
	}
	e := h.HeldError
	e.Err = fmt.Errorf("%w: it is %s", reason, h.words)
	if _, note := e.Holder.CutNote(); note != (wire.Note{}) {
		e.Err = fmt.Errorf("%w: %s", e.Err, note)
	}
	return &e
}

// viewHolder returns the holder as this client knows it; nil if it does not know it. named is the
// holder that Redis named last.
//
// REQUIRES: shard.mu.
func (l *lockState) viewHolder(named wire.OwnerText, req *Request) *holderView {
	c := l.shard.client
	if !l.IsHeld() {
		return c.viewNamed(named)
	}
	levels := l.Levels()
	first := l.FirstLevel(levels[0].Owner)
	h := &holderView{HeldError: wire.HeldError{Holder: c.textOf(l.Held().ID, first.Owner, 0)}}
	if first.Note != nil {
		h.Holder = h.Holder.WithNote(wire.Note{Text: first.Note.Text, At: c.clock.timeOf(first.Since)})
	}
	for i := range levels[:min(len(levels), mostNamed)] {
		if caller := callerOf(&levels[i]); caller != 0 && caller == req.Goroutine() {
			h.words = "held by the calling goroutine: use the context of Do or of the Hold"
			return h
		}
	}
	owner := levelOwner(&levels[0]).Words()
	if levels[0].Mode == core.Shared {
		owner = "a reader, " + owner
	}
	h.words = "held by " + owner + " of this process"
	return h
}

// viewNamed returns a holder that Redis has named.
func (c *Client) viewNamed(named wire.OwnerText) *holderView {
	if named.Tenure() == "" || named.ClientID() == c.ID.Prefix { // the named tenure is this client's, which has released it since, or is about to
		return nil
	}
	owner, _ := named.CutNote()
	h := &holderView{HeldError: wire.HeldError{Holder: named, Process: c.Redis.KnownProcess(named)}}
	switch {
	case !named.IsOurs():
		h.words = fmt.Sprintf("held by %s, which is no client of rlock", owner)
	case h.Process != nil:
		h.words = fmt.Sprintf("held by %s, owner %s", h.Process, owner)
	default:
		h.words = fmt.Sprintf("held by %s of another client", owner)
	}
	return h
}

// shutTime is the time for which a shared rueidis client reports that it is closed before the call
// believes it. In a Cluster or with Sentinel it also reports so while the connections to a node are
// replaced.
const shutTime = 2 * time.Second

// noteError notes the answer to a command for the call, and reports whether its error is permanent.
func (w *waiter) noteError(a *wire.Answer, clock *clock, at core.Time) (hopeless bool) {
	if a.Err == nil {
		w.err, w.since, w.shut, w.holderText = nil, time.Time{}, time.Time{}, a.Owner
		w.endless = a.Owner != "" && a.TTL == core.NoTTL
		return false
	}
	now := clock.timeOf(at)
	d, err := wire.Diagnose(a.Err)
	switch {
	case !errors.Is(a.Err, rueidis.ErrClosing):
		w.shut = time.Time{}
	case w.shut.IsZero():
		w.shut = now
	case now.Sub(w.shut) >= shutTime:
		d, err = wire.Never, fmt.Errorf("%w: the rueidis client in Config.Client is: %w", wire.ErrClosed, err)
	}
	if w.since.IsZero() {
		w.since = now
	}
	w.err = err
	return d == wire.Never
}
