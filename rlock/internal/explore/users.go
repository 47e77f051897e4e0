package explore

import (
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
	if w.Do&Force != 0 && i == 0 && len(w.server.Holders) > 0 && w.stalled <= w.now {
		as = append(as, action{doForce, 0, 0})
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

// mayPassOn reports whether a user may pass the lock on: without end once in a tick, since its client remembers the tenure for
// the time of the pass.
func (w *world) mayPassOn() bool { return !w.endless() || w.passed.until != w.now+within }

// userActs makes a user do that.
func (w *world) userActs(c *client, i int, k kind) {
	switch k {
	case doLock, doWide, doTry, doTryWide, doTryRead, doTimed, doFixed, doCapped, doBounded, doRead, doFixedRead:
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
	r := &core.Call{Owner: w.ownerOf(i), Waits: true, Until: core.Never, Repeats: w.Do&Same != 0, Answers: w.Do&Ask != 0, Handle: w.handle(i), Tag: i}
	if w.Do&Same != 0 {
		r.Info = i
	}
	switch k {
	case doTry, doTryWide, doTryRead:
		r.Waits, r.Until = false, now.Time
	}
	switch k {
	case doLock, doTry:
	case doWide, doTryWide:
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
	if c.lockOf(i).Lock(r, now) != core.Waiting {
		w.returns(c, u)
		return
	}
	w.run(c, i, false)
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
	if c.lockOf(i).Lock(r, w.clock(c)) != core.Acquired {
		w.fail("client %d: nested Lock: outcome %v", c.id, r.Outcome)
		return
	}
	if r.Mode == core.Shared {
		u.reads++
	} else {
		u.writes++
	}
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
	if mode == core.Shared {
		u.reads--
	} else {
		u.writes--
	}
	if u.reads+u.writes == 0 {
		u.state = idle
	}
	w.releases(c, i, t)
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
	r := &core.Call{Owner: w.ownerOf(i), Mode: p.mode, More: p.more, Until: core.Never, Named: p.id, Inherits: p.token, Tag: i}
	w.calls(c, i, waiting, r)
	c.lockOf(i).Resume(r, w.clock(c))
	w.run(c, i, false)
}

// nestsWide makes a user that holds the lock ask for two permits. One that has two nests, and one that has fewer is refused.
func (w *world) nestsWide(c *client, i int) {
	u, now := &c.users[i], w.clock(c)
	r := &core.Call{Owner: w.ownerOf(i), More: 1, Waits: true, Until: core.Never, Tag: i}
	switch o := c.lockOf(i).Lock(r, now); {
	case o == core.Acquired:
		u.writes++
		u.more = max(u.more, r.More)
	case o != core.Upgrades || u.more >= r.More:
		w.fail("client %d: a nested Lock of two permits: outcome %v", c.id, o)
	}
}

// releases makes a call wait for the release of the tenure that it has ended, or for it to be passed on.
func (w *world) releases(c *client, i int, t *core.Tenure) {
	if t == nil {
		c.users[i].stays = 0 // other readers go on
		return
	}
	u, call := &c.users[i], &core.Call{Owner: w.ownerOf(i), Until: w.clock(c).Time + 1, Carries: c.users[i].carries, Tag: i}
	u.ends = t.ID
	w.calls(c, i, unlocking, call)
	t.Lock().Release(t, call)
	w.run(c, i, false)
}

// within is for how long locks are passed on.
const within = 3

// forces makes a client release the holder by force. All that is one event.
func (w *world) forces(c *client) {
	id := w.server.Holders[0].ID
	l, call, now := w.lockOf(c, id), &core.Call{Named: id, Until: core.Never}, w.clock(c)
	l.Force(call)
	cmd := l.Command(call, l.Next(call, true, now).Op, now)
	cmd.More = w.server.Holders[0].More // the text of the owner is the holder's
	a := w.server.Do(cmd, server.Time(w.now), &w.effects)
	l.Answer(&cmd, call, a, now)
	l.Next(call, false, now) // it returns
	if to := &w.clients[id.Client]; a.Left && to != c && !to.dead {
		to.heard = append(to.heard, message{Message: core.Message{Kind: core.Forced, ID: id}})
	}
	w.wiped = true // another may hold the lock before the message is heard
	w.granted()
}

// closes closes a client.
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
