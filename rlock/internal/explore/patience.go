package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// What may last for a number of ticks, and no longer: a free lock that a caller waits for, a wait in which others are served.

// afterTick fails a state that has lasted for too long.
func (w *world) afterTick() {
	w.checkUse()
	w.checkUnheard()
	for i := range w.clients {
		c := &w.clients[i]
		c.heeds = core.ID{}
		w.checkPassed(c)
		w.keepsReaders(c)
		w.checkParted(c)
	}
	w.checkPassedOn()
	w.checkRefused()
	w.checkOverlap()
}

// checkUse fails a lock that is free, or that no user holds, for too long while a caller waits.
func (w *world) checkUse() {
	waits, soon, held := w.waits()
	foreignWaits, foreignHolds := w.foreignTick()
	waits, held = waits || foreignWaits, held || foreignHolds
	free := w.server.Held()+w.wanted(false) <= w.permits()
	if w.RW && w.server.Mode == server.Read {
		free = w.readerIsNext()
	}
	if w.idle++; !free || !waits || soon {
		w.idle = 0
	}
	if most := max(3, w.Idle); w.idle > most {
		w.fail("the lock is free for %d ticks while a caller waits", w.idle)
	}
	if w.unused++; held || !waits || soon {
		w.unused = 0
	}
	if w.unused > 10+w.Idle {
		w.fail("no owner holds the lock for %d ticks while a caller waits", w.unused)
	}
}

// readerIsNext reports whether a reader of ours is the first in the queue, or stands right behind a window while a foreign client
// reads: it need not wait for the others that read.
func (w *world) readerIsNext() bool {
	q, s := w.server.Queue, &w.server
	if len(q) > 1 && q[0] == server.Window && slices.ContainsFunc(s.Holders, func(h server.Holder) bool { return server.IsForeign(h.ID) }) {
		q = q[1:]
	}
	return len(q) > 0 && q[0].Mode == core.Shared
}

// waits reports whether a client of ours waits that can be served, whether a fault ends soon, and whether the lock is held, or
// left to a lease.
func (w *world) waits() (some, soon, held bool) {
	soon = w.stalled > w.now
	for i := range w.clients {
		c := &w.clients[i]
		soon = soon || len(c.late) > 0 && !w.unbounded() || c.frozen || c.off
		if c.dead {
			continue
		}
		for _, l := range c.locks {
			held = held || len(l.Levels()) > 0
			some = some || !c.off && !c.frozen && l.Len() > 0
		}
		for j := range c.users {
			held = held || c.users[j].parted != core.ID{}
		}
	}
	return some, soon, held || w.isPassed()
}

// checkOverlap fails two holders that go on for longer than a lease after Redis has lost the lock.
func (w *world) checkOverlap() {
	valid, reads := w.valid()
	if w.overlap++; valid <= w.permits() || valid == reads {
		w.overlap = 0
	}
	if w.overlap > int(w.lease()) {
		w.fail("two hold the lock for %d ticks after Redis has lost it", w.overlap)
	}
}

// checkUnheard fails a tenure that has the lock for longer than a claim while its client, which lives, does not know.
func (w *world) checkUnheard() {
	unheard := false
	for _, h := range w.server.Holders {
		if server.IsForeign(h.ID) {
			continue
		}
		c := &w.clients[h.ID.Client]
		if !c.lives() || c.off || len(c.late) > 0 || w.unbounded() || w.isOver(h) || w.isParted(c, h) {
			continue
		}
		t := w.lockOf(c, h.ID).Find(h.ID)
		unheard = unheard || t == nil || t.Want() == core.Asked
	}
	if w.unheard++; !unheard {
		w.unheard = 0
	}
	if w.unheard > int(max(w.claim(), w.lease())) {
		w.fail("a tenure has the lock for %d ticks, and its client does not know", w.unheard)
	}
}

// keepsReaders fails a reader that waits for too long while others read: for as long as a writer may hold it back.
func (w *world) keepsReaders(c *client) {
	waits := false
	for r := range c.locks[0].Waiters {
		waits = waits || r.Mode == core.Shared
	}
	if c.kept++; !waits || !c.lives() || len(w.threads) == 0 || w.server.Mode != server.Read || w.faults < w.Faults {
		c.kept = 0
	}
	if most := int(windows.Starved + windows.Respite + 3); c.kept > most {
		w.fail("client %d: a reader has waited for %d ticks while others read", c.id, c.kept)
	}
}
