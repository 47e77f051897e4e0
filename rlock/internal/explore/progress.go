package explore

import (
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// What must not last until the next tick: each client has done by then what it can do without a timer.

// beforeTick fails a state that must not last until the next tick.
func (w *world) beforeTick() {
	w.checkHeeded()
	w.checkKnown()
	w.checkAsked()
	w.checkMoves()
	w.checkSlots()
	w.checkIdle()
	w.checkForgotten()
	w.checkOverdue()
	w.checkUnused()
}

// checkHeeded fails a client that has heard of a grant, and does nothing about it.
func (w *world) checkHeeded() {
	for _, h := range w.server.Holders {
		if server.IsForeign(h.ID) {
			continue
		}
		c := &w.clients[h.ID.Client]
		if !c.lives() || c.heeds != h.ID || len(c.pipe)+len(c.back) > 0 {
			continue
		}
		if l := w.lockOf(c, h.ID); l.Find(h.ID) == nil && !w.isParted(c, h) {
			w.fail("client %d has heard that ticket %d was granted the lock, and does nothing about it", c.id, h.ID.N)
		}
	}
}

// checkKnown fails a client that does not know of a grant, though nothing has gone wrong.
func (w *world) checkKnown() {
	for _, h := range w.server.Holders {
		if server.IsForeign(h.ID) {
			continue
		}
		c := &w.clients[h.ID.Client]
		if w.faults < w.Faults || w.Polling || c.dead || core.Time(w.server.Ends) <= w.now || w.isOver(h) {
			continue
		}
		known := w.isParted(c, h)
		for _, l := range c.locks {
			t := l.Find(h.ID)
			known = known || t != nil && (t == l.Owner() || t.Want() == core.Gone || t.Want() == core.Parted)
		}
		if !known {
			w.fail("client %d does not know that its ticket was granted the lock", c.id)
		}
	}
}

// checkMoves fails a lock with tenures of which none will ever move.
func (w *world) checkMoves() {
	for i := range w.clients {
		c := &w.clients[i]
		if !c.lives() {
			continue
		}
		for _, l := range c.locks {
			some, moves := false, false
			for t := range l.Tenures {
				some = true
				_, due := l.Peek(t, w.clock(c))
				moves = moves || t.InFlight() != core.None || due < core.Never
			}
			if some && !moves {
				w.fail("client %d has tenures for which nothing will ever be sent", i)
			}
		}
	}
}

// checkSlots fails a slot that no command has.
func (w *world) checkSlots() {
	for i := range w.clients {
		if c := &w.clients[i]; c.lives() && len(c.pipe)+len(c.back) == 0 && c.slots != [slots]int{} {
			w.fail("client %d: a slot is not given back", i)
		}
	}
}

// checkIdle fails a lock that nothing is left of, and that its client does not forget.
func (w *world) checkIdle() {
	for i := range w.clients {
		c := &w.clients[i]
		called := !c.lives()
		for j := range c.users {
			called = called || c.users[j].call != nil || c.users[j].write != nil
		}
		for _, l := range c.locks {
			some := called
			for range l.Tenures {
				some = true
			}
			if !some && !l.Idle() {
				w.fail("client %d: nothing is left of its lock, and it is not idle", i)
			}
		}
	}
}

// checkForgotten fails a call that waits without a ticket, and is not in the line either: it would never end.
func (w *world) checkForgotten() {
	for i := range w.clients {
		c := &w.clients[i]
		for j := range c.users {
			u := &c.users[j]
			if !c.lives() || u.state != waiting || u.call.Outcome != core.Waiting || u.call.Tenure != nil {
				continue
			}
			inLine := false
			for r := range c.lockOf(j).Waiters {
				inLine = inLine || r == u.call
			}
			if !inLine {
				w.fail("client %d: user %d waits for nothing", i, j)
			}
		}
	}
}

// checkUnused fails a call that waits for a look though it may have the lock: nothing has gone wrong, nothing is under way,
// and only a timer would go on. Clients that hear no message look, and so does the first behind foreign ones, whose window may
// be in vain.
func (w *world) checkUnused() {
	if w.faults < w.Faults || w.Polling || len(w.threads) > 0 || w.begin != nil {
		return
	}
	reads := w.server.Mode == server.Read && len(w.server.Queue) > 0 && w.server.Queue[0].Mode == core.Shared
	if w.used()+w.wanted(true) > w.permits() && !reads {
		return
	}
	for i := range w.clients {
		for _, l := range w.clients[i].locks {
			if r := w.looks(l); r != nil {
				w.fail("client %d: user %d waits for a look, though it may have the lock", i, r.Tag.(int))
			}
		}
	}
}

// used returns how many permits have holders, were left to a lease, or are on their way to another client.
func (w *world) used() (n int) {
	for i := range w.clients {
		c := &w.clients[i]
		for j, l := range c.locks {
			if len(l.Levels()) > 0 {
				n += c.has(j)
			}
		}
		for j := range c.users {
			n += min(int(c.users[j].parted.N), 1)
		}
	}
	if w.now < w.missedBy(w.passed.untilAll()) {
		n += 1 + int(w.passed.more)
	}
	return n
}

// wanted returns how many permits the first ticket in the queue takes. If there is none it is the most, or the least, that a
// call takes which waits.
func (w *world) wanted(most bool) int {
	if t := w.server.Queue; len(t) > 0 {
		return 1 + int(t[0].More)
	}
	more, some := int32(0), false
	for i := range w.clients {
		for _, l := range w.clients[i].locks {
			for r := range l.Waiters {
				if !some || most == (r.More > more) {
					more, some = r.More, true
				}
			}
		}
	}
	return 1 + int(more)
}

// looks returns a waiter of the lock that would go on with a look, nil if there is none. One behind the first
// without a ticket does not.
func (w *world) looks(l *core.Lock) *core.Call {
	for r := range l.Waiters {
		switch worth := r.Until == core.Never || r.Until.Since(w.now) >= or(w.Least, 1); {
		case r.Tenure != nil, worth:
			return r
		case !w.Kind.Strict:
			return nil
		}
	}
	return nil
}
