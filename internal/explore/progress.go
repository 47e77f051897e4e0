package explore

import (
	"slices"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/explore/server"
)

// The assertions about time: no caller waits for long, and once all is released nothing is left.

// beforeTick fails a state that must not last until the next tick.
func (w *world) beforeTick() {
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
	w.checkAsked()
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
	for i := range w.clients {
		if c := &w.clients[i]; c.lives() && len(c.pipe)+len(c.back) == 0 && c.slots != [slots]int{} {
			w.fail("client %d: a slot is not given back", i)
		}
	}
	w.checkIdle()
	w.checkForgotten()
	w.checkUnused()
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
// and only a timer would go on. Clients that cannot be told look, and so does the first behind foreign ones, whose turn may
// be in vain.
func (w *world) checkUnused() {
	if w.faults < w.Faults || w.Polling || len(w.threads) > 0 || w.begin != nil {
		return
	}
	used, read := 0, w.server.Mode == server.Read && len(w.server.Queue) > 0 && w.server.Queue[0].Mode == core.Shared
	for i := range w.clients {
		c := &w.clients[i]
		for j, l := range c.locks {
			if len(l.Levels()) > 0 {
				used += c.has(j)
			}
		}
		for j := range c.users {
			used += min(int(c.users[j].parted.N), 1)
		}
	}
	if w.now < w.missedBy(w.passed.untilAll()) {
		used += 1 + int(w.passed.more)
	}
	if used+w.wanted(true) > w.permits() && !read {
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

// looks returns a waiter of the lock that would go on with a look, nil if there is none. One without a ticket that is
// worth one does not, if it has called a holder that may linger, and pauses; nor does one behind the first without.
func (w *world) looks(l *core.Lock) *core.Call {
	for r := range l.Waiters {
		switch worth := r.Until == core.Never || r.Until.Since(w.now) >= or(w.Least, 1); {
		case r.Tenure != nil, worth && !r.Pauses():
			return r
		case !w.Kind.Strict:
			return nil
		}
	}
	return nil
}

// afterTick fails a lock that is free, or that no user holds, for too long beside a waiter.
func (w *world) afterTick() {
	waits, soon, held := false, w.stalled > w.now, false
	for i := range w.clients {
		c := &w.clients[i]
		soon = soon || len(c.late) > 0 && !w.unbounded() || c.frozen || c.off
		if c.dead {
			continue
		}
		for _, l := range c.locks {
			held = held || len(l.Levels()) > 0
			waits = waits || !c.off && !c.frozen && l.Len() > 0
		}
		for j := range c.users {
			held = held || c.users[j].parted != core.ID{}
		}
	}
	held = held || w.isPassed()
	foreignWaits, foreignHolds := w.foreignTick()
	waits, held = waits || foreignWaits, held || foreignHolds
	free := w.server.Held()+w.wanted(false) <= w.permits()
	if w.RW && w.server.Mode == server.Read {
		free = len(w.server.Queue) > 0 && w.server.Queue[0].Mode == core.Shared
	}
	if w.idle++; !free || !waits || soon {
		w.idle = 0
	}
	if most := max(3, w.Idle); w.idle > most {
		w.fail("the lock is free for %d ticks beside a waiter", w.idle)
	}
	if w.unused++; held || !waits || soon {
		w.unused = 0
	}
	if w.unused > 10+w.Idle {
		w.fail("no owner holds the lock for %d ticks beside a waiter", w.unused)
	}
	w.checkUnheard()
	for i := range w.clients {
		c := &w.clients[i]
		c.heeds = core.ID{}
		if c.seen && w.queued(i) {
			c.passed = min(c.passed+1, 99)
		}
		if c.seen = false; c.passed > max(3, w.Passes) {
			w.fail("client %d is passed in %d ticks", i, c.passed)
		}
		w.lingersOn(c)
		w.keepsReaders(c)
		w.checkParted(c)
	}
	if w.isPassed() && w.passed.told && !w.wiped && !slices.ContainsFunc(w.server.Holders, func(h server.Holder) bool { return h.ID == w.passed.id && h.Owner == 0 }) {
		w.fail("client %d: a lock that was passed on is released before its time", w.passed.id.Client)
	}
	if w.refused {
		w.refuses++
	}
	if w.refused = false; w.refuses > int(w.claim())+1 {
		w.fail("attempts are refused for %d ticks, since dead clients wait", w.refuses)
	}
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
		unheard = unheard || t == nil || t.IsTicket()
	}
	if w.unheard++; !unheard {
		w.unheard = 0
	}
	if w.unheard > int(max(w.claim(), w.lease())) {
		w.fail("a tenure has the lock for %d ticks, and its client does not know", w.unheard)
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

// deadWait reports whether the lock is free and only dead clients wait for it.
func (w *world) deadWait() bool {
	for _, t := range w.server.Queue {
		if t != server.Window && !w.clients[t.ID.Client].dead {
			return false
		}
	}
	return len(w.server.Holders) == 0 && len(w.server.Queue)+len(w.server.Marks) > 0
}

// denied notes that an attempt was refused. It fails one that a lock which lingers has refused, in setups in which it cannot
// linger once more, and one that only the dead have refused, in setups that begin with them.
func (w *world) denied(c *client) {
	w.refused = w.refused || w.deadWait()
	if w.begin != nil && len(w.server.Holders) == 0 {
		w.fail("client %d: an attempt is refused where only the dead have waited", c.id)
	}
	for i := range w.clients {
		if o := &w.clients[i]; w.Rounds == 1 && w.faults == w.Faults && o != c && o.lives() && o.locks[0].Lingers() {
			w.fail("client %d: an attempt is refused by a lock that lingers", c.id)
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

// placeOf returns the ticket of a call that stands in the queue in Redis, the zero ID for none.
func (w *world) placeOf(c *client, call *core.Call) core.ID {
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

// keepsPlace fails a client that gives up a place in the queue when its caller leaves, though the next one could stand there.
func (w *world) keepsPlace(c *client, l *core.Lock, place core.ID) {
	if place == (core.ID{}) || c.core.Closed() {
		return
	}
	for next := range l.Waiters {
		t := l.Find(place)
		if next.Waits && next.Until == core.Never && next.Tenure == nil && (t == nil || t.Want() == core.Gone) {
			w.fail("client %d: it gives up a place in the queue, and user %d waits", c.id, next.Tag)
		}
		return
	}
}

// lingersOn fails a lock that lingers for longer than it may, or for less though no other client wants it.
func (w *world) lingersOn(c *client) {
	l := c.locks[0]
	if w.Linger == 0 || !c.lives() || !l.Lingers() {
		if len(w.clients) == 1 && c.lingers > 0 && c.lingers < int(w.Linger)-1 && w.faults == w.Faults && l.Owner() == nil {
			w.fail("client %d: a lock lingers for %d ticks only", c.id, c.lingers)
		}
		c.lingers = 0
		return
	}
	if c.lingers++; c.lingers > int(w.Linger)+1 {
		w.fail("client %d: a lock lingers for %d ticks", c.id, c.lingers)
	}
}

// keepsReaders fails a reader that waits for too long beside readers: for as long as a writer may hold it back.
func (w *world) keepsReaders(c *client) {
	waits := false
	for r := range c.locks[0].Waiters {
		waits = waits || r.Mode == core.Shared
	}
	if c.kept++; !waits || !c.lives() || len(w.threads) == 0 || w.server.Mode != server.Read || w.faults < w.Faults {
		c.kept = 0
	}
	if most := int(windows.Starved + windows.Respite + 3); c.kept > most {
		w.fail("client %d: a reader has waited for %d ticks beside readers", c.id, c.kept)
	}
}

// isOver reports whether the lease of a reader is over that other readers keep in the hash.
func (w *world) isOver(h server.Holder) bool { return h.Ends > 0 && core.Time(h.Ends) <= w.now }

// isPassed reports whether the lock is on its way to a client that resumes it.
func (w *world) isPassed() bool {
	return w.passed.id != core.ID{} && !w.passed.used && w.now < w.passed.until
}

// isParted reports whether the client has left the holder to its lease, and need not know it any more: it is detached, or
// was passed on, also if Redis has lost that.
func (w *world) isParted(c *client, h server.Holder) bool {
	switch {
	case h.ID == w.passed.id:
		return w.now < w.passed.until
	case h.Owner == 0:
		return w.now < w.passed.untilAll()
	}
	return slices.ContainsFunc(c.users, func(u user) bool { return u.parted == h.ID })
}

// missedBy returns when each waiter has found out, by a look, that a lock which was passed on until then was not resumed:
// the end of a lease tells none.
func (w *world) missedBy(until core.Time) core.Time {
	if until == 0 {
		return 0
	}
	return until.After(or(w.Look, 2))
}

// checkParted fails a detached lock that is released before its lease ends.
func (w *world) checkParted(c *client) {
	for j := range c.users {
		u := &c.users[j]
		if u.parted == (core.ID{}) {
			continue
		}
		if w.now >= u.partedUntil {
			u.parted, u.partedUntil = core.ID{}, 0
			continue
		}
		if !slices.ContainsFunc(w.server.Holders, func(h server.Holder) bool { return h.ID == u.parted }) && !w.wiped {
			w.fail("client %d: a detached lock is released before its lease ends", c.id)
		}
	}
}

// checkLeft fails if living clients leave anything once all is released.
func (w *world) checkLeft() {
	for i := range w.clients {
		c := &w.clients[i]
		if len(c.pipe)+len(c.back)+len(c.late)+len(c.heard) > 0 {
			return
		}
		if c.dead {
			continue
		}
		if c.frozen || len(c.nudges) > 0 {
			return
		}
		for j := range c.users {
			if c.users[j].state != idle {
				return
			}
		}
		for _, l := range c.locks {
			if !l.Idle() {
				return
			}
		}
	}
	for i := range w.threads {
		if f := &w.threads[i]; f.state != foreignIdle && f.kind != Sleeper {
			return
		}
	}
	mine := func(id core.ID) bool {
		if id.Client >= uint32(len(w.clients)) {
			return false
		}
		c := &w.clients[id.Client]
		return !c.dead && !c.off
	}
	for _, h := range w.server.Holders {
		if mine(h.ID) && w.now < core.Time(w.server.Ends) && !w.isOver(h) && !w.unbounded() && !w.isParted(&w.clients[h.ID.Client], h) {
			w.fail("all is released, and client %d has the key", h.ID.Client)
		}
	}
	for _, t := range w.server.Queue {
		if mine(t.ID) && !w.unbounded() {
			w.fail("all is released, and a ticket of client %d is in the queue", t.ID.Client)
		}
	}
	for _, id := range w.server.Marks {
		if mine(id) && !w.unbounded() {
			w.fail("all is released, and a mark of client %d is left", id.Client)
		}
	}
	if slices.Contains(w.server.Foreign.Fair, server.Place) {
		w.fail("all is released, and a place of ours is left in the fair queue")
	}
}

// unbounded reports whether a command may have been executed at any time, so that what it leaves ends with its lease.
func (w *world) unbounded() bool {
	return w.Fault&(Endless|Double|Repeat|Failover) != 0 || w.Do&Detach != 0 && w.Fault&Late != 0
}
