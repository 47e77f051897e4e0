package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// ErrUnanswered is ErrNotAcquired where nobody is known to have the lock.
var ErrUnanswered = fmt.Errorf("%w, or is about to be: an answer is not in yet", ErrNotAcquired)

// giveUp takes w out of the queue and passes on what it was there for: if it was
// the head, the next one goes on. It is called with the mutex held, and gives it
// back.
func (r *room) giveUp(ctx context.Context, w *waiter, err error) error {
	holder := ""
	if errors.Is(err, context.DeadlineExceeded) {
		holder = r.holder(&w.Value)
	}
	wasHead := r.queue.Head() == w
	r.leaveQueue(w)
	now := time.Now()
	r.inherit(w.Value.ticket, w.Value.lookAt, now)
	w.Value.ticket = nil
	switch {
	case wasHead && r.tenure == nil:
		r.wakeHead()
	case wasHead && r.tenure.shared:
		r.admit(now, false)
	}
	c, n, v := r.client, r.name, w.Value
	r.shard.counts.gaveUp(err, ctx.Err() != nil)
	r.shard.counts.Waited += now.Sub(v.began)
	r.leave(w)
	switch {
	case errors.Is(err, ErrNotAcquired):
	case holder != "":
		err = fmt.Errorf("rlock: lock %q: %w: it is %s", n.Key, err, holder)
	default:
		err = fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	if c.Watches(&v.Request) {
		c.tellGaveUp(ctx, n, &v.Request, err, now.Sub(v.began), v.waits)
	}
	return err
}

// leaveWith ends the wait of a waiter that has the lock. It is called with the mutex held,
// and gives it back.
func (r *room) leaveWith(ctx context.Context, w *waiter) error {
	c, n, v := r.client, r.name, &w.Value
	if !c.Watches(&v.Request) {
		r.leave(w)
		return nil
	}
	req, waited, waits := v.Request, v.waited, v.waits
	r.leave(w)
	c.tellAcquired(ctx, n, &req, req.Way, waited, waits)
	return nil
}

// leave ends the wait, whatever came of it, and gives the mutex back.
func (r *room) leave(w *waiter) {
	if w.Value.waits {
		r.shard.counts.Waiting--
	}
	w.Drain()
	r.client.waiters.Put(w)
	r.exit()
}

// failed notes an error, and how long to wait before the next attempt.
func (v *waiting) failed(f wire.Fault, err error, now time.Time) {
	switch {
	case !errors.Is(err, rueidis.ErrClosing):
		v.shut = time.Time{}
	case v.shut.IsZero():
		v.shut = now
	case now.Sub(v.shut) >= shutTime:
		f, err = wire.Never, fmt.Errorf("%w: the rueidis client in Config.Client is: %w", wire.ErrClosed, err)
	}
	v.err = err
	v.fatal = f == wire.Never
	v.rest = now.Add(wire.Jitter(min(wire.FirstRetry<<min(v.fails, 10), wire.LastRetry)))
	v.lookAt = v.rest
	v.fails++
}
