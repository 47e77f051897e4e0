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

// deepest is the largest number of levels in a visit.
const deepest = 4

// A visit is one owner at one lock.
type visit struct {
	*hand
	lock    lock
	owner   string // in the history; "" if each handle is its own
	carried bool   // the owner is in the context
}

// A level is one level of a lock that a visit has taken.
type level struct {
	lock  *rlock.Lock
	op    history.Op // the operation that takes it
	call  calls
	owner string
	lease time.Duration // 0: kept by the watchdog
	hold  *rlock.Hold   // its handle, nil if it was taken without
	look  func() history.Belief
	given bool
}

// level takes one level of the lock in a random way, inside of another or of none, uses it
// for more levels and for work, and gives it back.
func (v *visit) level(ctx context.Context, depth int, outer *level) {
	lock, shared := v.lock.choose(v, outer)
	method := v.method()
	lease, wait := v.terms(method)
	op := history.Op{Worker: v.number, Method: method, Owner: v.owner, Lease: lease, Kept: lease == 0, Shared: shared}
	if op.Kept {
		op.Lease = v.worker.Lease
	}
	a := v.attempt(ctx, op)
	defer a.close()
	l := &level{lock: lock, op: op, call: a.call, owner: v.owner, lease: lease}
	if method == history.Do {
		v.do(ctx, a, l, depth)
		return
	}
	hold, err := l.take(a.ctx, wait)
	if err != nil {
		a.returned(history.Result{}, err)
		return
	}
	l.hold = hold
	a.returned(v.took(ctx, l, nil), nil)
	if outer != nil && !outer.op.Shared && shared && outer.op.Method != history.Do && v.in(2) {
		v.giveBack(ctx, outer) // the owner goes on reading
	}
	v.inside(ctx, l, depth)
	v.giveBack(ctx, l)
}

// do is level for Do, whose acquire ends where its function begins.
func (v *visit) do(ctx context.Context, a *attempt, l *level, depth int) {
	var end calls
	err := l.lock.Do(a.ctx, func(held context.Context) error {
		result := v.took(ctx, l, held)
		result.Watched = a.giveUp == nil // otherwise held may end before the loss
		a.returned(result, nil)
		v.inside(ctx, l, depth)
		end = v.begin(history.Op{Worker: v.number, Method: history.DoEnd, Owner: l.owner, Shared: l.op.Shared})
		return nil
	})
	if end == nil {
		a.returned(history.Result{}, err)
		return
	}
	end.End(history.Result{Outcome: gaveBack(err), Error: text(err)})
}

// method chooses how to take a level. Only an owner that is not a handle's own
// may nest.
func (v *visit) method() history.Method {
	handles := []history.Method{history.Acquire, history.TryAcquire}
	others := []history.Method{history.Lock, history.LockFor, history.TryLock, history.TryLockFor, history.Do}
	if v.owner == "" || v.carried && v.in(3) {
		return handles[v.random.IntN(len(handles))]
	}
	return others[v.random.IntN(len(others))]
}

// terms chooses the lease, 0 for the watchdog's, and the time to wait for the lock, 0 if only
// the context limits it.
func (v *visit) terms(method history.Method) (lease, wait time.Duration) {
	switch {
	case method == history.LockFor:
		lease = 50*time.Millisecond + v.upTo(v.worker.Lease)
	case method != history.Lock && method != history.TryLock && method != history.Do:
		if v.in(2) {
			lease = 50*time.Millisecond + v.upTo(v.worker.Lease)
		}
	}
	if method == history.TryLockFor || method == history.Acquire && v.in(3) {
		wait = time.Millisecond + v.upTo(v.worker.Lease)
	}
	return lease, wait
}

// take calls the method.
func (l *level) take(ctx context.Context, wait time.Duration) (hold *rlock.Hold, err error) {
	var got bool
	switch l.op.Method {
	case history.Lock:
		return nil, l.lock.Lock(ctx)
	case history.LockFor:
		return nil, l.lock.LockFor(ctx, l.lease)
	case history.TryLock:
		got, err = l.lock.TryLock(ctx)
	case history.TryLockFor:
		got, err = l.lock.TryLockFor(ctx, wait, l.lease)
	case history.TryAcquire:
		return l.lock.Acquire(ctx, rlock.WithWait(0), rlock.WithLease(l.lease))
	case history.Acquire:
		options := []rlock.AcquireOption{rlock.WithLease(l.lease)}
		if wait > 0 {
			options = append(options, rlock.WithWait(wait))
		}
		return l.lock.Acquire(ctx, options...)
	}
	if err == nil && !got {
		err = rlock.ErrNotAcquired
	}
	return nil, err
}

