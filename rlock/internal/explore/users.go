package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// What users may do, and what they do.

// usersOf appends what the users of a client may do next.
func (w *world) usersOf(as []action, i int) []action {
	c := &w.clients[i]
	for j := range c.users {
		u := &c.users[j]
		add := func(k kind) { as = append(as, action{k, uint8(i), uint8(j)}) }
		does := func(what Users, k kind) {
			if w.Do&what != 0 {
				add(k)
			}
		}
		switch u.state {
		case idle:
			if (w.Rounds == 0 || u.rounds < w.Rounds) && !c.core.Closed() {
				w.mayCall(add, does)
			}
		case waiting:
			does(Cancel, doCancel)
		case unlocking:
			if u.stage == queues {
				does(Cancel, doCancel)
			}
		case holding:
			w.mayEnd(u, add)
			if u.writes+u.reads == 1 {
				w.mayUse(u, c.lockOf(j), does)
			}
		default:
			panic(u.state)
		}
	}
	if w.Do&Close != 0 && !c.core.Closed() {
		as = append(as, action{doClose, uint8(i), 0})
	}
	if w.Do&Force != 0 && i == 0 && w.mayForce(c) {
		as = append(as, action{doForce, 0, 0})
	}
	if w.Do&Let != 0 && i == 0 && !w.let && w.stalled <= w.now {
		for j, t := range w.server.Queue {
			if t != server.Window && len(w.server.Holders) > 0 {
				as = append(as, action{doLet, 0, uint8(j)})
			}
		}
	}
	return as
}

// mayCall adds the calls of a user that does nothing.
func (w *world) mayCall(add func(kind), does func(Users, kind)) {
	if w.Do&(OnlyRead|OnlyFixed|OnlyBounded|OnlyTry) == 0 {
		add(doLock)
	}
	if w.Do&OnlyRead == 0 {
		does(Try|OnlyTry, doTry)
	}
	if w.Do&Read != 0 {
		does(Try|OnlyTry, doTryRead)
	}
	does(Wide, doWide)
	if w.Do&Wide != 0 {
		does(Try, doTryWide)
	}
	does(Timed, doTimed)
	does(Fixed|OnlyFixed, doFixed)
	does(Capped, doCapped)
	does(Bounded|OnlyBounded, doBounded)
	does(Take, doTake)
	if w.Do&Wide != 0 {
		does(Take, doTakeWide)
	}
	if w.Do&OnlyTry == 0 {
		does(Read, doRead)
	}
	does(FixedRead, doFixedRead)
	if w.passed.known && (!w.endless() || !w.passed.used) {
		does(Pass, doResume)
	}
}

// mayEnd adds the unlocks of a user that has levels.
func (w *world) mayEnd(u *user, add func(kind)) {
	if u.writes > 0 {
		add(doUnlock)
	}
	if u.reads > 0 {
		add(doUnlockRead)
	}
}

// mayUse adds what else a user may do that has one level.
func (w *world) mayUse(u *user, l *core.Lock, does func(Users, kind)) {
	does(Nest, doNest)
	if w.Do&Wide != 0 {
		does(Nest, doNestWide)
	}
	does(Stay, doUnlockStay)
	does(LongNest, doLongNest)
	if w.mayPassOn() {
		does(Pass, doPassOn)
	}
	if v := l.Levels(); len(v) == 1 && v[0].Until == core.NeverSafe {
		does(SetLease, doSetLease)
	} else if len(v) == 1 {
		does(Extend, doExtend)
	}
	does(Carry, doUnlockWith)
	if !u.wrote {
		does(Write, doWrite)
	}
	if u.writes > 0 {
		does(Downgrade, doDowngrade)
	}
}

// mayPassOn reports whether a user may pass the lock on: without end once in a tick, since its
// client remembers the tenure for the time of the pass.
func (w *world) mayPassOn() bool { return !w.endless() || w.passed.until != w.now+within }

// userActs makes a user do that.
func (w *world) userActs(c *client, i int, k kind) {
	switch k {
	case doLock, doWide, doTry, doTryWide, doTryRead, doTimed, doFixed, doCapped, doBounded, doTake, doTakeWide, doRead, doFixedRead:
		w.locks(c, i, k)
	case doNestWide:
		w.nestsWide(c, i)
	case doNest, doLongNest, doDowngrade:
		w.nests(c, i, k)
	case doUnlock, doUnlockRead, doUnlockStay:
		w.unlocks(c, i, k)
	case doUnlockWith:
		w.unlocksWith(c, i)
	case doCancel:
		c.passed, c.seen = 0, false
		w.leaves(c, i)
	case doPassOn:
		w.passesOn(c, i)
	case doResume:
		w.resumes(c, i)
	case doSetLease:
		if !c.lockOf(i).SetLease(w.ownerOf(i), c.users[i].mode(), nil, 2, w.clock(c)) {
			w.fail("client %d: SetLease of a held lock is refused", c.id)
		}
	case doExtend:
		u, now := &c.users[i], w.clock(c)
		c.lockOf(i).Extend(w.ownerOf(i), core.Alone, nil, capped, now)
		if u.until > 0 {
			u.until = now.Time + core.Time(capped)
		}
	case doWrite:
		w.writes(c, i)
	default:
		panic(k)
	}
}

