package rlock

import (
	"context"
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
	// yieldTime is how long the head waits for the message of its own client's
	// release before it asks all the same.
	yieldTime = 50 * time.Millisecond
	// letTime is how long the head that lets others pass waits for them.
	letTime = 2 * time.Millisecond
	// aloneTime is for how long it lets nobody pass after nobody came.
	aloneTime = 100 * time.Millisecond
	// Without pub/sub waiters poll, at intervals from firstPoll doubling to
	// lastPoll (as Redisson's spin lock), with jitter.
	firstPoll, lastPoll = time.Millisecond, 128 * time.Millisecond
	// After a fault that waiting may cure, the head asks again after firstRetry,
	// doubling to lastRetry.
	firstRetry, lastRetry = 10 * time.Millisecond, 500 * time.Millisecond
)

// forever is the wait of a request that only its context ends.
const forever time.Duration = math.MaxInt64

// A request is what a caller wants.
type request struct {
	owner Owner
	lease time.Duration // 0: until Unlock, kept by the watchdog
	hold  *Hold         // the handle to fill in, nil for Lock
	wait  time.Duration // how long to wait between attempts; 0 is one attempt
}

// A visit is a request that stands in the queue. The shard's mutex protects it.
type visit struct {
	request
	granted bool // the lock is the caller's
	due     bool // it should ask Redis when it may

	until time.Time     // when the wait is over, zero for never
	sleep time.Duration // until it asks again by itself, from the last answer on
	polls int           // in a row, without pub/sub
	fails int           // in a row

	err   error // what Redis said last, if it was an error
	fatal bool  // and waiting does not cure it
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
	if t := r.current(now); t != nil && t.owner == req.owner {
		t.nest(now, req)
		r.exit()
		return nil
	}
	switch cause := c.losses.blocks(n.key, req.owner); {
	case c.closed.Load():
		r.exit()
		return fmt.Errorf("rlock: lock %q: %w", n.key, ErrClosed)
	case cause != nil:
		r.exit()
		return fmt.Errorf("rlock: nested lock %q: unlock what was lost first: %w", n.key, cause)
	case req.wait <= 0 && (r.tenure != nil || r.queue.Len() > 0 || r.busy):
		r.exit()
		return ErrNotAcquired
	}
	w := c.waiters.Get().(*waiter)
	w.Value = visit{request: req, due: true}
	if req.wait < forever {
		w.Value.until = now.Add(req.wait)
	}
	r.queue.Join(w)
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
	var timer *time.Timer
	for {
		switch {
		case v.granted:
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

		head := r.queue.Head() == w && r.tenure == nil && !r.busy
		if head && v.due && !r.yielding {
			r.ask(ctx, w, now)
			continue
		}
		// The wait limits the time between attempts and not an attempt, which would
		// otherwise never succeed where Redis is slower than the wait.
		left := forever
		if !v.until.IsZero() {
			left = time.Until(v.until)
		}
		switch {
		case left <= 0 && v.err != nil:
			return r.giveUp(w, v.err)
		case left <= 0:
			return r.giveUp(w, ErrNotAcquired)
		}
		var message <-chan struct{}
		if head {
			sleep := v.sleep
			if r.yielding {
				sleep = yieldTime // it may not have asked yet, and then has none
			}
			left = min(left, sleep)
			if r.sub != nil {
				message = r.sub.C()
			}
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
		case <-closing:
		}
		now = time.Now()
		mu.Lock()
		if heard {
			r.heard(v)
		}
		if slept {
			v.due = true
			if head {
				r.yielding = false
			}
		}
	}
}

// heard decides what the head does at a message: it asks, or lets others pass.
func (r *room) heard(v *visit) {
	switch {
	case r.yielding:
		r.yielding = false // the message was that of this client's release
	case r.behind > 0:
		r.behind--
	}
	v.due = r.behind == 0
	v.sleep = letTime // if it does not ask
}

// giveUp takes w out of the queue and passes on what it was there for: if it was
// the head, the next one asks. It is called with the mutex held, and gives it
// back.
func (r *room) giveUp(w *waiter, err error) error {
	wasHead := r.queue.Head() == w
	r.queue.Leave(w)
	if wasHead && r.tenure == nil {
		r.wakeHead()
	}
	if r.queue.Len() == 0 {
		r.yielding = false
	}
	w.Drain()
	r.client.waiters.Put(w)
	n := r.name
	r.exit()
	if err == ErrNotAcquired {
		return err
	}
	return fmt.Errorf("rlock: lock %q: %w", n.key, err)
}

// ask sends the acquire of w, the head, and deals with the answer: a tenure, the
// holder's pttl, or an error. The mutex is held before and after.
func (r *room) ask(ctx context.Context, w *waiter, now time.Time) {
	c, v := r.client, &w.Value
	t := c.newTenure(r, v.request, now)
	r.busy = true
	r.shard.mu.Unlock()
	place, a, err := t.acquire(ctx)
	r.shard.mu.Lock()

	now = time.Now()
	r.busy, v.due = false, false
	f, err := diagnose(err)
	switch {
	case err != nil && ctx.Err() != nil:
		if place != nil {
			r.busy = true
			c.background.Add(1)
			go r.undo(t, place)
			return
		}
		t.end()
	case err != nil:
		v.failed(f, err)
		if f == unknown {
			t.disown(now)
			t.ghost = true
		} else {
			t.end()
		}
	case !a.granted:
		t.end()
		v.err, v.fails = nil, 0
		if v.wait > 0 {
			r.subscribe()
		}
		v.sleep = r.patience(v, a.ttl)
	default:
		t.trust.Confirmed()
		switch {
		case c.closed.Load():
			t.disown(now)
		case !t.trust.Valid(now):
			t.disown(now)
			v.failed(notNow, fmt.Errorf("the grant came after %v, when its lease was nearly over", now.Sub(t.sentAt).Round(time.Millisecond)))
		default:
			if r.behind > 0 {
				r.behind, r.alone = 0, now.Add(aloneTime)
			}
			r.grant(t, w, now)
		}
	}
	if place != nil {
		place.leave()
	}
}

// undo releases what an acquire may have been granted, or may be yet, whose
// caller has left while it was in flight. On a connection of the client's own
// the release comes behind the acquire, so that its answer is the answer to
// both: until then the acquire keeps its place, and the next try for the name
// waits. It runs in a goroutine of its own.
func (r *room) undo(t *tenure, place place) {
	c := r.client
	defer c.background.Done()
	released, err := t.releaseCall().do(c.deadline.context(time.Now()), c.redis).AsInt64()
	place.leave()

	r.shard.mu.Lock()
	r.busy = false
	if err != nil || released == 0 && c.config.Client != nil {
		t.disown(time.Now())
		t.ghost = true
	} else {
		t.end()
	}
	r.wakeHead()
	r.exit()
}

// failed notes an error, and how long to wait before the next attempt.
func (v *visit) failed(f fault, err error) {
	v.err = err
	v.fatal = f == never
	v.sleep = jitter(min(firstRetry<<min(v.fails, 10), lastRetry))
	v.fails++
}

// patience is how long the head sleeps after it was denied, if no message comes:
// until the holder's lease is over, or for the next poll.
func (r *room) patience(v *visit, ttl int64) time.Duration {
	sleep := fallbackPoll
	if ttl >= 0 {
		left := time.Duration(ttl) * time.Millisecond
		sleep = min(sleep, left+time.Millisecond+jitter(min(left/10, 20*time.Millisecond)))
	}
	if r.sub == nil || r.sub.Refused() == nil {
		v.polls = 0
		return sleep
	}
	v.polls++
	return min(sleep, jitter(min(firstPoll<<min(v.polls-1, 10), lastPoll)))
}

// jitter returns between half of d and d, so that those who failed together do
// not come back together.
func jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// An answer is what Redis says to an acquire.
type answer struct {
	granted bool
	ttl     int64 // of the holder's lease in milliseconds, if not granted; -1 for none
}

// acquire sends the script. It is called without the mutex, once for a tenure.
// The place is the caller's to leave; it is nil if nothing was sent.
func (t *tenure) acquire(ctx context.Context) (place, answer, error) {
	c, n := t.room.client, t.room.name
	place, err := c.nodes.enter(ctx, n.slot)
	if err != nil {
		return nil, answer{}, err
	}
	ttl, err := call{acquireScript, []string{n.key}, []string{c.milliseconds(t.lease), t.text}}.do(ctx, c.redis).AsInt64()
	if rueidis.IsRedisNil(err) {
		return place, answer{granted: true}, nil
	}
	return place, answer{ttl: ttl}, err
}

// timeUp says why a wait is over, and what Redis said last if that was an error.
func timeUp(ctx context.Context, last error) error {
	if last == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w; Redis said last: %w", ctx.Err(), last)
}
