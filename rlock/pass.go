package rlock

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// Pass ends the hold and passes the lock on: who presents the text that it returns to [Client.Resume] within that time
// goes on with the lock, in any process. The text is opaque, fit for a URL or a message, and worth as much as the lock:
// treat it as a secret. Until it is resumed the lock stays with a fixed lease, which nothing renews, also after
// [Client.Close]; then the first waiter gets it, as after any lease that has ended.
//
// The hold must be the only level of its lock in this process, and not of a multi-lock or red lock: else Pass returns
// [ErrPass] and changes nothing, as for [ErrInvalidLease], [ErrNotHeld] and [ErrLost]. Otherwise the hold is over, with the
// cause [ErrPassed]. As Release, Pass completes even if ctx has ended, with one command; if Redis does not confirm it, the
// lock is released and the error is [ErrUnconfirmed].
func (h *Hold) Pass(ctx context.Context, within time.Duration) (string, error) {
	return h.held.Pass(ctx, within)
}

// Resume takes the lock that [Hold.Pass] has passed on, of whatever kind, and returns a handle as [Lock.Acquire] does: with
// the watchdog, or [WithLease]. Of all calls with one text one succeeds. A fencing token is that of the former hold.
//
// It returns [ErrInvalidPass] for a text that no Pass has returned, and [ErrNotPassed] if the lock was resumed before,
// if its time was over, or if it was freed. While Redis does not answer it asks again, until ctx or [WithWait] ends. If it
// fails otherwise, the lock may have been taken and released.
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
	req.Owner = terms.NewHandleOwner()
	h := newHold(context.WithoutCancel(ctx), l, &req)
	if h.held, err = one.Resume(ctx, &h.scoped, req, &p); err != nil {
		return nil, err
	}
	return h.handle(), nil
}
