package explore

import "github.com/go-rlock/rlock/rlock/internal/core"

// Guarded writes. A user sends one and does not wait for its answer: its call may have been cancelled.

// A write is what the world knows of one on its way.
type write struct {
	user  int
	ended bool // the hold in which it was sent has ended
	stale bool // and another one, which it may harm, has begun since then
}

// writes sends a guarded write of the user's hold.
func (w *world) writes(c *client, i int) {
	u, mode := &c.users[i], core.Alone
	if u.writes == 0 {
		mode = core.Shared
	}
	u.wrote = true
	u.write = &core.Call{Owner: w.ownerOf(i), Mode: mode, Handle: w.handle(i), Until: core.Never, Tag: i}
	c.lockOf(i).Write(u.write)
	w.sendsWrite(c, i, w.Slots == 0)
}

// sendsWrite sends the guarded write of a user, if it has a slot and its hold is not over by now. Its caller leaves then.
func (w *world) sendsWrite(c *client, i int, slot bool) {
	u, l, now := &c.users[i], c.lockOf(i), w.clock(c)
	switch a := l.Next(u.write, slot, now); a.Do {
	case core.Sends:
		w.send(c, l.Command(u.write, a.Op, now), i, asks)
		c.pipe[len(c.pipe)-1].write = write{user: i}
		l.Leave(u.write, core.Cancelled, now)
		l.Next(u.write, false, now) // it returns
		u.write = nil
	case core.Returns:
		if u.state == holding && w.Slots == 0 {
			w.fail("client %d: a guarded write of a held lock is refused", c.id)
		}
		u.write = nil
	case core.Queues:
	default: // a write has nothing to sleep for
		panic(a.Do)
	}
}

// unlocksWith unlocks the user's only level with a guarded write, which the release carries.
func (w *world) unlocksWith(c *client, i int) {
	u, mode := &c.users[i], core.Alone
	if u.writes == 0 {
		mode = core.Shared
	}
	l := c.lockOf(i)
	_, t, alone := l.UnlockWith(w.ownerOf(i), mode, w.handle(i), w.clock(c))
	switch {
	case !alone && len(l.Levels()) > 1:
		return // other readers go on
	case t == nil:
		w.fail("client %d: an Unlock with a guarded write has no command", c.id)
		return
	}
	u.reads, u.writes, u.carries = 0, 0, true
	w.releases(c, i, t)
}

// carried notes that the guarded write was executed which the release of that tenure carries. It fails one that is executed a
// second time while its call waits.
func (w *world) carried(id core.ID) {
	for i := range w.clients {
		for j := range w.clients[i].users {
			if u := &w.clients[i].users[j]; u.carries && u.ends == id {
				if u.wroteOut {
					w.fail("client %d: a release has its guarded write executed twice", i)
				}
				u.wroteOut = true
			}
		}
	}
}

// checkCarried checks what the end of a release says of the guarded write that it carries. One that runs twice may be answered
// the second time.
func (w *world) checkCarried(c *client, u *user, o *core.Call) {
	switch {
	case o.Cause == core.ByUnlock && !u.wroteOut && !w.wiped:
		w.fail("client %d: a release is confirmed, and its guarded write was not executed", c.id)
	case o.Cause == core.KeyGone && u.wroteOut && w.Fault&Double == 0:
		w.fail("client %d: a release says that the lock was lost, and its guarded write was executed", c.id)
	case o.Fault == core.NotRun && u.wroteOut:
		w.fail("client %d: a release says that it was not executed, and its guarded write was", c.id)
	}
}

// handle returns the handle of a user's level.
func (w *world) handle(i int) any {
	if w.Do&Same == 0 {
		return nil
	}
	return i + 1
}

// executed fails a guarded write that Redis executes in a later hold than its own, and without a fault one that it does not
// execute in its own.
func (w *world) executed(c *client, p *packet, a core.Reply) {
	switch ran := a.Found == core.Holds; {
	case ran && p.write.stale && !w.wiped:
		w.fail("client %d: a guarded write is executed in a later hold", c.id)
	case ran && p.write.ended && w.isPassed() && w.passed.id == p.cmd.ID:
		w.fail("client %d: a guarded write is executed in a lock that was passed on", c.id)
	case !ran && !p.write.ended && w.faults == w.Faults && !w.wiped:
		w.fail("client %d: a guarded write is refused, though its hold goes on", c.id)
	}
}

// checkWrites notes which holds have ended.
func (w *world) checkWrites() {
	for p, c := range w.inFlight {
		u, l := &c.users[p.write.user], c.lockOf(p.write.user)
		levels := u.writes
		if p.cmd.Mode == core.Shared {
			levels = u.reads
		}
		if c.dead || u.state != holding || levels == 0 || !l.Holds(w.ownerOf(p.write.user), w.clock(c)) {
			p.write.ended = true
		}
	}
}

// outdates notes that a hold begins, by a tenure unless it is a foreign one, and which writes of former holds must not be
// executed any more: those in that tenure, and unless there are several permits all others, but for those of readers before
// a reader.
func (w *world) outdates(m core.Mode, t *core.Tenure) {
	w.checkWrites()
	for p := range w.inFlight {
		alone := w.permits() == 1 && (m == core.Alone || p.cmd.Mode == core.Alone)
		if p.write.ended && (alone || t != nil && t.ID == p.cmd.ID) {
			p.write.stale = true
		}
	}
}

// inFlight calls yield with each guarded write that may still be executed.
func (w *world) inFlight(yield func(*packet, *client) bool) {
	for i := range w.clients {
		c := &w.clients[i]
		for _, ps := range [][]packet{c.pipe, c.late} {
			for j := range ps {
				if p := &ps[j]; p.cmd.Op == core.Write && !yield(p, c) {
					return
				}
			}
		}
	}
}
