package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A caller may ask to be told where it stands among those that wait (Request.Progress). Nothing is sent for that: a Join and
// a Look of a lock in which such a call waits ask Redis also where the ticket stands, and what the process knows by itself is the
// line of its callers. The goroutine of a call is woken when its place may be another, and tells its caller without a mutex.

// An audience is the knowledge of a client about those that wait for a lock, while one of them is told. The shard's mutex
// protects it.
type audience struct {
	watchers int             // how many calls are told
	tickets  int             // in Redis' queue, as it has said last
	before   map[core.ID]int // how many of them stand before a ticket of this client
	told     core.Time       // when all watchers were woken last
}

// More watchers of a lock than mostWatchers are woken every watchTime at most: hand-offs would spend their time on that.
const mostWatchers, watchTime = 64, core.Span(100e6)

// watch notes that a call begins to wait that is told where it stands.
func (l *lock) watch(w *waiter) {
	s := l.shard
	c := s.audiences[l]
	if c == nil {
		c = &audience{before: make(map[core.ID]int)}
		if s.audiences == nil {
			s.audiences = make(map[*lock]*audience)
		}
		s.audiences[l] = c
	}
	c.watchers++
	w.watches = true
}

// isWatched reports whether a call waits that is told where it stands.
func (l *lock) isWatched() bool { return len(l.shard.audiences) > 0 && l.shard.audiences[l] != nil }

// leavesLine notes that a call does not wait any more: those behind it move up.
func (l *lock) leavesLine(w *waiter) {
	c := l.shard.audiences[l]
	if c == nil {
		return
	}
	if w.watches {
		if c.watchers--; c.watchers == 0 {
			delete(l.shard.audiences, l)
			return
		}
	}
	if at := l.shard.at.Time; c.watchers <= mostWatchers || at.Since(c.told) >= watchTime {
		l.wakeWatchers(c)
	}
}

// counted notes where Redis has found a ticket.
func (l *lock) counted(x *exchange) {
	c := l.shard.audiences[l]
	if c == nil || x.answer.err != nil || x.answer.Fault != core.Answered {
		return
	}
	for id := range c.before {
		if l.Find(id) == nil {
			delete(c.before, id)
		}
	}
	if delete(c.before, x.cmd.ID); x.answer.before >= 0 {
		c.before[x.cmd.ID], c.tickets = x.answer.before, x.answer.Tickets
	}
	l.wakeWatchers(c)
}

func (l *lock) wakeWatchers(c *audience) {
	c.told = l.shard.at.Time
	for call := range l.Waiters {
		if w := call.Tag.(*waiter); w.watches {
			w.wake()
		}
	}
}

// tellTime is how often a caller is told at least where it stands, once that is known.
const tellTime = core.Span(2e9)

// moves reports whether the caller is to be told where its call stands: if it was told another place, or of other waiters, or
// long ago. It notes that.
func (l *lock) moves(w *waiter) bool {
	place, waiting, known := l.place(w)
	now := l.shard.at.Time
	moved := known && (place != w.place || waiting != w.waiting)
	if !moved && now.Since(w.toldAt) < tellTime {
		return false
	}
	if w.toldAt = now; known {
		w.place, w.waiting = place, waiting
	}
	return known
}

// place returns where the call stands among so many that wait. It is not known while neither Redis has said where a ticket before it
// stands, or its own if it has one of its own, nor the lock is held here.
func (l *lock) place(w *waiter) (place, waiting int, known bool) {
	strict := l.kind().core.Strict
	if strict || w.Most != 0 {
		return l.placeOfOwn(w, strict)
	}
	c, at, unticketed := l.shard.audiences[l], 0, 0
	known = l.IsHeld()
	for call := range l.Waiters {
		at++
		before, ok := c.ticketOf(call)
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
	return place, max(c.tickets+unticketed, at), known && place > 0
}

// placeOfOwn is place for a call that has a ticket of its own: Redis has said where that stands, and the line here may have
// another order. Callers before it that share a ticket count one by one; of a strict lock each takes a ticket, behind it.
func (l *lock) placeOfOwn(w *waiter, strict bool) (place, waiting int, known bool) {
	c, ahead, unticketed := l.shard.audiences[l], 0, 0
	for call := range l.Waiters {
		if call == &w.Call {
			ahead = unticketed
		}
		if call.Tenure == nil {
			unticketed++
		}
	}
	before, ok := c.ticketOf(&w.Call)
	if strict {
		ahead = 0
	}
	place = before + ahead + 1
	return place, max(c.tickets+unticketed, place), ok
}

// ticketOf returns how many tickets stand before that of the call, if that is known.
func (c *audience) ticketOf(call *core.Call) (before int, ok bool) {
	if call.Tenure != nil {
		before, ok = c.before[call.Tenure.ID]
	}
	return before, ok
}

// tellPlace tells the caller where it stands, in its goroutine. If its function panics, or ends the goroutine, the call gives back
// what it was granted, and leaves.
func (l *lock) tellPlace(ctx context.Context, w *waiter) {
	l.shard.client.witness.outside("a function of WithProgress")
	returned := false
	defer func() {
		if !returned {
			l.abandon(ctx, w)
		}
	}()
	w.req.Progress(w.place, w.waiting)
	returned = true
	l.shard.glance(w.told)
}

// turnTime is how long a call that is granted the lock while the function of its caller runs keeps it for that: other callers
// do not wait for the function. Then the call waits again, behind them.
const turnTime = time.Second

// told notes that the function has returned. The mutex is held.
func (w *waiter) told() {
	w.telling = false
	if w.turn != nil {
		w.turn.Stop()
		w.turn = nil
	}
}

// grantedWhileTold bounds the turn of a call whose goroutine is in the function of its caller. The mutex is held.
func (s *shard) grantedWhileTold(n *Name, w *waiter) {
	var turn *time.Timer
	turn = time.AfterFunc(turnTime, func() { s.client.endTurn(n, w, turn) })
	w.turn = turn
}

// endTurn releases the lock that the call was granted, if its goroutine has not come for it.
func (c *Client) endTurn(n *Name, w *waiter, turn *time.Timer) {
	l, now := c.enter(n, w.Owner)
	if w.turn == turn {
		if was, _, ok := l.Unlock(w.Owner, w.Mode, w.Handle, now); ok { // else it was lost, and its caller learns that
			l.shard.counts.undone(w.req.Way, was.First)
			w.missed = true
		}
	}
	l.shard.exit(l)
}

// waitAgain waits for the lock once more, after the call has missed its turn.
func (c *Client) waitAgain(ctx context.Context, n *Name, w *waiter) error {
	req, h := w.req, w.hold
	if req.Wait < terms.Forever {
		req.Wait = max(req.Wait-time.Duration(c.clock.now().Time.Since(w.Began())), 0)
	}
	if h != nil {
		h.stays = core.Time(req.Least)
	}
	c.done(w)
	return c.acquire(ctx, n, &req, h)
}

// abandon ends a call whose caller does not come back.
func (l *lock) abandon(ctx context.Context, w *waiter) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	c, n, h := l.shard.client, l.name, w.hold
	now := l.again()
	was := w.stage
	w.stage = running
	w.told()
	var err error
	if was == serving {
		l.shard.exit(l)
		w.awaitServed()
		err = c.finished(ctx, n, w)
	} else {
		l.Leave(&w.Call, core.Cancelled, now)
		l.shard.applyAll()
		l.Next(&w.Call, false, now) // it returns
		err = l.ended(ctx, w)
	}
	if h != nil {
		_ = h.begun(err)
	}
}
