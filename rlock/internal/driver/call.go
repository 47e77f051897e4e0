package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Request is what a caller wants.
type Request struct {
	Owner    terms.Owner
	Shared   bool          // a read lock
	Whole    *terms.Whole  // that it is for, nil for none
	Within   *terms.Life   // of the hold that the owner is a guest of, nil for an owner that is no guest
	Life     *terms.Life   // of the hold with a handle, or of the whole that it is a part of
	Lost     func(error)   // called when the hold has ended by loss or by Close, before anything can follow; nil for nothing
	Way      terms.Way     // how it was acquired, set when it was
	Lease    time.Duration // 0: until Unlock, kept by the watchdog
	Capped   bool          // Lease is the longest hold, for which the watchdog keeps it
	Wait     time.Duration // how long to wait between attempts; 0 is one attempt
	Least    time.Duration // how long the lock stays at least, since it was acquired; only with a handle
	More     int           // how many permits of a semaphore it takes at once, beside the first
	Standing bool          // it waits, and holds, for long by design, and that is not logged
	Caller   uint64        // the goroutine that makes it, if that is not the owner; 0 if that is not known

	// Most is how many callers may wait, itself included, for it to wait; 0: any number, negative: none.
	Most int32
	// Progress is told where the caller stands among those that wait, when that is known and whenever it changes; nil for nothing.
	Progress func(place, waiting int)

	// Answer is filled in when the call returns that may be answered by a release; nil for a call that takes none.
	Answer *terms.Answer
	Unless *wire.Condition // of Answer; nil for none

	// Quit, once closed, ends the wait between attempts as its time would, and no
	// attempt; nil for never.
	Quit <-chan struct{}
}

// Goroutine returns the goroutine that makes the request, 0 if that is not known.
func (r *Request) Goroutine() uint64 {
	if id := r.Owner.Goroutine(); id != 0 && !r.Owner.Guest {
		return id
	}
	return r.Caller
}

// LimitHold makes the request one for no longer than that.
func (r *Request) LimitHold(d time.Duration) {
	r.Capped = true
	if r.Lease != 0 {
		d = TwoEnds
	}
	r.Lease = d
}

// TwoEnds is the Lease of a request with a fixed lease and with a longest hold.
const TwoEnds = time.Duration(math.MinInt64)

// acquire acquires the lock n for req, with the handle h if it is not nil. It returns nil when the caller holds the lock;
// otherwise nothing is held that the caller would have to release.
func (c *Client) acquire(ctx context.Context, n *Name, req *Request, h *hold) error {
	w, l, now, err := c.begin(ctx, n, req, h)
	if w == nil {
		return err
	}
	l.hear(w, now)
	if req.Progress != nil {
		l.watch(w)
	}
	l.Wait(&w.Call, now)
	if l.Owner() != nil {
		l.tellOwnWait(w, now)
	}
	return l.wait(ctx, w, now)
}

// begin begins a call. It returns the call if that has to wait, with the mutex held; else the call has ended, with that
// result.
func (c *Client) begin(ctx context.Context, n *Name, req *Request, h *hold) (*waiter, *lock, core.Now, error) {
	if invariants {
		ctx = c.witness.watched(ctx)
	}
	if err := c.check(ctx, n, req); err != nil {
		return nil, nil, core.Now{}, c.gaveUp(ctx, n, req, err, 0, false)
	}
	site := c.Site()
	l, now := c.enter(n, core.OwnerID(req.Owner.ID))
	// A guest of a hold of this lock nests in that at once. Parts, of which the hold may lack some, leave it to their whole.
	if req.Within != nil && req.Whole == nil && !l.isLife(req.Within, now) {
		l.shard.exit(l)
		return nil, nil, now, fmt.Errorf("rlock: lock %q: %w", n.Key, terms.ErrOutlived)
	}
	var w core.Call // of a call that is served at once: it needs no memory that lasts
	l.asks(&w, req, h, site, now)
	if !l.Nest(&w, now) {
		l.shard.applyAll() // losses so far are recorded
		if err := l.refuses(req, now); err != nil {
			return nil, nil, now, l.giveUp(ctx, req, err)
		}
		//exhaustive:ignore
		switch outcome := l.AtOnce(&w, now); outcome {
		case core.Acquired:
		case core.Waiting:
			waits := c.newCall(&w)
			waits.req, waits.hold, waits.site = *req, h, site
			return waits, l, now, nil
		case core.Closed, core.Upgrades, core.Denied, core.Full, core.Unanswered:
			return nil, nil, now, l.refused(ctx, outcome, w.Others, req, h)
		default:
			panic("driver: a call that does not wait ends as " + outcome.String())
		}
	}
	earlier := l.granted(&w, req, h)
	l.shard.exit(l)
	c.returns(n, w.Owner, &earlier)
	c.tellAcquired(ctx, n, req, 0, false)
	return nil, nil, now, nil
}

