package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// subscribeTime is how long a waiter waits for its subscription to be confirmed before
	// it joins as one that polls.
	subscribeTime = 250 * time.Millisecond
	// Without pub/sub waiters poll, at intervals from firstPoll doubling to
	// lastPoll (as Redisson's spin lock), with jitter.
	firstPoll, lastPoll = time.Millisecond, 128 * time.Millisecond
	// queueLeast is the shortest wait that is worth a place in the queue: the ticket of a
	// shorter one would often be granted when its waiter has left.
	queueLeast = 5 * time.Millisecond
)

// A Request is what a caller wants.
type Request struct {
	Owner  Owner
	Shared bool          // a read lock
	Whole  *terms.Whole  // that it is for, nil for none
	Lost   func(error)   // called when the hold has ended by loss or by Close, before anything can follow; nil for nothing
	Way    Way           // how it was acquired, set when it was
	Lease  time.Duration // 0: until Unlock, kept by the watchdog
	hold   *hold         // the handle to fill in, nil for Lock
	Wait   time.Duration // how long to wait between attempts; 0 is one attempt
	Linger time.Duration // how long the lock lingers after it; 0: as the Config says, negative: not at all
	place  *Place        // where it is made, nil if that is not recorded
	Caller uint64        // the goroutine that makes it, if that is not the owner; 0 if that is not known

	// Quit, once closed, ends the wait between attempts as its time would, and no
	// attempt; nil for never.
	Quit <-chan struct{}
}

// caller returns the goroutine that makes the request, 0 if that is not known.
func (r *Request) caller() uint64 {
	if id := r.Owner.Goroutine(); id != 0 {
		return id
	}
	return r.Caller
}

func (r *Request) over() bool {
	select {
	case <-r.Quit:
		return true
	default:
		return false
	}
}

// Left returns what is left of a wait that began then.
func (r Request) Left(began time.Time) time.Duration {
	if r.Wait == Forever {
		return Forever
	}
	return r.Wait - time.Since(began)
}

// acquire is the way of a blocking lock. It returns nil when the caller holds the lock;
// otherwise nothing is held that the caller would have to release.
func (c *Client) acquire(ctx context.Context, n *Name, req Request) error {
	if err := c.check(ctx, n, &req); err != nil {
		return c.gaveUp(ctx, n, &req, err, 0, false)
	}
	req.place = c.Place()
	now := time.Now()
	r := c.enter(n)
	ok, err := r.atOnce(&req, now)
	switch {
	case err != nil:
		r.shard.counts.gaveUp(err, false)
		r.exit()
		return c.gaveUp(ctx, n, &req, err, 0, false)
	case ok:
		r.exit()
		c.tellAcquired(ctx, n, &req, 0, false)
		return nil
	}
	if t := r.tenure; t != nil && t.phase == lingering {
		r.letGo(t, now)
	}
	w := c.waiters.Get().(*waiter)
	*w = waiter{Waiter: w.Waiter, timer: w.timer, Request: req, began: now, until: never}
	if req.Wait < Forever {
		w.until = now.Add(req.Wait)
	}
	r.joinQueue(w)
	return r.await(ctx, w, now)
}

// check refuses a request that no room is needed to refuse.
func (c *Client) check(ctx context.Context, n *Name, req *Request) error {
	if n.Err != nil {
		return n.Err
	}
	if err := c.CheckLease(n, req.Lease); err != nil {
		return err
	}
	if err := wire.Over(ctx); err != nil {
		return fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return nil
}

// CheckLease refuses a lease that would be over, in the client's eyes, about as
// soon as it began. 0 is none.
func (c *Client) CheckLease(n *Name, ask time.Duration) error {
	if ask == 0 {
		return nil
	}
	shortest := (2 * c.drift(0)).Round(time.Millisecond) + time.Millisecond
	if ask < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: use at least %v, or 0 for the watchdog", n.Key, ErrInvalidLease, ask, shortest)
	}
	return nil
}

// atOnce serves a request that need not wait, or is not to: it nests, joins readers, begins
// in a lingering tenure, or is refused. It reports whether the lock was acquired.
func (r *room) atOnce(req *Request, now time.Time) (ok bool, err error) {
	c, n, t := r.client, r.name, r.current(now)
	if t != nil && t.holds(req.Owner) {
		if t.shared && !req.Shared {
			return false, fmt.Errorf("rlock: lock %q: %w", n.Key, errUpgrade(req.Owner))
		}
		req.Way = ByNesting
		t.nest(now, *req)
		return true, nil
	}
	if c.Closed.Load() {
		return false, fmt.Errorf("rlock: lock %q: %w", n.Key, wire.ErrClosed)
	}
	if cause := c.Losses.Blocks(n.lossKey(req.Owner), now); cause != nil {
		return false, fmt.Errorf("rlock: nested lock %q: unlock what was lost first: %w", n.Key, cause)
	}
	switch {
	case r.mayReuse(now, req):
		req.Way = ByLinger
		t.begin(now, *req)
		t.reused = true
	case r.mayJoin(now, *req):
		req.Way = ByJoining
		t.join(now, *req)
	case req.Wait <= 0 && r.isTaken():
		return false, r.refusal(&waiter{Request: *req})
	default:
		return false, nil
	}
	return true, nil
}

// isTaken reports whether somebody here has the lock or waits for it.
func (r *room) isTaken() bool {
	return r.tenure != nil && r.tenure.phase == held || r.queue.Len() > 0
}

