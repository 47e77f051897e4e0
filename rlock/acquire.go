package rlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/waitqueue"
)

const (
	// fallbackPoll is the longest sleep of a waiter. Pub/sub is a hint: messages
	// are lost with a connection, a moved slot, a full buffer.
	fallbackPoll = 5 * time.Second
	// Without pub/sub waiters poll, at intervals from firstPoll doubling to
	// lastPoll (as Redisson's spin lock), with jitter.
	firstPoll, lastPoll = time.Millisecond, 128 * time.Millisecond
	// After a fault that waiting may cure, the head asks again after firstRetry,
	// doubling to lastRetry.
	firstRetry, lastRetry = 10 * time.Millisecond, 500 * time.Millisecond
)

// shutTime is how long a shared rueidis client must say that it is closed until it is
// believed: in a Cluster or with Sentinel it says so of the connections to a node that
// has just been replaced.
const shutTime = 2 * time.Second

// forever is the wait of a request that only its context ends.
const forever time.Duration = math.MaxInt64

// A request is what a caller wants.
type request struct {
	owner  Owner
	shared bool          // a read lock
	lease  time.Duration // 0: until Unlock, kept by the watchdog
	hold   *Hold         // the handle to fill in, nil for Lock
	wait   time.Duration // how long to wait between attempts; 0 is one attempt
	part   bool          // for a hold of several locks

	// quit, once closed, ends the wait between attempts as its time would, and no
	// attempt; nil for never.
	quit <-chan struct{}
}

func (r request) over() bool {
	select {
	case <-r.quit:
		return true
	default:
		return false
	}
}

// left returns what is left of a wait that began then.
func (r request) left(began time.Time) time.Duration {
	if r.wait == forever {
		return forever
	}
	return r.wait - time.Since(began)
}

// A visit is a request that stands in the queue. The shard's mutex protects it.
type visit struct {
	request
	granted bool // the lock is the caller's
	due     bool // it should ask Redis when it may
	asking  bool // it does
	counted bool // see room.crowd

	// Of a fair lock, see line.go: the ticket that it waits with, when Redis must know
	// of it, and whether it has asked a last time, when its own time was up.
	ticket *tenure
	tellBy time.Time
	last   bool

	until time.Time     // when the wait is over, zero for never
	sleep time.Duration // until it asks again by itself, from the last answer on
	polls int           // in a row, without pub/sub
	fails int           // in a row

	err   error // what Redis said last, if it was an error
	fatal bool  // and waiting does not cure it
	// shut is since when each attempt was told that the rueidis client is closed.
	shut time.Time
}

type waiter = waitqueue.Waiter[visit]

func newWaiter() any { return waitqueue.NewWaiter[visit]() }

// acquire is the way of a blocking lock (design section 4). It returns nil when
// the caller holds the lock; otherwise nothing is held that the caller would
// have to release.
func (c *Client) acquire(ctx context.Context, n *name, req request) error {
	if n.err != nil {
		return n.err
	}
	if req.lease != 0 {
		if err := c.checkLease(n, req.lease); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("rlock: lock %q: %w", n.key, err)
	}
	now := time.Now()
	r := c.enter(n)
	t := r.current(now)
	if t != nil && t.holds(req.owner) {
		if t.shared && !req.shared {
			r.exit()
			return fmt.Errorf("rlock: lock %q: %w", n.key, errUpgrade(req.owner))
		}
		t.nest(now, req)
		r.exit()
		return nil
	}
	switch cause := c.losses.blocks(lossKey{n.id, n.key, req.owner}, now); {
	case c.closed.Load():
		r.exit()
		return fmt.Errorf("rlock: lock %q: %w", n.key, ErrClosed)
	case cause != nil:
		r.exit()
		return fmt.Errorf("rlock: nested lock %q: unlock what was lost first: %w", n.key, cause)
	case t != nil && r.mayJoin(now, req):
		t.join(now, req)
		r.exit()
		return nil
	case req.wait <= 0 && (r.tenure != nil || r.queue.Len() > 0):
		defer r.exit()
		return r.refusal()
	}
	w := c.waiters.Get().(*waiter)
	w.Value = visit{request: req, due: true}
	if req.wait < forever {
		w.Value.until = now.Add(req.wait)
	}
	r.joinQueue(w)
	return r.await(ctx, w, now)
}

// checkLease refuses a lease that would be over, in the client's eyes, about as
// soon as it began.
func (c *Client) checkLease(n *name, ask time.Duration) error {
	shortest := (2 * c.drift(0)).Round(time.Millisecond) + time.Millisecond
	if ask < shortest {
		return fmt.Errorf("rlock: lock %q: %w of %v: use at least %v, or 0 for the watchdog", n.key, ErrInvalidLease, ask, shortest)
	}
	return nil
}

