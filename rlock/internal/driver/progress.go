package driver

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
)

// A caller may ask to be told its place among the waiters (Request.Progress). No command is sent
// for that: each Join and Look of a lock with such a call also asks Redis for the place of the
// ticket, and the client knows the line of its own callers. The goroutine of a call is woken when
// its place may have changed, and starts another one for the caller's function: the call may have
// the ticket of other calls, which must not wait for that function.

// An audience is what a client knows of the waiters of a lock, while one of them is told its place.
// The mutex of the shard guards it.
type audience struct {
	watchers int             // the number of calls that are told
	tickets  int             // the number of tickets in Redis' queue, by its last answer
	before   map[core.ID]int // the number of tickets before each ticket of this client
	told     core.Time       // the time at which all watchers were last woken
}

// More watchers than mostWatchers are woken once per watchTime at most, so that hand-offs do not
// spend their time on that.
const mostWatchers, watchTime = 64, core.Span(100e6)

// watchPlace notes that a call whose caller is told its place begins to wait.
//
// REQUIRES: shard.mu.
func (l *lockState) watchPlace(w *waiter) {
	s := l.shard
	a := s.audiences[l]
	if a == nil {
		a = &audience{before: make(map[core.ID]int)}
		if s.audiences == nil {
			s.audiences = make(map[*lockState]*audience)
		}
		s.audiences[l] = a
	}
	a.watchers++
	w.watches = true
}

// isWatched reports whether a call waits whose caller is told its place.
func (l *lockState) isWatched() bool {
	return len(l.shard.audiences) > 0 && l.shard.audiences[l] != nil
}

// noteLeftLine notes that a call has ended, so that the calls behind it move up.
//
// REQUIRES: shard.mu.
func (l *lockState) noteLeftLine(w *waiter) {
	a := l.shard.audiences[l]
	if a == nil {
		return
	}
	if w.watches {
		if a.watchers--; a.watchers == 0 {
			delete(l.shard.audiences, l)
			return
		}
	}
	if at := l.shard.at.Time; a.watchers <= mostWatchers || at.Since(a.told) >= watchTime {
		l.wakeWatchers(a)
	}
}

// notePlace notes the place at which Redis found a ticket.
//
// REQUIRES: shard.mu.
func (l *lockState) notePlace(x *exchange) {
	a := l.shard.audiences[l]
	if a == nil || x.Answer.Err != nil || x.Answer.Fault != core.Answered {
		return
	}
	for id := range a.before {
		if l.Find(id) == nil {
			delete(a.before, id)
		}
	}
	if delete(a.before, x.Cmd.ID); x.Answer.Before >= 0 {
		a.before[x.Cmd.ID], a.tickets = x.Answer.Before, x.Answer.Tickets
	}
	l.wakeWatchers(a)
}

// wakeWatchers wakes the calls whose callers are told their places.
//
// REQUIRES: shard.mu.
func (l *lockState) wakeWatchers(a *audience) {
	a.told = l.shard.at.Time
	for call := range l.Waiters {
		if w := call.Tag.(*waiter); w.watches {
			w.wake()
		}
	}
}

// tellTime is the longest interval at which a caller is told its place, once that is known.
const tellTime = core.Span(2e9)

// startTellingPlace tells the caller its place if the place or the number of waiters has changed,
// or if tellTime is over within the span ahead. It reports whether it does. If the place is not
// known, for example the place of a ticket that has just joined with a release, the caller is told
// the last one.
//
// REQUIRES: shard.mu.
func (l *lockState) startTellingPlace(w *waiter, ahead core.Span) bool {
	if w.telling != nil {
		return false
	}
	place, waiting, known := l.placeOf(w)
	now := l.shard.at.Time
	moved := known && (place != w.place || waiting != w.waiting)
	due := w.place > 0 && now.Since(w.toldAt) >= tellTime-ahead
	if !moved && !due {
		return false
	}
	if w.toldAt = now; known {
		w.place, w.waiting = place, waiting
	}
	w.telling = make(chan struct{})
	go l.shard.callProgress(w, w.telling, w.place, w.waiting)
	return true
}