// asks fills in what the request asks for.
func (l *lock) asks(w *core.Call, req *Request, h *hold, site *terms.Site, now core.Now) {
	w.Owner, w.Mode, w.Lease, w.Part = core.OwnerID(req.Owner.ID), modeOf(req.Shared), core.Span(req.Lease), req.Whole != nil
	w.Capped, w.More = req.Capped, int32(req.More)
	w.Guest, w.Handle = req.Owner.Guest, handleOf(req.Owner, h)
	if site != nil {
		w.Info = site
	}
	w.Waits, w.Until = req.Wait > 0, core.Never
	w.Answers, w.Most = req.Answer != nil, req.Most
	w.Repeats = req.Owner.IsNamed()
	if req.Wait < terms.Forever {
		w.Until = now.Time.After(core.Span(max(req.Wait, 0)))
	}
}

// wait waits until the call has an outcome, and returns it. It is called with the mutex held, and gives it back.
func (l *lock) wait(ctx context.Context, w *waiter, now core.Now) error {
	if c, n := l.shard.client, l.name; l.run(ctx, w, now) {
		return c.finished(ctx, n, w)
	}
	return l.ended(ctx, w)
}

// refuses returns why the request of a caller that does not hold the lock is refused,
// regardless of the holder.
func (l *lock) refuses(req *Request, now core.Now) error {
	c := l.shard.client
	if c.Closed.Load() {
		return fmt.Errorf("rlock: lock %q: %w", l.name.Key, wire.ErrClosed)
	}
	if c.Losses.None() {
		return nil
	}
	if cause := c.Losses.Blocks(l.name.lossKey(req.Owner), c.clock.time(now.Time)); cause != nil {
		return fmt.Errorf("rlock: nested lock %q: unlock the lost lock first: %w", l.name.Key, cause)
	}
	return nil
}