// mode is that of the only level of a user.
func (u *user) mode() core.Mode {
	if u.reads > 0 {
		return core.Shared
	}
	return core.Alone
}

// begins counts a round of the user.
func (w *world) begins(u *user) {
	if w.Rounds > 0 {
		u.rounds++
	}
}

// locks makes a user that has nothing ask for the lock.
func (w *world) locks(c *client, i int, k kind) {
	u, now := &c.users[i], w.clock(c)
	w.begins(u)
	r := &core.Call{Owner: w.ownerOf(i), Waits: true, Until: core.Never, Repeats: w.Do&Same != 0, Answerable: w.Do&Ask != 0, Handle: w.handle(i), Tag: i}
	if w.Do&Same != 0 {
		r.Info = i
	}
	r.Note = w.note(i, u)
	switch k {
	case doTry, doTryWide, doTryRead:
		r.Waits, r.Until = false, now.Time
	}
	switch k {
	case doTake, doTakeWide:
		r.Grace = grace
	}
	switch k {
	case doLock, doTry, doTake:
	case doWide, doTryWide, doTakeWide:
		r.More = 1
	case doTimed:
		r.Until = now.Time + 1
	case doFixed:
		r.Lease = 2
	case doCapped:
		r.Lease, r.Capped = capped, true
	case doBounded:
		r.Most = int32(w.most())
	case doRead, doTryRead:
		r.Mode = core.Shared
	case doFixedRead:
		r.Mode, r.Lease = core.Shared, 2
	default:
		panic(k)
	}
	w.calls(c, i, waiting, r)
	if c.lockOf(i).BeginLock(r, now) != core.Waiting {
		w.returns(c, u)
		return
	}
	w.run(c, i, false)
}

// note returns the note of the call that user i has begun: none in each third of its rounds.
func (w *world) note(i int, u *user) *core.Note {
	if n := (u.rounds - 1 + i) % 3; w.Do&Noted != 0 && n > 0 {
		return &core.Note{Text: "n"[n-1:]}
	}
	return nil
}

// nests makes a holder take one more level.
func (w *world) nests(c *client, i int, k kind) {
	u := &c.users[i]
	r := &core.Call{Owner: w.ownerOf(i), Until: core.Never, Tag: i}
	if k == doLongNest {
		r.Lease = 2 * w.lease()
	}
	if k == doDowngrade || u.writes == 0 {
		r.Mode = core.Shared
	}
	if c.lockOf(i).BeginLock(r, w.clock(c)) != core.Acquired {
		w.fail("client %d: nested Lock: outcome %v", c.id, r.Outcome)
		return
	}
	u.levels(r.Mode, +1)
}

// unlocks makes a user close a level. If the lock stays it is left to a lease.
func (w *world) unlocks(c *client, i int, k kind) {
	u, l, now, mode := &c.users[i], c.lockOf(i), w.clock(c), core.Alone
	if k == doUnlockRead || u.writes == 0 {
		mode = core.Shared
	}
	if k == doUnlockStay {
		u.stays = now.Time + stays
		l.StayUntil(u.stays)
	}
	_, t, ok := l.Unlock(w.ownerOf(i), mode, w.handle(i), now)
	if !ok {
		w.fail("client %d: Unlock of a held lock is refused", c.id)
		return
	}
	u.levels(mode, -1)
	w.releases(c, i, t)
}

// levels opens or closes a level. A user without one is idle.
func (u *user) levels(mode core.Mode, change int) {
	if mode == core.Shared {
		u.reads += change
	} else {
		u.writes += change
	}
	if u.reads+u.writes == 0 {
		u.state = idle
	}
}

func (w *world) passesOn(c *client, i int) {
	u := &c.users[i]
	v, t, result := c.lockOf(i).Pass(w.ownerOf(i), u.mode(), nil, within, w.clock(c))
	if result != core.HasParted {
		return // other readers go on
	}
	u.reads, u.writes, u.token = 0, 0, v.Token
	u.passes = true
	w.releases(c, i, t)
}

// resumes makes a user take the lock that was passed on last.
func (w *world) resumes(c *client, i int) {
	w.begins(&c.users[i])
	p := &w.passed
	r := &core.Call{Owner: w.ownerOf(i), Mode: p.mode, More: p.more, Until: core.Never, Named: p.id, Inherits: p.token, Note: w.note(i, &c.users[i]), Tag: i}
	w.calls(c, i, waiting, r)
	c.lockOf(i).BeginResume(r, w.clock(c))
	w.run(c, i, false)
}

