package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/waitqueue"
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
	// readersTime is how often a reader that waits behind readers of this client, since
	// others wait for them to go, has Redis asked whether these still do.
	readersTime = time.Second
	// Silence is how long a server may leave a command unanswered before it is taken
	// for dead, until it answers.
	Silence = 250 * time.Millisecond
)

// shutTime is how long a shared rueidis client must say that it is closed until it is
// believed: in a Cluster or with Sentinel it says so of the connections to a node that
// has just been replaced.
const shutTime = 2 * time.Second

// Forever is the wait of a request that only its context ends.
const Forever time.Duration = math.MaxInt64

// A Request is what a caller wants.
type Request struct {
	Owner  Owner
	shared bool          // a read lock
	Whole  Whole         // that it is for, nil for none
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
	if r.Owner.ID < firstOwner {
		return r.Owner.ID
	}
	return r.Caller
}

func (r Request) over() bool {
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

// A try is what a waiter may do without a ticket.
type try uint8

const (
	firstTry   try = iota // send an acquire
	nudgeFirst            // the same after a nudge: the lock was free, and others waited for it
	callFirst             // the same a little later: a holder that may linger was called
	noTry                 // nothing: its acquire was denied
)

// A waiter is a request that waits in the local queue. The shard's mutex protects it.
type waiter struct {
	*waitqueue.Waiter[*waiter] // its place there
	Request
	began    time.Time
	waited   time.Duration // until it was granted
	granted  bool          // the lock is the caller's
	long     bool          // it was told that it waits for a long time
	selfTold bool          // it was told that it waits for its own goroutine
	waits    bool          // it has waited for anything but the answer to an attempt
	try      try           // what it may do without a ticket
	last     bool          // it has looked a last time, when its own time was up
	again    time.Time     // callFirst: when it sends the acquire
	counted  bool          // see room.crowd

	ticket *tenure   // that stands for it in Redis, nil for none
	lookAt time.Time // when to look for the ticket next

	until time.Time // when the wait is over, zero for never
	rest  time.Time // until when nothing is sent, after a fault
	polls int       // in a row, without pub/sub

	guestEnds  time.Time // when the lease of the guest ends that had the lock at the last look
	guestLooks int       // since it took the lock, see followGuest

	fails int // in a row

	holder string // that Redis named last, "" if it named none

	err   error // what Redis said last, if it was an error
	fatal bool  // and waiting does not cure it
	// shut is since when each attempt was told that the rueidis client is closed.
	shut time.Time
}

// had notes that the waiter has the lock.
func (r *room) had(w *waiter, way Way, now time.Time) {
	w.granted, w.Way = true, way
	w.waited = max(now.Sub(w.began), 0)
	r.shard.counts.Waited += w.waited
}

// queues reports whether the request is to wait in Redis' queue.
func (w *waiter) queues(now time.Time) bool {
	return w.Wait > 0 && !w.over() && (w.until.IsZero() || w.until.Sub(now) >= queueLeast)
}

func newWaiter() any {
	w := &waiter{Waiter: waitqueue.NewWaiter[*waiter]()}
	w.Value = w
	return w
}

// acquire is the way of a blocking lock. It returns nil when the caller holds the lock;
// otherwise nothing is held that the caller would have to release.
func (c *Client) acquire(ctx context.Context, n *Name, req Request) error {
	if n.Err != nil {
		return c.refused(ctx, n, &req, n.Err)
	}
	if req.Lease != 0 {
		if err := c.CheckLease(n, req.Lease); err != nil {
			return c.refused(ctx, n, &req, err)
		}
	}
	if err := wire.Over(ctx); err != nil {
		return c.refused(ctx, n, &req, fmt.Errorf("rlock: lock %q: %w", n.Key, err))
	}
	if c.Config.RecordPlaces {
		req.place = c.Place()
	}
	now := time.Now()
	r := c.enter(n)
	t := r.current(now)
	if t != nil && t.holds(req.Owner) {
		if t.shared && !req.shared {
			r.shard.counts.Failed++
			r.exit()
			return c.refused(ctx, n, &req, fmt.Errorf("rlock: lock %q: %w", n.Key, errUpgrade(req.Owner)))
		}
		t.nest(now, req)
		r.exit()
		if c.Watches(&req) {
			c.tellAcquired(ctx, n, &req, ByNesting, 0, false)
		}
		return nil
	}
	switch cause := c.Losses.Blocks(LossKey{n.KindID, n.Key, req.Owner}, now); {
	case c.Closed.Load():
		r.shard.counts.Failed++
		r.exit()
		return c.refused(ctx, n, &req, fmt.Errorf("rlock: lock %q: %w", n.Key, wire.ErrClosed))
	case cause != nil:
		r.shard.counts.Failed++
		r.exit()
		return c.refused(ctx, n, &req, fmt.Errorf("rlock: nested lock %q: unlock what was lost first: %w", n.Key, cause))
	case t != nil && t.phase == lingering && t.mayReuse(now, &req):
		t.reuse(now, req)
		r.exit()
		if c.Watches(&req) {
			c.tellAcquired(ctx, n, &req, ByLinger, 0, false)
		}
		return nil
	case t != nil && t.phase != lingering && r.mayJoin(now, req):
		t.join(now, req)
		r.exit()
		if c.Watches(&req) {
			c.tellAcquired(ctx, n, &req, ByJoining, 0, false)
		}
		return nil
	case req.Wait <= 0 && (t != nil && t.phase != lingering || r.queue.Len() > 0):
		r.shard.counts.Denied++
		err := r.refusal(&waiter{Request: req})
		r.exit()
		return c.refused(ctx, n, &req, err)
	}
	if t != nil && t.phase == lingering {
		r.letGo(t, now)
	}
	w := c.waiters.Get().(*waiter)
	*w = waiter{Waiter: w.Waiter, Request: req, began: now}
	if req.Wait < Forever {
		w.until = now.Add(req.Wait)
	}
	r.joinQueue(w)
	return r.await(ctx, w, now)
}

// CheckLease refuses a lease that would be over, in the client's eyes, about as
// soon as it began.
func (c *Client) CheckLease(n *Name, ask time.Duration) error {
	shortest := (2 * c.drift(0)).Round(time.Millisecond) + time.Millisecond
	if ask < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: use at least %v, or 0 for the watchdog", n.Key, ErrInvalidLease, ask, shortest)
	}
	return nil
}