// await waits in the queue until w has the lock or its caller gives up. It is
// called with the mutex held, and gives it back.
func (r *room) await(ctx context.Context, w *waiter, now time.Time) error {
	v, mu, closing := &w.Value, &r.shard.mu, r.client.ctx.Done()
	began := now
	var timer *time.Timer
	for {
		switch {
		case v.granted:
			if r.line != nil {
				r.line.waited = now.Sub(began)
			}
			w.Drain()
			r.client.waiters.Put(w)
			r.exit()
			return nil
		case r.client.closed.Load():
			return r.giveUp(w, ErrClosed)
		case v.fatal:
			return r.giveUp(w, v.err)
		case ctx.Err() != nil:
			return r.giveUp(w, timeUp(ctx, v.err))
		}

		head := r.mayAsk(w)
		if head && v.due && !r.yielding {
			if r.sub == nil && v.wait > 0 && !v.shared {
				// If it was subscribed to a moment ago, one ask is enough.
				if r.sub = r.client.hub.Join(r.name.channel); r.sub != nil {
					r.listen()
				}
			}
			r.ask(ctx, w, now)
			continue
		}
		// The wait limits the time between attempts and not an attempt, which would
		// otherwise never succeed where Redis is slower than the wait.
		// Nor is the time up before the answer has come to what is in flight here, of
		// others who are gone: the lock may be free. A server that has been silent for
		// longer is not waited for.
		left := forever
		if !v.until.IsZero() {
			left = time.Until(v.until)
			if v.due && !v.inLine() && r.queue.Head() == w && r.tenure == nil && r.busy > 0 {
				left = max(left, time.Until(r.since.Add(silence)))
			}
		}
		switch {
		case left <= 0 && v.inLine() && !v.last:
			// It may have the lock by now, and nobody would be served if all were
			// impatient and each left when its turn came.
			v.last = true
			r.ask(ctx, w, now)
			continue
		case left <= 0 && v.err != nil:
			return r.giveUp(w, v.err)
		case left <= 0 || v.over():
			return r.giveUp(w, r.refusal())
		}
		var message <-chan struct{}
		amongReaders := v.shared && r.queue.Head() == w && r.tenure != nil && r.tenure.shared
		if amongReaders {
			left = min(left, lookTime)
		}
		if head {
			sleep := v.sleep
			switch {
			case r.yielding:
				sleep = yieldTime // it may not have asked yet, and then has none
			case v.inLine():
				sleep = r.line.next.Sub(now)
			}
			left = min(left, sleep)
			if r.sub != nil {
				message = r.sub.C()
			}
		}
		if !head {
			left = min(left, r.untold(v, now))
		}
		r.exit()

		var elapsed <-chan time.Time
		if left < forever {
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
		case <-w.C(): // what woke it has said whether to ask
		case <-message:
			heard = true
		case <-elapsed:
			slept = true
		case <-ctx.Done():
		case <-v.quit:
		case <-closing:
		}
		now = time.Now()
		mu.Lock()
		if heard {
			r.heard(v)
		}
		switch {
		case slept && head:
			v.due, r.yielding = true, false
		case slept && amongReaders && r.tenure != nil:
			v.due = true
			r.tenure.mirror() // are there others yet for whom it waits?
		case slept:
			r.tell(v, now)
		}
	}
}

// errUnanswered is ErrNotAcquired where nobody is known to have the lock.
var errUnanswered = fmt.Errorf("%w, or is about to be: an answer is not in yet", ErrNotAcquired)

// refusal is what a caller gets whose wait is over.
func (r *room) refusal() error {
	if r.tenure == nil && r.busy > 0 {
		return errUnanswered
	}
	return ErrNotAcquired
}

// giveUp takes w out of the queue and passes on what it was there for: if it was
// the head, the next one asks. It is called with the mutex held, and gives it
// back.
func (r *room) giveUp(w *waiter, err error) error {
	wasHead := r.queue.Head() == w
	r.leaveQueue(w)
	r.leave(w.Value.ticket, time.Now())
	switch {
	case wasHead && r.tenure == nil:
		r.wakeHead()
	case wasHead && r.tenure.shared:
		r.admit(time.Now(), false)
	}
	if r.queue.Len() == 0 {
		r.yielding = false
	}
	w.Drain()
	r.client.waiters.Put(w)
	n := r.name
	r.exit()
	if errors.Is(err, ErrNotAcquired) {
		return err
	}
	return fmt.Errorf("rlock: lock %q: %w", n.key, err)
}

// failed notes an error, and how long to wait before the next attempt.
func (v *visit) failed(f fault, err error) {
	now := time.Now()
	switch {
	case !errors.Is(err, rueidis.ErrClosing):
		v.shut = time.Time{}
	case v.shut.IsZero():
		v.shut = now
	case now.Sub(v.shut) >= shutTime:
		f, err = never, fmt.Errorf("%w: the rueidis client in Config.Client is: %w", ErrClosed, err)
	}
	v.err = err
	v.fatal = f == never
	v.sleep = jitter(min(firstRetry<<min(v.fails, 10), lastRetry))
	v.fails++
}

// waitsOn returns how long v goes on to wait if it is denied, as far as it is known by
// now: it may be cancelled.
func (v *visit) waitsOn(ctx context.Context, now time.Time) time.Duration {
	if v.wait <= 0 || v.over() {
		return 0
	}
	left := forever
	if !v.until.IsZero() {
		left = v.until.Sub(now)
	}
	if end, ok := ctx.Deadline(); ok {
		left = min(left, end.Sub(now))
	}
	return max(left, 0)
}

// patience is how long the head sleeps after it was denied, if no message comes:
// until the holder's lease is over, or for the next poll.
func (r *room) patience(v *visit, ttl int64) time.Duration {
	sleep := fallbackPoll
	if r.line != nil || r.name.id == readWriteKind && !v.shared { // each ask says that it waits
		sleep = beat
	}
	if ttl >= 0 {
		left := min(fromMilliseconds(ttl), fallbackPoll)
		sleep = min(sleep, left+time.Millisecond+jitter(min(left/10, 20*time.Millisecond)))
	}
	if r.line != nil || r.sub == nil || r.sub.Refused() == nil {
		v.polls = 0
		return sleep
	}
	v.polls++
	return min(sleep, jitter(min(firstPoll<<min(v.polls-1, 10), lastPoll)))
}

// fromMilliseconds is as long as a Duration can be at most: others' leases may be
// longer.
func fromMilliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// jitter returns between half of d and d, so that those who failed together do
// not come back together.
func jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// timeUp says why a wait is over, and what Redis said last if that was an error.
func timeUp(ctx context.Context, last error) error {
	if last == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w; Redis said last: %w", ctx.Err(), last)
}