// nestsWide makes a user that holds the lock ask for two permits. One that has two nests, and one
// that has fewer is refused.
func (w *world) nestsWide(c *client, i int) {
	u, now := &c.users[i], w.clock(c)
	r := &core.Call{Owner: w.ownerOf(i), More: 1, Waits: true, Until: core.Never, Tag: i}
	switch o := c.lockOf(i).BeginLock(r, now); {
	case o == core.Acquired:
		u.writes++
		u.more = max(u.more, r.More)
	case o != core.Upgrades || u.more >= r.More:
		w.fail("client %d: a nested Lock of two permits: outcome %v", c.id, o)
	}
}

// releases makes a call wait for the release of the tenure that it has ended, or for it to be
// passed on.
func (w *world) releases(c *client, i int, t *core.Tenure) {
	u, now := &c.users[i], w.clock(c).Time
	if t == nil { // other readers go on
		c.stays, u.stays = max(c.stays, u.stays), 0
		return
	}
	if c.stays > now {
		u.stays = max(c.stays, u.stays)
	}
	c.stays = 0
	call := &core.Call{Owner: w.ownerOf(i), Until: now + 1, Carries: u.carries, Tag: i}
	u.ends = t.ID
	w.calls(c, i, unlocking, call)
	t.Lock().BeginRelease(t, call)
	w.run(c, i, false)
}

// within is for how long locks are passed on.
const within = 3

// mayForce reports whether a client may release the holder by force now: one such release is on its
// way at a time.
func (w *world) mayForce(c *client) bool {
	forces := func(p packet) bool { return p.isForce() }
	return w.forces < mostForces && len(w.server.Holders) > 0 && w.stalled <= w.now && !slices.ContainsFunc(c.pipe, forces) && !slices.ContainsFunc(c.back, forces)
}

// mostForces is the number of releases by force in a world: each gives a caller another ticket.
const mostForces = 2

// force makes a client release by force the holder that Redis shows now. The caller leaves at once:
// its answer counts for the lock all the same.
func (w *world) force(c *client) {
	w.forces++
	h := w.server.Holders[0]
	l, call, now := w.lockOf(c, h.ID), &core.Call{Named: h.ID, Until: core.Never}, w.clock(c)
	l.BeginForce(call)
	cmd := l.Command(call, l.Next(call, true, now).Op, now)
	cmd.More = h.More // the text of the owner is the holder's
	w.send(c, cmd, -1, releases)
	l.End(call, core.Cancelled, now)
	l.Next(call, false, now) // it returns
}

// lets lets a ticket through, past any holder: one in a world.
func (w *world) lets(t core.Ticket) {
	var holders []core.ID
	for _, h := range w.server.Holders {
		holders = append(holders, h.ID)
	}
	w.let = w.server.LetThrough(t.ID, grace, holders, server.Time(w.now), &w.effects) > 0
}

// isForce reports whether the command is a release by force.
func (p *packet) isForce() bool { return p.cmd.Op == core.Leave && p.cmd.Tenure == nil }

// forced notes that Redis has executed a release by force of a client.
func (w *world) forced(c *client, id core.ID) {
	w.wiped = true                                             // another may hold the lock before the holder is told
	w.order = slices.DeleteFunc(w.order, func(p caller) bool { // its caller joins anew
		call := w.clients[p.client].users[p.user].call
		return call != nil && call.Tenure != nil && call.Tenure.ID == id
	})
	if to := &w.clients[id.Client]; to != c && !to.dead {
		to.heard = append(to.heard, message{Message: core.Message{Kind: core.Forced, ID: id}})
	}
}

func (w *world) closes(c *client) {
	for _, l := range c.locks {
		l.Close(w.clock(c))
	}
	for i := range c.users {
		if u := &c.users[i]; u.state == holding && u.reads+u.writes == 0 {
			u.state = idle
		}
	}
}

// Guarded writes. A user sends one and does not wait for its answer: its call may have been
// cancelled.

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
	c.lockOf(i).BeginWrite(u.write)
	w.sendsWrite(c, i, w.Slots == 0)
}

// sendsWrite sends the guarded write of a user, if it has a slot and its hold is not over by now.
// Its caller leaves then.
func (w *world) sendsWrite(c *client, i int, slot bool) {
	u, l, now := &c.users[i], c.lockOf(i), w.clock(c)
	switch a := l.Next(u.write, slot, now); a.Do {
	case core.Sends:
		w.send(c, l.Command(u.write, a.Op, now), i, asks)
		c.pipe[len(c.pipe)-1].write = write{user: i}
		l.End(u.write, core.Cancelled, now)
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

// carried notes that the guarded write was executed which the release of that tenure carries. It
// fails one that is executed a second time while its call waits.
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

// checkCarried checks what the end of a release says of the guarded write that it carries. One that
// runs twice may be answered the second time.
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

// executed fails a guarded write that Redis executes in a later hold than its own, and without a
// fault one that it does not execute in its own.
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

// outdates notes that a hold begins, by a tenure unless it is a foreign one, and which writes of
// former holds must not be executed any more: those in that tenure, and unless there are several
// permits all others, but for those of readers before a reader.
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