// placeOf returns the place of the call, and the number of waiters. They are known if the lock is
// held here, or if Redis has said where the call's own ticket or one before it stands.
//
// REQUIRES: shard.mu.
func (l *lockState) placeOf(w *waiter) (place, waiting int, known bool) {
	strict := l.kind().core.Strict
	if strict || w.Most != 0 {
		return l.placeOfOwn(w, strict)
	}
	a, at, unticketed := l.shard.audiences[l], 0, 0
	known = l.IsHeld()
	for call := range l.Waiters {
		at++
		before, ok := a.ticketsBefore(call)
		if ok {
			at = max(at, before+unticketed+1)
		}
		if place == 0 && ok {
			known = true
		}
		if call == &w.Call {
			place = at
		}
		if call.Tenure == nil {
			unticketed++
		}
	}
	return place, max(a.tickets+unticketed, at), known && place > 0
}

// placeOfOwn is placeOf for a call with a ticket of its own, whose place Redis knows: the line here
// may have another order. Callers before it that share a ticket are added; for a strict lock there
// are none, since each takes a ticket of its own.
//
// REQUIRES: shard.mu.
func (l *lockState) placeOfOwn(w *waiter, strict bool) (place, waiting int, known bool) {
	a, ahead, unticketed := l.shard.audiences[l], 0, 0
	for call := range l.Waiters {
		if call == &w.Call {
			ahead = unticketed
		}
		if call.Tenure == nil {
			unticketed++
		}
	}
	before, ok := a.ticketsBefore(&w.Call)
	if strict {
		ahead = 0
	}
	place = before + ahead + 1
	return place, max(a.tickets+unticketed, place), ok
}

// ticketsBefore returns the number of tickets before the call's ticket. ok is false if it is not
// known.
//
// REQUIRES: shard.mu.
func (a *audience) ticketsBefore(call *core.Call) (before int, ok bool) {
	if call.Tenure != nil {
		before, ok = a.before[call.Tenure.ID]
	}
	return before, ok
}

// callProgress calls the caller's function, in a goroutine of its own. If the function panics, or
// ends that goroutine, the call leaves, and gives back what it was granted.
func (s *shard) callProgress(w *waiter, told chan struct{}, place, waiting int) {
	returned := false
	defer func() {
		ends := runtime.Goexit
		if value := recover(); value != nil {
			why := &contract.PanicError{Value: value, Stack: debug.Stack()}
			ends = func() { panic(why) }
		}
		s.underMutex(func() {
			if w.telling = nil; !returned {
				w.ends = ends
			}
			w.wake()
			close(told)
		})
	}()
	w.req.Progress(place, waiting)
	returned = true
}

// turnTime is the time for which a call keeps a lock that it is granted while its caller's function
// runs, since other callers must not wait for the function. After it the call waits again, behind
// them.
const turnTime = time.Second

// awaitTold waits until the caller's function has ended. It reports whether the call was granted
// the lock and has missed its turn.
func (c *Client) awaitTold(n *Name, w *waiter) (missed bool) {
	var told chan struct{}
	c.shardOf(n).underMutex(func() { told = w.telling })
	if told == nil {
		return false
	}
	if w.Outcome == core.Acquired {
		turn := time.NewTimer(turnTime)
		defer turn.Stop()
		select {
		case <-told:
			return false
		case <-turn.C:
		}
		l, now := c.enter(n, w.Owner)
		was, _, ok := l.Unlock(w.Owner, w.Mode, w.Handle, now)
		if missed = ok; ok { // else the lock was lost, and its caller learns that
			l.shard.counts.countUndone(w.req.Way, was.First)
		}
		l.shard.exit(l)
	}
	<-told
	return missed
}

// A missedTurn is what a call did before it missed its turn: the Observer is told of one call.
type missedTurn struct {
	waited    time.Duration
	contended bool // the Observer was told that the call waits
}

// waitAgain waits for the lock once more, after the call has missed its turn.
func (c *Client) waitAgain(ctx context.Context, n *Name, w *waiter) error {
	req, h, waited := w.req, w.hold, time.Duration(c.clock.now().Time.Since(w.Began))
	req.missed = missedTurn{req.missed.waited + waited, req.missed.contended || w.contended}
	if req.Wait < contract.Forever {
		req.Wait = max(req.Wait-waited, 0)
	}
	s := c.shardOf(n)
	s.underMutex(func() { s.counts.Waited += waited - w.waited }) // the grant has counted w.waited already
	c.recycle(w)
	return c.acquire(ctx, n, &req, h)
}
