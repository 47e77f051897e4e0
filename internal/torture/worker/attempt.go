package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
)

// An attempt is one call that takes a lock, which its caller may give up.
type attempt struct {
	ctx context.Context // for the call

	visit  *visit
	op     history.Op
	call   calls
	began  time.Time
	giveUp *giveUp // nil if it is not cancelled
}

// attempt notes that op is about to be called. Close the attempt afterwards.
func (v *visit) attempt(ctx context.Context, op history.Op) *attempt {
	a := &attempt{ctx: ctx, visit: v, op: op, began: time.Now()}
	if v.in(3) {
		a.giveUp = giveUpAfter(ctx, v.upTo(v.worker.Lease))
		a.ctx = a.giveUp.ctx
	} else {
		v.doing.Store(&doing{a.String(), a.began})
	}
	a.call = v.begin(op)
	return a
}

func (a *attempt) String() string {
	return fmt.Sprintf("%s of %s by %s", a.op.Method, a.visit.lock, a.visit.worker.name)
}

// returned notes that the call has returned: with the lock, if err is nil.
func (a *attempt) returned(result history.Result, err error) {
	took := time.Since(a.began)
	if err != nil {
		result = history.Result{Outcome: failed(err), Error: err.Error()}
	}
	a.call.End(result)
	a.visit.doing.Store(nil)
	late, bare, cancelled := time.Duration(0), time.Duration(0), false
	if a.giveUp != nil {
		late, bare, cancelled = a.giveUp.returned()
	}
	a.visit.note(func(s *Settled) {
		s.Calls++
		if err == nil {
			s.Acquired++
		}
		if err == nil && took > s.Longest.For {
			s.Longest = Wait{took, a.String()}
		}
		if cancelled && result.Outcome == history.Cancelled {
			s.Cancels.Calls = append(s.Cancels.Calls, late)
			s.Cancels.Bare = append(s.Cancels.Bare, bare)
		}
	})
}

// close ends the context of the call.
func (a *attempt) close() {
	if a.giveUp != nil {
		a.giveUp.cancel()
	}
}

// failed returns the outcome for an error of a method that takes a lock.
func failed(err error) history.Outcome {
	switch {
	case errors.Is(err, rlock.ErrNotAcquired):
		return history.Refused
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return history.Cancelled
	}
	return history.Failed
}

// gaveBack returns the outcome for the result of a method that gives a lock back.
func gaveBack(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Released
	case errors.Is(err, rlock.ErrLost):
		return history.Lost
	case errors.Is(err, rlock.ErrUnconfirmed):
		return history.Unconfirmed
	case errors.Is(err, rlock.ErrNotHeld):
		return history.NotHeld
	}
	return history.Failed
}

// A giveUp ends the context of a call at a given time.
type giveUp struct {
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	at     atomic.Pointer[time.Time] // when the timer ended ctx; nil if it has not
	bare   chan time.Duration        // the delay of a goroutine that waited for it
}

func giveUpAfter(ctx context.Context, d time.Duration) *giveUp {
	g := &giveUp{bare: make(chan time.Duration, 1)}
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.timer = time.AfterFunc(d, func() {
		now := time.Now()
		g.at.Store(&now)
		g.cancel()
	})
	go func() {
		defer close(g.bare)
		<-g.ctx.Done()
		now := time.Now()
		if at := g.at.Load(); at != nil { // otherwise the caller ended it earlier
			g.bare <- now.Sub(*at)
		}
	}()
	return g
}

// returned is called when the call has returned: it reports the delay after the end of its
// context, and that of another goroutine, if the context has ended.
func (g *giveUp) returned() (late, bare time.Duration, cancelled bool) {
	now := time.Now()
	if g.timer.Stop() {
		return 0, 0, false
	}
	bare = <-g.bare
	at := g.at.Load()
	if at == nil { // the worker ended at that moment
		return 0, 0, false
	}
	return now.Sub(*at), bare, true
}