// await waits in the queue until w has the lock or its caller gives up. It is
// called with the mutex held, and gives it back.
func (r *room) await(ctx context.Context, w *waiter, now time.Time) error {
	for {
		switch {
		case w.granted:
			return r.leaveWith(ctx, w)
		case r.client.Closed.Load():
			return r.giveUp(ctx, w, wire.ErrClosed)
		case w.fatal:
			return r.giveUp(ctx, w, w.err)
		case ctx.Err() != nil:
			return r.giveUp(ctx, w, wire.TimeUp(ctx, w.err))
		}
		op, at := r.next(w, now)
		if op != resting {
			r.attempt(ctx, w, op, now)
			now = time.Now()
			continue
		}
		left := r.left(w, now)
		switch {
		case left <= 0 && w.err != nil:
			return r.giveUp(ctx, w, w.err)
		case left <= 0 || w.over():
			return r.giveUp(ctx, w, r.refusal(w))
		}
		now = r.sleep(ctx, w, min(left, timeLeft(at, now), r.patience(w, now)))
	}
}

// left returns how long w may go on waiting.
//
// The wait limits the time between attempts and not an attempt, which would otherwise never
// succeed where Redis is slower than the wait. Nor is the time up while a command of a caller
// that has left is in flight here: the lock may be free. A server that has been silent for
// longer is not waited for.
func (r *room) left(w *waiter, now time.Time) time.Duration {
	left := timeLeft(w.until, now)
	switch {
	case w.try == callFirst:
		return max(left, w.rest.Sub(now))
	case w.try < callFirst && w.ticket == nil && r.head() == w && r.tenure == nil && r.inFlight > 0:
		return max(left, r.since.Add(Silence).Sub(now))
	}
	return left
}

// sleep gives the mutex back for so long at most, until there may be something to do.
func (r *room) sleep(ctx context.Context, w *waiter, most time.Duration) (now time.Time) {
	settled, done := r.settledSub(w), r.client.Redis.Done()
	r.exitWaiting(ctx, w)

	elapsed := w.after(most)
	heard := false
	select {
	case <-w.C(): // the state of the room has changed
	case <-settled:
		heard = true
	case <-elapsed:
	case <-ctx.Done():
	case <-w.Quit:
	case <-done:
	}
	r.shard.mu.Lock()
	now = time.Now()
	if heard {
		r.lookNow(now)
	}
	return now
}

// settledSub is where the head of the queue hears that the subscription was confirmed, or
// refused.
func (r *room) settledSub(w *waiter) <-chan struct{} {
	if r.head() != w || r.sub == nil {
		return nil
	}
	return r.sub.C()
}

// exitWaiting gives the mutex back since w has to wait, which is counted and told once.
func (r *room) exitWaiting(ctx context.Context, w *waiter) {
	if w.waits {
		r.exit()
		return
	}
	w.waits = true
	r.shard.counts.Waiting++
	r.client.diag.Waits()
	c, n := r.client, r.name
	r.exit()
	if c.Watches(&w.Request) {
		c.Observer.Waiting.Tell(ctx, n.event(w.Owner, w.Shared))
	}
}

// next returns what is to be sent for w now, or until when there is nothing, which is never
// over if w is to be woken.
func (r *room) next(w *waiter, now time.Time) (operation, time.Time) {
	mayAcquire := r.head() == w && r.tenure == nil && r.inFlight == 0
	switch {
	case w.ticket != nil:
		return w.nextLook(now)
	case w.try == nudgeFirst:
		return nudging, never
	case now.Before(w.rest):
		return resting, w.rest
	case mayAcquire && w.try == callFirst:
		w.try = noTry
		return acquiring, never
	case w.queues(now):
		return r.nextInQueue(w, mayAcquire, now)
	case mayAcquire && w.try < callFirst:
		return acquiring, never
	}
	return resting, never
}

// nextLook is next for a waiter with a ticket.
func (w *waiter) nextLook(now time.Time) (operation, time.Time) {
	switch {
	case w.ticket.phase != queued: // a release has it join, and is not answered yet
		return resting, never
	case !w.last && !now.Before(w.until):
		// It may have the lock by now, and nobody would be served if all were impatient and
		// each left when its turn came.
		w.last = true
	case now.Before(w.lookAt):
		return resting, w.lookAt
	}
	return looking, never
}

// nextInQueue is next for a waiter that needs a ticket, if its first attempt is not granted.
func (r *room) nextInQueue(w *waiter, mayAcquire bool, now time.Time) (operation, time.Time) {
	switch {
	case mayAcquire || r.name.kind().strict:
	case !r.isHeldBack(w):
		return resting, never
	case now.Sub(w.began) < readersTime:
		return resting, w.began.Add(readersTime)
	}
	if r.othersWaited(w, now) {
		r.subscribe()
	}
	if mayAcquire && w.try == firstTry && !r.listening() {
		return acquiring, never
	}
	r.subscribe()
	patient := r.subscribed.Add(subscribeTime)
	if !r.listening() && r.sub.Refused() == nil && now.Before(patient) {
		return resting, patient
	}
	return joining, never
}

// othersWaited reports whether others have waited for the lock a moment ago, by what is left
// of a subscription: then w needs a ticket at once.
func (r *room) othersWaited(w *waiter, now time.Time) bool {
	lingers := r.client.lingerOf(r, &w.Request) > 0 && !r.backsOff(now)
	return r.sub == nil && !lingers && r.client.hub.Confirmed(r.name.turn)
}
