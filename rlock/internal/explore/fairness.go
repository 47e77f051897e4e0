package explore

import (
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// In which order waiters are served, and what may refuse a call: others are passed a bounded number of times, a position in the
// queue outlives its caller, and no attempt is refused by the dead.

// checkPassed fails a client that others have passed too often.
func (w *world) checkPassed(c *client) {
	if c.seen && w.queued(c.id) {
		c.passed = min(c.passed+1, 99)
	}
	if c.seen = false; c.passed > max(3, w.Passes) {
		w.fail("client %d is passed in %d ticks", c.id, c.passed)
	}
}

// checkRefused fails attempts that are refused for too long since the dead wait.
func (w *world) checkRefused() {
	if w.refused {
		w.refuses++
	}
	if w.refused = false; w.refuses > int(w.claim())+1 {
		w.fail("attempts are refused for %d ticks, since dead clients wait", w.refuses)
	}
}

// passOthers notes that the client, nil for a foreign one, has the lock while others stand in the queue.
func (w *world) passOthers(c *client) {
	for j := range w.clients {
		if o := &w.clients[j]; w.endless() && o != c && o.lives() && w.queued(j) {
			o.seen = true
		}
	}
}

// queued reports whether a ticket of the client stands in the queue.
func (w *world) queued(i int) bool {
	for _, t := range w.server.Queue {
		if int(t.ID.Client) == i {
			return true
		}
	}
	return false
}

// denied notes that an attempt was refused. It fails one that only the dead have refused, in setups that begin with them, one
// that was refused by a lock that was free all the time, and a reader that was refused beside readers of its client, if there is no writer.
func (w *world) denied(c *client, o *core.Call) {
	if w.begin == nil && len(w.threads) == 0 && !w.taken {
		w.fail("client %d: an attempt is refused by a lock that no owner has had", c.id)
	}
	if l := c.locks[0]; o.Mode == core.Shared && len(w.clients) == 1 && len(w.threads) == 0 && w.faults == w.Faults &&
		(w.Do&OnlyRead != 0 || l.IsHeld() && !l.IsWritten() && l.Len() == 0) {
		w.fail("client %d: a reader is refused, and there is no writer", c.id)
	}
	w.refused = w.refused || w.deadWait()
	if w.begin != nil && len(w.server.Holders) == 0 {
		w.fail("client %d: an attempt is refused where only the dead have waited", c.id)
	}
}

// deadWait reports whether the lock is free and only dead clients wait for it.
func (w *world) deadWait() bool {
	for _, t := range w.server.Queue {
		if t != server.Window && !w.clients[t.ID.Client].dead {
			return false
		}
	}
	return len(w.server.Holders) == 0 && len(w.server.Queue)+len(w.server.Marks) > 0
}

// checkOverdue fails a call whose time is up, and that waits for the answer to the command of another call, though there is
// none on its way.
func (w *world) checkOverdue() {
	for i := range w.clients {
		c := &w.clients[i]
		if !c.lives() {
			continue
		}
		for j := range c.users {
			u := &c.users[j]
			if u.state != waiting || u.call.Until > w.clock(c).Time || u.call.Outcome != core.Waiting || u.call.Tenure != nil {
				continue
			}
			some := false
			l := c.lockOf(j)
			for t := range l.Tenures {
				op, _ := l.Peek(t, w.clock(c))
				some = some || t.InFlight() != core.None || op != core.None
			}
			if !some {
				w.fail("client %d: the time of user %d is up, it waits for an answer, and none is on its way", i, j)
			}
		}
	}
}

// ownRelease fails an attempt that is refused by a tenure which its own client is about to release.
func (w *world) ownRelease(c *client, p *packet, a core.Reply) {
	if p.cmd.Op != core.Acquire || a.Found == core.Holds || a.Holder.Client != uint32(c.id) || c.dead || w.Kind.Strict || w.faults < w.Faults {
		return // each waiter of a strict lock has a ticket of its own
	}
	if t := c.locks[0].Find(a.Holder); t != nil && t.Want() == core.Gone {
		w.fail("client %d: an attempt is refused by the tenure that it releases", c.id)
	}
}

// queuedTicket returns the ticket of a call that stands in the queue in Redis, the zero ID for none.
func (w *world) queuedTicket(c *client, call *core.Call) core.ID {
	if call.Tenure == nil || w.Kind.Strict || w.faults < w.Faults {
		return core.ID{}
	}
	for _, t := range w.server.Queue {
		if t.ID == call.Tenure.ID && (t.Mode == core.Shared) == (call.Mode == core.Shared) {
			return t.ID
		}
	}
	return core.ID{}
}

// keepsPosition fails a client that gives up a position in the queue when its caller leaves, though the next caller could have it.
func (w *world) keepsPosition(c *client, l *core.Lock, ticket core.ID) {
	if ticket == (core.ID{}) || c.core.Closed() {
		return
	}
	for next := range l.Waiters {
		t := l.Find(ticket)
		if next.Waits && next.Until == core.Never && next.Tenure == nil && (t == nil || t.Want() == core.Gone) {
			w.fail("client %d: it gives up a position in the queue, and user %d waits", c.id, next.Tag)
		}
		return
	}
}
