package elect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// errUnrenewed is the cause for which the context of work ends a third of the lease before the
// lease does.
var errUnrenewed = fmt.Errorf("%w: the lease was not renewed for two thirds of it", rlock.ErrLost)

// patience is the time for the work to stop if the lock was lost before its lease was known.
const patience = time.Second

// A term is the work in one hold of the lock.
type term struct {
	hold *rlock.Hold
	work context.Context
	end  context.CancelCauseFunc // ends work

	mu      sync.Mutex     // guards the beginning of work against its end: held by begin, and by close
	running sync.WaitGroup // the calls of Do
}

// serve calls lead in a term of this hold, and releases the hold. resigned reports whether lead has
// returned before the end of its context.
func (c *Candidate) serve(ctx context.Context, hold *rlock.Hold, lead func(context.Context, *rlock.Hold) error) (resigned bool, err error) {
	t := &term{hold: hold}
	t.work, t.end = context.WithCancelCause(hold.With(ctx))
	watched, over := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { c.watch(watched, t) })
	c.current.Store(t)
	defer func() { // deferred, since lead may panic
		t.close()
		c.current.Store(nil)
		over()
		watch.Wait()
		_ = hold.Release(ctx) // rlock has logged a loss, and retries a release without an answer
	}()
	err = lead(t.work, hold)
	cause := context.Cause(t.work)
	if cause != nil && (errors.Is(err, cause) || errors.Is(err, t.work.Err())) {
		err = nil
	}
	return cause == nil, err
}

// begin counts a function of the term's work, unless the work has ended.
func (t *term) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.work.Err() != nil {
		return false
	}
	t.running.Add(1)
	return true
}

// close ends the work, and returns when all of its functions have returned.
func (t *term) close() {
	t.mu.Lock()
	t.end(nil)
	t.mu.Unlock()
	t.running.Wait()
}

// watch looks for each renewal until ctx ends. If no renewal comes, watch ends the work a third of
// the lease before the lease ends. If ctx has not ended when the lease ends, it calls overrun.
func (c *Candidate) watch(ctx context.Context, t *term) {
	var third time.Duration // a third of the longest lease so far, since the first one may be a claim
	for {
		end := t.hold.ValidUntil() // in the past once the lock is lost
		third = max(third, time.Until(end)/3)
		last := end.Add(-third)
		if !time.Now().Before(last) {
			break
		}
		select {
		case <-time.After(time.Until(last)):
		case <-t.hold.Context().Done():
		case <-ctx.Done():
			return
		}
	}
	t.end(errUnrenewed)
	select {
	case <-time.After(cmp.Or(third, patience)):
		c.overrun()
	case <-ctx.Done():
	}
}
