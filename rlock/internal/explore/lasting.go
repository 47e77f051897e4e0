package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// What must not last until the next tick: each client has done by then what it can do without a
// timer.

// beforeTick fails a state that must not last until the next tick.
func (w *world) beforeTick() {
	w.checkHeeded()
	w.checkKnown()
	for i := range w.clients {
		if c := &w.clients[i]; c.lives() {
			w.checkAsked(c)
			w.checkMoves(c)
			w.checkSlots(c)
			w.checkIdle(c)
			w.checkForgotten(c)
			w.checkOverdue(c)
		}
	}
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
			known = known || t != nil && (t == l.Held() || t.Want() == core.Gone || t.Want() == core.Parted)
		}
		if !known {
			w.fail("client %d does not know that its ticket was granted the lock", c.id)
		}
	}
}

// checkMoves fails a lock with tenures of which none will ever move.
func (w *world) checkMoves(c *client) {
	for _, l := range c.locks {
		some, moves := false, false
		for t := range l.Tenures {
			some = true
			_, due := l.Peek(t, w.clock(c))
			moves = moves || t.OpInFlight() != core.None || due < core.Never
		}
		if some && !moves {
			w.fail("client %d has tenures for which nothing will ever be sent", c.id)
		}
	}
}

// checkSlots fails a slot that no command has.
func (w *world) checkSlots(c *client) {
	if len(c.pipe)+len(c.back) == 0 && c.slots != [slots]int{} {
		w.fail("client %d: a slot is not given back", c.id)
	}
}

// checkIdle fails a lock that nothing is left of, and that its client does not forget.
func (w *world) checkIdle(c *client) {
	called := false
	for j := range c.users {
		called = called || c.users[j].call != nil || c.users[j].write != nil
	}
	for _, l := range c.locks {
		some := called
		for range l.Tenures {
			some = true
		}
		if !some && !l.Idle() {
			w.fail("client %d: nothing is left of its lock, and it is not idle", c.id)
		}
	}
}

// checkForgotten fails a call that waits without a ticket, and is not in the line either: it would
// never end.
func (w *world) checkForgotten(c *client) {
	for j := range c.users {
		u := &c.users[j]
		if u.state != waiting || u.call.Outcome != core.Waiting || u.call.Tenure != nil {
			continue
		}
		inLine := false
		for r := range c.lockOf(j).Waiters {
			inLine = inLine || r == u.call
		}
		if !inLine {
			w.fail("client %d: user %d waits for nothing", c.id, j)
		}
	}
}

// checkUnused fails a call that waits for a look though it may have the lock: nothing has gone
// wrong, nothing is under way, and only a timer would go on. Clients that hear no message look, and
// so does the first behind foreign ones, whose window may be in vain.
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

// used returns how many permits have holders, were left to a lease, or are on their way to another
// client.
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

// wanted returns how many permits the first ticket in the queue takes. If there is none it is the
// most, or the least, that a call takes which waits.
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

// looks returns a waiter of the lock that would go on with a look, nil if there is none. One behind
// the first without a ticket does not.
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

// What may last for a number of ticks, and no longer: a free lock that a caller waits for, a wait
// in which others are served.

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

// readerIsNext reports whether a reader of ours is the first in the queue, or stands right behind a
// window while a foreign client reads: it need not wait for the others that read.
func (w *world) readerIsNext() bool {
	q, s := w.server.Queue, &w.server
	if len(q) > 1 && q[0] == server.Window && slices.ContainsFunc(s.Holders, func(h server.Holder) bool { return server.IsForeign(h.ID) }) {
		q = q[1:]
	}
	return len(q) > 0 && q[0].Mode == core.Shared
}

// waits reports whether a client of ours waits that can be served, whether a fault ends soon, and
// whether the lock is held, or left to a lease.
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

// checkUnheard fails a tenure that has the lock for longer than a claim while its client, which
// lives, does not know.
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

// keepsReaders fails a reader that waits for too long while others read: for as long as a writer
// may hold it back.
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

// In which order waiters are served, and what may refuse a call: others are passed a bounded number
// of times, a position in the queue outlives its caller, and no attempt is refused by the dead.

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

// passOthers notes that the client, nil for a foreign one, has the lock while others stand in the
// queue.
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

// denied notes that an attempt was refused. It fails one that only the dead have refused, in setups
// that begin with them, one that was refused by a lock that was free all the time, and a reader
// that was refused beside readers of its client, if there is no writer.
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

