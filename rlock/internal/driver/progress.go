package driver

import (
	"context"

	"github.com/go-rlock/rlock/internal/core"
)

// A caller may ask to be told where it stands among those that wait (client.Request.Progress). Nothing is sent for that: a Join and
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

// moves reports whether the call stands elsewhere than its caller was told last, or whether others wait, and notes that.
func (l *lock) moves(w *waiter) bool {
	place, waiting, known := l.place(w)
	if !known || place == w.place && waiting == w.waiting {
		return false
	}
	w.place, w.waiting = place, waiting
	return true
}

// place returns where the call stands among so many that wait. It is not known while neither Redis has said where a ticket before it
// stands, or its own if it has one of its own, nor the lock is held here.
func (l *lock) place(w *waiter) (place, waiting int, known bool) {
	c, at, unticketed := l.shard.audiences[l], 0, 0
	own := l.kind().core.Strict || w.Most != 0
	known = !own && l.IsHeld()
	for call := range l.Waiters {
		at++
		before, ok := c.ticketOf(call)
		if ok {
			at = max(at, before+unticketed+1)
		}
		if place == 0 && ok && (!own || call == &w.Call) {
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
}

// abandon ends a call whose caller does not come back.
func (l *lock) abandon(ctx context.Context, w *waiter) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	c, n, h := l.shard.client, l.name, w.hold
	now := l.again()
	was := w.stage
	w.stage = running
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