// await waits in the queue until w has the lock or its caller gives up. It is
// called with the mutex held, and gives it back.
func (r *room) await(ctx context.Context, w *waiter, now time.Time) error {
	closing := r.client.Redis.Done()
	var timer *time.Timer
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
		if w.try == nudgeFirst {
			r.inFlight++
			r.shard.mu.Unlock()
			err := r.nudge(ctx)
			r.shard.mu.Lock()
			r.inFlight--
			if now = time.Now(); err == nil {
				r.attempt(ctx, w, acquiring, now)
			} else {
				f, err := wire.Diagnose(err)
				w.failed(f, err, now)
			}
			if w.try == nudgeFirst {
				w.try = noTry
			}
			continue
		}
		// The wait limits the time between attempts and not an attempt, which would
		// otherwise never succeed where Redis is slower than the wait.
		// Nor is the time up while a command of a caller that has left is in flight here:
		// the lock may be free. A server that has been silent for longer is not waited for.
		left := Forever
		if !w.until.IsZero() {
			left = time.Until(w.until)
			if w.ticket == nil && w.try == firstTry && r.head() == w && r.tenure == nil && r.inFlight > 0 {
				left = max(left, time.Until(r.since.Add(Silence)))
			}
			if w.try == callFirst {
				left = max(left, w.again.Sub(now))
			}
		}
		switch {
		case left <= 0 && w.ticket != nil && w.ticket.phase == queued && !w.last:
			// It may have the lock by now, and nobody would be served if all were
			// impatient and each left when its turn came.
			w.last = true
			r.attempt(ctx, w, looking, now)
			now = time.Now()
			continue
		case left <= 0 && w.err != nil:
			return r.giveUp(ctx, w, w.err)
		case left <= 0 || w.over():
			return r.giveUp(ctx, w, r.refusal(w))
		}
		if !at.IsZero() {
			left = min(left, at.Sub(now))
		}
		if patience := r.patienceLeft(w, now); patience <= 0 {
			r.tellLongWait(w, now)
		} else {
			left = min(left, patience)
		}
		head := r.head() == w
		amongReaders := head && w.shared && r.tenure != nil && r.tenure.shared
		if amongReaders {
			left = min(left, readersTime)
		}
		var message <-chan struct{}
		if head && r.sub != nil {
			message = r.sub.C()
		}
		first := !w.waits
		if first {
			w.waits = true
			r.shard.counts.Waiting++
		}
		c, n, lock := r.client, r.name, w.Request
		r.exit()
		if first && c.Watches(&lock) {
			c.Observer.Waiting(ctx, c.infoOf(n, lock.Owner, lock.shared))
		}

		var elapsed <-chan time.Time
		if left < Forever {
			if timer == nil {
				timer = time.NewTimer(left)
				defer timer.Stop()
			} else {
				timer.Reset(left)
			}
			elapsed = timer.C
		}
		heard, slept := false, false
		select {
		case <-w.C(): // the state of the room has changed
		case <-message:
			heard = true
		case <-elapsed:
			slept = true
		case <-ctx.Done():
		case <-w.Quit:
		case <-closing:
		}
		r.shard.mu.Lock()
		now = time.Now()
		if heard { // the subscription was confirmed, or refused
			r.lookNow(now)
		}
		if slept && amongReaders && r.tenure != nil {
			r.tenure.mirror()
		}
	}
}

// next returns what is to be sent for w now, or until when there is nothing; the zero time
// says until w is woken.
func (r *room) next(w *waiter, now time.Time) (operation, time.Time) {
	n := r.name
	if t := w.ticket; t != nil {
		switch {
		case t.phase != queued: // a release has it join, and is not answered yet
			return resting, time.Time{}
		case now.Before(w.lookAt):
			return resting, w.lookAt
		}
		return looking, time.Time{}
	}
	mayAcquire := r.head() == w && r.tenure == nil && r.inFlight == 0
	switch {
	case now.Before(w.rest):
		return resting, w.rest
	case !mayAcquire && !(n.kind().strict && w.queues(now)):
		return resting, time.Time{}
	case w.queues(now) && r.sub == nil && (r.client.lingerOf(r, &w.Request) <= 0 || r.backsOff(now)) && r.client.hub.Confirmed(n.turn):
		r.subscribe() // others waited a moment ago
	}
	switch {
	case mayAcquire && w.try == firstTry && (!r.listening() || !w.queues(now)):
		return acquiring, time.Time{}
	case mayAcquire && w.try == callFirst:
		if now.Before(w.again) {
			return resting, w.again
		}
		w.try = noTry
		return acquiring, time.Time{}
	case !w.queues(now):
		return resting, time.Time{}
	}
	r.subscribe()
	patient := r.subscribed.Add(subscribeTime)
	if !r.listening() && r.sub.Refused() == nil && now.Before(patient) {
		return resting, patient
	}
	return joining, time.Time{}
}