// checkOverdue fails a call whose time is up, and that waits for the answer to the command of
// another call, though there is none on its way.
func (w *world) checkOverdue(c *client) {
	for j := range c.users {
		u := &c.users[j]
		if u.state != waiting || u.call.Until > w.clock(c).Time || u.call.Outcome != core.Waiting || u.call.Tenure != nil {
			continue
		}
		some := false
		l := c.lockOf(j)
		for t := range l.Tenures {
			op, _ := l.Peek(t, w.clock(c))
			some = some || t.OpInFlight() != core.None || op != core.None
		}
		if !some {
			w.fail("client %d: the time of user %d is up, it waits for an answer, and none is on its way", c.id, j)
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

// queuedTicket returns the ticket of a call that stands in the queue in Redis, the zero ID for
// none, and for one that takes the lock over, which leaves with its call.
func (w *world) queuedTicket(c *client, call *core.Call) core.ID {
	if call.Tenure == nil || w.Kind.Strict || w.faults < w.Faults {
		return core.ID{}
	}
	for _, t := range w.server.Queue {
		if t.ID == call.Tenure.ID && !t.Takes && (t.Mode == core.Shared) == (call.Mode == core.Shared) {
			return t.ID
		}
	}
	return core.ID{}
}

// keepsPosition fails a client that gives up a position in the queue when its caller leaves, though
// the next caller could have it.
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

// Tenures without a holder here: passed on, held for a least time, or left to a lease that other
// readers keep in the hash.

// isOver reports whether the lease of a reader has ended, whom other readers keep in the hash.
func (w *world) isOver(h server.Holder) bool { return h.Ends > 0 && core.Time(h.Ends) <= w.now }

// isPassed reports whether the lock is on its way to a client that resumes it.
func (w *world) isPassed() bool {
	return w.passed.id != core.ID{} && !w.passed.used && w.now < w.passed.until
}

// isParted reports whether the client has left the holder to its lease, and need not know it any
// more: it stays, or was passed on, also if Redis has lost that.
func (w *world) isParted(c *client, h server.Holder) bool {
	switch {
	case h.ID == w.passed.id:
		return w.now < w.passed.until
	case h.Owner == 0:
		return w.now < w.passed.untilAll()
	}
	return slices.ContainsFunc(c.users, func(u user) bool { return u.parted == h.ID })
}

// missedBy returns when each waiter has found out, by a look, that a lock which was passed on until
// then was not resumed: no message says that a lease has ended.
func (w *world) missedBy(until core.Time) core.Time {
	if until == 0 {
		return 0
	}
	return until.After(or(w.Look, 2))
}

// checkParted fails a lock that stays and is released before its lease ends.
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
			w.fail("client %d: a lock that stays is released before its time", c.id)
		}
	}
}

// checkPassedOn fails a lock that was passed on, and is released before its time.
func (w *world) checkPassedOn() {
	if w.isPassed() && w.passed.known && !w.wiped && !slices.ContainsFunc(w.server.Holders, func(h server.Holder) bool { return h.ID == w.passed.id && h.Owner == 0 }) {
		w.fail("client %d: a lock that was passed on is released before its time", w.passed.id.Client)
	}
}

// Once all is released nothing may be left.

// checkLeft fails if living clients leave anything once all is released.
func (w *world) checkLeft() {
	for i := range w.clients {
		if !w.clients[i].isDone() {
			return
		}
	}
	for i := range w.threads {
		if f := &w.threads[i]; f.state != foreignIdle && f.kind != Sleeper {
			return
		}
	}
	for _, h := range w.server.Holders {
		if w.isOurs(h.ID) && w.now < core.Time(w.server.Ends) && !w.isOver(h) && !w.unbounded() && !w.isParted(&w.clients[h.ID.Client], h) {
			w.fail("all is released, and client %d has the key", h.ID.Client)
		}
	}
	for _, t := range w.server.Queue {
		if w.isOurs(t.ID) && !w.unbounded() {
			w.fail("all is released, and a ticket of client %d is in the queue", t.ID.Client)
		}
	}
	for _, id := range w.server.Marks {
		if w.isOurs(id) && !w.unbounded() {
			w.fail("all is released, and a mark of client %d is left", id.Client)
		}
	}
	if slices.Contains(w.server.Foreign.Fair, server.Place) {
		w.fail("all is released, and an entry of ours is left in the fair queue")
	}
}