// handles counts the handles that are owners of their own.
var handles atomic.Uint64

// took records the result of an acquire, and starts a goroutine that waits for the loss: for
// the end of the handle's context, or of the context of Do.
func (v *visit) took(ctx context.Context, l *level, held context.Context) history.Result {
	result := history.Result{Outcome: history.Acquired}
	l.look = func() history.Belief {
		count := l.lock.HoldCount(ctx)
		return history.Belief{Held: count > 0, Count: count}
	}
	if l.hold != nil {
		held = l.hold.Context()
		if l.owner == "" { // the handle has an owner of its own
			l.owner = fmt.Sprintf("%s/h%d", v.worker.name, handles.Add(1))
		}
		l.look = history.Sight(l.hold)
		result.Owner, result.Until = l.owner, history.At(l.hold.ValidUntil())
		result.Token, _ = l.hold.Token() // 0 if there is none
		ctx = l.hold.With(ctx)
	} else {
		result.Token, _ = l.lock.Token(ctx) // 0 if there is none, or the lock is lost by now
	}
	result.Count = l.lock.HoldCount(ctx)
	if held != nil {
		result.Watched = true
		v.told.Go(func() {
			<-held.Done()
			if errors.Is(context.Cause(held), rlock.ErrLost) {
				l.call.Told("Done")
				v.note(func(s *Settled) { s.Lost++ })
			}
		})
	}
	return result
}

// inside is the critical section.
func (v *visit) inside(ctx context.Context, l *level, depth int) {
	v.worker.held.enter()
	defer v.worker.held.leave()
	// The levels of a RedLock may have different servers, and are lost one by one: the
	// checker, which knows one hold of an owner, could not judge them.
	mayNest := depth < deepest && v.owner != "" && v.lock.kind != red
	if mayNest && v.in(4) {
		v.level(ctx, depth+1, l)
	}
	v.work(l)
	if mayNest && !l.given && v.in(8) {
		v.level(ctx, depth+1, l)
	}
}

// lingers is how long a holder that found the loss keeps its level now and then, so that Done
// reports the loss before the unlock does.
const lingers = time.Second / 2

// work takes a random time, most often a short one, and looks now and then whether the lock
// is still held. It ends when the lock is lost.
func (v *visit) work(l *level) {
	var lasts time.Duration
	switch {
	case l.lease > 0 && v.in(20):
		lasts = l.lease + 20*time.Millisecond
	case v.in(150):
		lasts = v.upTo(2 * v.worker.Lease)
	case v.in(5):
		lasts = v.upTo(40 * time.Millisecond)
	default:
		lasts = v.upTo(v.share.section)
	}
	for end := time.Now().Add(lasts); !l.given; {
		held := false
		l.call.Look(func() history.Belief {
			belief := l.look()
			held = belief.Held
			return belief
		})
		left := time.Until(end)
		switch {
		case !held && v.in(4):
			time.Sleep(lingers)
			return
		case !held || left <= 0:
			return
		}
		time.Sleep(min(left, 50*time.Millisecond))
	}
}

// giveBack gives a level back, unless that was done, at random with a context that has ended.
func (v *visit) giveBack(ctx context.Context, l *level) {
	if l.given {
		return
	}
	l.given = true
	if v.in(4) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	op := history.Op{Worker: v.number, Method: history.Unlock, Owner: l.owner, Shared: l.op.Shared}
	if l.hold != nil {
		op.Method = history.Release
	}
	call := v.begin(op)
	var err error
	if l.hold != nil {
		err = l.hold.Release(ctx)
	} else {
		err = l.lock.Unlock(ctx)
	}
	result := history.Result{Outcome: gaveBack(err), Error: text(err)}
	call.End(result)
	if l.hold == nil && result.Outcome == history.Lost {
		v.note(func(s *Settled) { s.Lost++ })
	}
}

// force frees the lock, regardless of its holder.
func (v *visit) force(ctx context.Context) {
	lock, shared := v.lock.choose(v, nil)
	call := v.begin(history.Op{Worker: v.number, Method: history.ForceUnlock, Shared: shared})
	held, err := lock.ForceUnlock(ctx)
	result := history.Result{Outcome: gaveBack(err), Error: text(err)}
	if err == nil && !held {
		result.Outcome = history.NotHeld
	}
	call.End(result)
}
