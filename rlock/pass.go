package rlock

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// Pass ends the hold and passes the lock on: the text that it returns lets one [Client.Resume], in
// any process, go on with the lock within that time. The text is opaque, fit for a URL, and a
// secret. The lock stays for that time, also after [Client.Close]; if nobody resumes it, the first
// waiter gets it.
//
// Pass changes nothing if it returns [ErrInvalidLease], [ErrNotHeld] or [ErrPass]: for a multi-lock
// or a red lock, beside another level in this process, and while a [WithMinHold] of another reader
// lasts. Otherwise the hold ends with cause [ErrPassed], and then one command is sent, also if ctx
// has ended: the error is [ErrLost] if the lock was lost by then, and [ErrUnconfirmed] if Redis
// does not confirm it, and the lock is released.
func (h *Hold) Pass(ctx context.Context, within time.Duration) (string, error) {
	return h.held.Pass(ctx, within)
}

// Resume takes the lock of any kind that [Hold.Pass] has passed on, and returns a handle as
// [Lock.Acquire] does: with the watchdog, or [WithLease]. One call for each text succeeds. The new
// hold has the fencing token of the former one. The error is [ErrInvalidPass] for a text that is
// not from Pass, and [ErrNotPassed] if the lock was resumed or freed before, or its time was over.
// While Redis does not answer, Resume tries again until ctx or [WithWait] ends. After another error
// the lock may have been taken and released.
func (c *Client) Resume(ctx context.Context, pass string, options ...AcquireOption) (*Hold, error) {
	p, err := driver.ParsePass(pass)
	if err != nil {
		return nil, err
	}
	one := driver.NewLock(c.driver, p.Kind, p.Key)
	switch {
	case p.Kind == driver.SemaphoreKind:
		one = driver.NewSemaphore(c.driver, p.Key, p.Permits)
	case p.Shared:
		one = one.ForReaders()
	}
	l := lockOf(c, one)
	req := newRequest(options)
	req.Owner = contract.NewHandleOwner()
	h := newHold(context.WithoutCancel(ctx), l, &req)
	if h.held, err = one.Resume(ctx, &h.scoped, req, &p); err != nil {
		return nil, err
	}
	return h.handle(), nil
}