// isDone reports whether the client has released all that it had, and nothing of it is under way.
// The dead have.
func (c *client) isDone() bool {
	switch {
	case len(c.pipe)+len(c.back)+len(c.late)+len(c.heard) > 0:
		return false
	case c.dead:
		return true
	case c.frozen || len(c.nudges) > 0:
		return false
	}
	return !slices.ContainsFunc(c.users, func(u user) bool { return u.state != idle }) &&
		!slices.ContainsFunc(c.locks, func(l *core.Lock) bool { return !l.Idle() })
}

// isOurs reports whether the tenure is that of a client that lives and reaches Redis.
func (w *world) isOurs(id core.ID) bool {
	if id.Client >= uint32(len(w.clients)) {
		return false
	}
	c := &w.clients[id.Client]
	return !c.dead && !c.off
}

// unbounded reports whether a command may have been executed at any time: what it leaves ends with
// its lease then.
func (w *world) unbounded() bool {
	return w.Fault&(Endless|Double|Repeat|Failover) != 0
}

// The assertions about calls with a bound, which wait only if few others do.

// checkRoom fails a join with another bound than the callers here leave: each that waits without a
// ticket counts.
func (w *world) checkRoom(c *client, p *packet) {
	if p.cmd.Op != core.Join || p.user < 0 {
		return
	}
	u := &c.users[p.user]
	if bounded := u.call.Most != 0 && !u.admitted; p.cmd.Bounded != bounded {
		w.fail("client %d: user %d asks for a position, with a bound: %v", c.id, p.user, p.cmd.Bounded)
	}
	if !p.cmd.Bounded {
		return
	}
	room := w.most()
	for r := range c.lockOf(p.user).Waiters {
		if r == u.call {
			break
		}
		if r.Tenure == nil {
			room--
		}
	}
	if room = max(room, 0); p.cmd.Most != room {
		w.fail("client %d: user %d asks for one of %d positions, and there are %d", c.id, p.user, p.cmd.Most, room)
	}
}

// bounds fails a join that is undone though there is room, or that stays though there is none.
func (w *world) bounds(p *packet, a core.Reply) {
	if p.cmd.Op != core.Join || !p.cmd.Bounded {
		return
	}
	tickets := w.tickets()
	has := slices.ContainsFunc(w.server.Queue, func(t core.Ticket) bool { return t.ID == p.cmd.ID })
	switch {
	case a.Full && (has || tickets < p.cmd.Most):
		w.fail("a join is undone, and with it stood %d tickets, of %d that may; it stands there: %v", tickets, p.cmd.Most, has)
	case has && tickets > p.cmd.Most && w.Fault&(Double|Repeat) == 0:
		w.fail("a join is not undone, and %d tickets are there, of %d that may be", tickets, p.cmd.Most)
	}
}

// tickets returns how many tickets stand in the queue.
func (w *world) tickets() int {
	n := len(w.server.Queue)
	if slices.Contains(w.server.Queue, server.Window) {
		n--
	}
	return n
}

// checkBounds fails a queue with more tickets than may wait, where all calls have a bound.
func (w *world) checkBounds() {
	if n := w.tickets(); w.Do&OnlyBounded != 0 && w.Do&(Read|Try) == 0 && w.Fault&(Double|Repeat|Late|Endless|Wipe|LoseQueue|Failover) == 0 && n > w.most() {
		w.fail("%d tickets stand in the queue, and %d calls may wait", n, w.most())
	}
}

// checkAsked fails a call that waits for more than a tick and has not asked for a position, though
// it must: nothing has gone wrong.
func (w *world) checkAsked(c *client) {
	if w.faults < w.Faults || w.Polling {
		return
	}
	for j := range c.users {
		if u := &c.users[j]; u.state == waiting && u.call.Outcome == core.Waiting && u.call.Most != 0 && u.call.Tenure == nil {
			w.fail("client %d: user %d waits, and has not asked for a position", c.id, j)
		}
	}
}

// refusedAsFull notes that a call returns since too many wait. It fails one without a bound, and
// one that had a position.
func (w *world) refusedAsFull(c *client, u *user, o *core.Call) {
	switch {
	case o.Most == 0:
		w.fail("client %d: a call without a bound is refused, since too many wait", c.id)
	case u.admitted:
		w.fail("client %d: a call that had a position in the queue is refused, since too many wait", c.id)
	case int(o.Others) < w.most():
		w.fail("client %d: a call is refused since %d wait", c.id, o.Others)
	}
}
