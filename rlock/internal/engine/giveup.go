package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// giveUp takes w out of the queue and passes on what it was there for: if it was
// the head, the next one goes on. It is called with the mutex held, and gives it
// back.
func (r *room) giveUp(ctx context.Context, w *waiter, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = r.withHolder(w, err)
	}
	wasHead := r.head() == w
	r.leaveQueue(w)
	now := time.Now()
	r.inherit(w.ticket, w.lookAt, now)
	w.ticket = nil
	switch {
	case wasHead && r.tenure == nil:
		r.wakeHead()
	case wasHead && r.tenure.shared:
		r.admit(now, false)
	}
	c, n, req, began, waits := r.client, r.name, w.Request, w.began, w.waits
	r.shard.counts.gaveUp(err, ctx.Err() != nil)
	r.shard.counts.Waited += now.Sub(began)
	r.leave(w)
	if !errors.Is(err, ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", n.Key, err)
	}
	return c.gaveUp(ctx, n, &req, err, now.Sub(began), waits)
}

// leaveWith ends the wait of a waiter that has the lock. It is called with the mutex held,
// and gives it back.
func (r *room) leaveWith(ctx context.Context, w *waiter) error {
	c, n, req, waited, waits := r.client, r.name, w.Request, w.waited, w.waits
	r.leave(w)
	c.tellAcquired(ctx, n, &req, waited, waits)
	return nil
}

// leave ends the wait, whatever came of it, and gives the mutex back.
func (r *room) leave(w *waiter) {
	if w.waits {
		r.shard.counts.Waiting--
	}
	w.Drain()
	if w.timer != nil {
		w.timer.Stop()
	}
	r.client.waiters.Put(w)
	r.exit()
}