// check refuses a request that can be refused by itself.
func (c *Client) check(ctx context.Context, n *Name, req *Request) error {
	if n.Err != nil {
		return n.Err
	}
	switch {
	case req.Lease == 0:
	case req.Capped && req.Lease != TwoEnds:
		if err := c.checkLongest(n, req); err != nil {
			return err
		}
	default:
		if err := c.CheckLease(n, req.Lease); err != nil {
			return err
		}
	}
	if req.Answer != nil {
		if err := c.checkAnswer(n, req.Unless); err != nil {
			return err
		}
	}
	if req.More != 0 {
		if err := n.checkPermits(req.More); err != nil {
			return err
		}
	}
	if err := wire.Over(ctx); err != nil {
		return fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return nil
}

// checkPermits refuses a call for so many permits beside the first that no release can serve.
func (n *Name) checkPermits(more int) error {
	switch {
	case n.KindID != SemaphoreKind && more > 0:
		return fmt.Errorf("rlock: lock %q: %w: only a semaphore has several permits", n.Key, errors.ErrUnsupported)
	case more < 0:
		return fmt.Errorf("rlock: lock %q: %w: a call takes %d: use 1 or more", n.Key, terms.ErrPermits, 1+more)
	case more >= n.Permits:
		return fmt.Errorf("rlock: semaphore %q: %w: a call takes %d of %d", n.Key, terms.ErrPermits, 1+more, n.Permits)
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

// CheckLease refuses a lease that would be over, in the client's eyes, about as
// soon as it began. 0 is none.
func (c *Client) CheckLease(n *Name, ask time.Duration) error {
	switch ask {
	case 0:
		return nil
	case TwoEnds:
		return fmt.Errorf("rlock: lock %q: %w: WithLease ends the hold by itself: leave out WithMaxHold", n.Key, terms.ErrInvalidLease)
	}
	if shortest := c.shortestLease(); ask < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: use at least %v, or 0 for the watchdog", n.Key, terms.ErrInvalidLease, ask, shortest)
	}
	return nil
}

// checkLongest is CheckLease for the longest time of a hold, which is no shorter than the least.
func (c *Client) checkLongest(n *Name, req *Request) error {
	shortest := max(c.shortestLease(), req.Least)
	switch {
	case req.Lease >= shortest:
		return nil
	case req.Lease > 0 && req.Lease < req.Least:
		return fmt.Errorf("rlock: lock %q: %w: WithMaxHold of %v is shorter than WithMinHold of %v", n.Key, terms.ErrInvalidLease, req.Lease, req.Least)
	default:
		return fmt.Errorf("rlock: lock %q: %w: WithMaxHold of %v: use at least %v", n.Key, terms.ErrInvalidLease, req.Lease, shortest)
	}
}

// checkShortest is CheckLease for a time that no watchdog renews, of which says tells what it is for.
func (c *Client) checkShortest(n *Name, d time.Duration, says string) error {
	if shortest := c.shortestLease(); d < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: %s for %v at least", n.Key, terms.ErrInvalidLease, d, says, shortest)
	}
	return nil
}

func (c *Client) shortestLease() time.Duration {
	return (2 * lease.Drift(0, c.Tick)).Round(time.Millisecond) + time.Millisecond
}

// The end of a call: its result, and the release of an unused grant.

// refused ends a call that waits for nothing. It is called with the mutex held, and gives it back. The holder is named in
// the error of a handle: that of a TryLock, which may be called in a loop, is not read.
func (l *lock) refused(ctx context.Context, o core.Outcome, others int32, req *Request, h *hold) error {
	holder := ""
	if h != nil {
		holder = l.holderWords("", req)
	}
	err := l.refusal(o, others, req, holder)
	if !errors.Is(err, terms.ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", l.name.Key, err)
	}
	return l.giveUp(ctx, req, err)
}

// giveUp ends a call with an error before it waits. It is called with the mutex held, and gives it back.
func (l *lock) giveUp(ctx context.Context, req *Request, err error) error {
	c, n := l.shard.client, l.name
	l.shard.counts.GaveUp(err, false)
	l.shard.exit(l)
	return c.gaveUp(ctx, n, req, err, 0, false)
}

// leave ends a call that has not got the lock, and gives the mutex back. The error is what finished returns.
func (l *lock) leave(w *waiter) {
	s := l.shard
	s.applyAll()
	holder := ""
	if w.hold != nil || w.Outcome == core.Cancelled { // else they are not read
		holder = l.holderWords(w.holder, &w.req)
	}
	//exhaustive:ignore
	switch o := w.Outcome; o {
	case core.GotAnswer:
		w.err = terms.ErrAnswered
	case core.Closed, core.Upgrades, core.NotPassed, core.Full:
		w.err = l.refusal(o, w.Others, &w.req, holder)
	case core.Unanswered:
		if w.err == nil { // else it has waited for the command of another call, whose error that is
			w.err = l.faultBefore()
		}
	case core.Denied, core.TimedOut:
		if w.err == nil { // else Redis has failed, or has answered the last attempt
			w.err = l.refusal(o, 0, &w.req, holder)
		}
	case core.Cancelled, core.Failed: // its context, or Redis, has said why
	default:
		panic("driver: a call has not got the lock: " + o.String())
	}
	w.holder = holder
	s.exit(l)
}

// finished returns what became of the call. A caller whose context has ended does not get the lock: the
// level is given back.
func (c *Client) finished(ctx context.Context, n *Name, w *waiter) (err error) {
	if w.missed {
		return c.waitAgain(ctx, n, w)
	}
	defer c.done(w)
	if a := w.req.Answer; a != nil {
		a.Text, a.Waited, a.Checked, a.Clock = w.answer, w.hasWaited(), w.checked, w.clock
		if w.clock > 0 {
			a.Read = c.clock.time(w.read)
		}
	}
	cancelled := w.Outcome == core.Cancelled
	if w.Outcome == core.Acquired {
		if ctx.Err() == nil {
			c.returns(n, w.Owner, &w.earlier)
			c.tellAcquired(ctx, n, &w.req, w.waited, w.waits)
			return nil
		}
		c.giveBack(n, w)
		cancelled = true
	}
	waited := time.Duration(c.clock.now().Time.Since(w.Began))
	if err = w.err; cancelled {
		if err = wire.TimeUp(ctx, w.err); errors.Is(err, context.DeadlineExceeded) && w.holder != "" {
			err = fmt.Errorf("%w: it is %s", err, w.holder)
		}
	}
	s, ended := c.shardOf(n), ctx.Err() != nil
	s.glance(func() {
		s.counts.GaveUp(err, ended)
		s.counts.Waited += waited
	})
	if errors.Is(err, wire.ErrWrongType) {
		err = c.Redis.OfOtherKind(ctx, &n.Keys, err)
	}
	if !errors.Is(err, terms.ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return c.gaveUp(ctx, n, &w.req, err, waited, w.waits)
}

// ended returns the outcome of a call that leaves the lock alone from now on. It is called with the mutex held, and gives it
// back.
func (l *lock) ended(ctx context.Context, w *waiter) error {
	c, n := l.shard.client, l.name
	if w.Outcome == core.Acquired {
		l.shard.exit(l)
	} else {
		l.leave(w)
	}
	return c.finished(ctx, n, w)
}

// returns is called before a call returns with the lock.
func (c *Client) returns(n *Name, o core.OwnerID, earlier *earlierLosses) {
	for _, e := range earlier.unreported {
		<-e.reported
	}
	if invariants {
		c.shardOf(n).checkReported(n, o, earlier)
	}
}

// giveBack releases the lock that the call was granted.
func (c *Client) giveBack(n *Name, w *waiter) {
	l, now := c.enter(n, w.Owner)
	was, _, ok := l.Unlock(w.Owner, w.Mode, w.Handle, now) // the keeper releases it
	switch {
	case ok:
		l.shard.counts.undone(w.req.Way, was.First)
	case w.hold == nil: // it was lost, and its caller has never had it
		c.Losses.Unlock(n.lossKey(w.req.Owner), w.req.Shared)
	}
	w.err, w.holder = nil, ""
	l.shard.exit(l)
}

// refusal returns the error of a call that has ended with that outcome, with the holder if it is to name one. others is
// how many others wait, if the call waits only if few do.
func (l *lock) refusal(o core.Outcome, others int32, req *Request, holder string) error {
	reason := terms.ErrNotAcquired
	switch {
	case o == core.Closed:
		return wire.ErrClosed
	case o == core.Upgrades:
		return upgradeError(req)
	case o == core.NotPassed:
		return terms.ErrNotPassed
	case o == core.Full:
		reason = fmt.Errorf("%w: %d of %d that may", terms.ErrTooManyWaiters, others, max(req.Most, 0))
	case o == core.Unanswered:
		return l.faultBefore()
	}
	if holder != "" {
		reason = fmt.Errorf("%w: it is %s", reason, holder)
	}
	return reason
}

// faultBefore returns why it is not known whose the lock is: the fault of the call that is the first in the line.
func (l *lock) faultBefore() error {
	for first := range l.Waiters {
		if w := first.Tag.(*waiter); w.err != nil {
			return w.err
		}
		break
	}
	return terms.ErrUnanswered
}

// upgradeError is the error of a reader that asks for the write lock, and of an owner that asks for more permits than it has.
func upgradeError(req *Request) error {
	if req.More > 0 {
		return fmt.Errorf("%s: %w: it has fewer than %d permits, which it has to release first", req.Owner.Title(), terms.ErrUpgrade, 1+req.More)
	}
	return fmt.Errorf("%s: %w: a reader cannot become a writer: unlock the read lock first", req.Owner.Title(), terms.ErrUpgrade)
}

// mostNamed is among how many levels the caller's own is looked for.
const mostNamed = 16

// holderWords says in whose hands the lock was when this client last heard of it, "" if it does not know. Redis has named
// that holder last.
func (l *lock) holderWords(named string, req *Request) string {
	if !l.IsHeld() {
		return l.shard.client.holderWords(named)
	}
	levels := l.Levels()
	for i := range levels[:min(len(levels), mostNamed)] {
		if caller := callerOf(&levels[i]); caller != 0 && caller == req.Goroutine() {
			return "held by the calling goroutine: use the context of Do or of the Hold"
		}
	}
	owner := ownerOf(&levels[0]).Words()
	if levels[0].Mode == core.Shared {
		owner = "a reader, " + owner
	}
	return "held by " + owner + " of this process"
}

// holderWords says which client has the lock, by the holder that Redis has named last; "" if that is not known.
func (c *Client) holderWords(holder string) string {
	switch {
	case len(holder) < wire.TenureLen:
		return ""
	case !wire.IsOurs(holder):
		return fmt.Sprintf("held by %s, which is no client of rlock", holder)
	case holder[:len(c.ID.Prefix)] == c.ID.Prefix:
		return "" // it has been released since, or is about to be
	}
	if p := c.Redis.KnownProcess(holder); p != nil {
		return fmt.Sprintf("held by %s, owner %s", p, holder)
	}
	return fmt.Sprintf("held by %s of another client", holder)
}

// shutTime is how long a shared rueidis client must say that it is closed until it is believed: in a Cluster
// or with Sentinel it says so of the connections to a node that has just been replaced.
const shutTime = 2 * time.Second

// answered notes the answer to a command of the call. It reports whether the error is permanent.
func (w *waiter) answered(a *wire.Answer, clock *clock, at core.Time) (hopeless bool) {
	if a.Err == nil {
		w.err, w.since, w.shut, w.holder = nil, time.Time{}, time.Time{}, a.Owner
		w.endless = a.Owner != "" && a.TTL == core.NoTTL
		return false
	}
	now := clock.time(at)
	f, err := wire.Diagnose(a.Err)
	switch {
	case !errors.Is(a.Err, rueidis.ErrClosing):
		w.shut = time.Time{}
	case w.shut.IsZero():
		w.shut = now
	case now.Sub(w.shut) >= shutTime:
		f, err = wire.Never, fmt.Errorf("%w: the rueidis client in Config.Client is: %w", wire.ErrClosed, err)
	}
	if w.since.IsZero() {
		w.since = now
	}
	w.err = err
	return f == wire.Never
}

// Locks that are acquired together. Each is a call of its own, as any other; only the first commands of those that are not
// served at once travel in one pipeline, and those of one kind and slot in one call of a script (acquire_all.lua).

// A row is the calls whose first commands are sent together.
type row struct {
	client *Client
	calls  []rowCall
	sent   []*exchange
}

// A rowCall is the call for one lock of a row. It has ended, or waits.
type rowCall struct {
	hold   *hold
	lock   *lock   // that it waits for
	waiter *waiter // nil of a call that has ended
	err    error   // of one that has
}

// HoldAll acquires locks of one client with a handle each, in their order, in one attempt each, up to the first that is not
// free, and takes one round trip. It returns the handles of those before it and, if there is one, the error of the first
// that it has not acquired. A lock behind that may have been acquired and released. It is not for a client whose
// grants wait for replicas: a pipeline has no WAIT behind each.
func HoldAll(ctx, parent context.Context, locks []*Lock, requests []Request) (holds []Handle, err error) {
	r := &row{client: locks[0].driver}
	for i, l := range locks {
		if req := &requests[i]; !r.begin(ctx, l, l.newHold(parent, req), req) {
			break
		}
	}
	r.send(ctx)
	for i := range r.calls {
		one := &r.calls[i]
		if err != nil {
			one.drop(ctx)
			continue
		}
		if one.waiter != nil {
			one.goOn(ctx, ctx.Err() != nil)
		}
		if err = one.hold.begun(one.err); err == nil {
			holds = append(holds, one.hold)
		}
	}
	return holds, err
}

// begin begins the call for one lock, and reports whether another one may follow: not behind a lock that is not free, or
// whose call has something to wait for before its command.
func (r *row) begin(ctx context.Context, l *Lock, h *hold, req *Request) bool {
	w, at, now, err := r.client.begin(ctx, l.Name, req, h)
	r.calls = append(r.calls, rowCall{h, at, w, err})
	if w == nil {
		return err == nil
	}
	at.hear(w, now)
	at.Wait(&w.Call, now)
	at.shard.applyAll()
	switch a := at.Next(&w.Call, true, now); {
	case a.Do == core.Returns: // the call leaves the lock alone from now on
		one := &r.calls[len(r.calls)-1]
		one.waiter, one.err = nil, at.ended(ctx, w)
		return one.err == nil
	case a.Do == core.Sends && a.Op == core.Acquire:
		x := r.client.exchanges.Get().(*exchange)
		x.Cmd = at.Lock.Command(&w.Call, a.Op, now)
		x.waiter, w.carried = w, x
		at.begins(x, now)
		r.sent = append(r.sent, x)
		w.stage = flying // until it goes on
		at.shard.exit(at)
		return true
	}
	at.shard.exit(at)
	return false
}

// send sends the commands, and returns when they have their answers, or when ctx has ended: then these are landed later.
func (r *row) send(ctx context.Context) {
	if len(r.sent) == 0 {
		return
	}
	all, done := r.sent, make(chan struct{})
	carry := func() {
		r.client.wire.carryAll(context.Background(), all)
		for _, x := range all {
			r.client.landLate(x)
		}
		close(done)
	}
	if !r.client.wire.Start(carry) { // the client is closed, and the calls hear of that
		for _, x := range all {
			x.Answer.Fault = core.NotRun
			r.client.landLate(x)
		}
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// goOn goes on with the call as with any other, unless its caller leaves.
func (c *rowCall) goOn(ctx context.Context, leaves bool) {
	l, w := c.lock, c.waiter
	now := l.shard.take()
	w.stage = running
	if w.abandon(); leaves {
		l.Leave(&w.Call, core.Cancelled, now)
	}
	c.err = l.wait(ctx, w, now)
}

// drop ends a call behind the first lock that was not free. A grant is released in the background.
func (c *rowCall) drop(ctx context.Context) {
	if c.waiter != nil {
		c.goOn(ctx, true)
	}
	if c.hold.begun(c.err) == nil {
		c.hold.ReleaseLater()
	}
}
