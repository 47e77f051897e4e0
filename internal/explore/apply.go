package explore

import (
	"slices"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/explore/server"
)

// apply carries out the action.
func (w *world) apply(a action) {
	c := &w.clients[a.c]
	if a.kind >= doSlowTick {
		w.faults--
	}
	switch {
	case a.kind <= doWrite:
		w.userActs(c, int(a.i), a.kind)
	case a.kind <= doTick:
		w.happens(c, int(a.i), a.kind)
	default:
		w.fault(c, a.kind)
	}
	if !c.dead {
		w.carryOut(c)
	}
	w.deliver()
	w.check()
}

func (w *world) userActs(c *client, i int, k kind) {
	u, l, now, o := &c.users[i], c.lockOf(i), w.clock(c), w.ownerOf(i)
	switch k {
	case doLock, doWide, doTry, doTryWide, doTimed, doFixed, doCapped, doBounded, doRead, doFixedRead:
		if w.Rounds > 0 {
			u.rounds++
		}
		r := &core.Call{Owner: o, Waits: k != doTry && k != doTryWide, Until: core.Never, Linger: w.Linger, CallTime: 1, Repeats: w.Do&Same != 0, Answers: w.Do&Ask != 0, Tag: i}
		if w.Do&Same != 0 {
			r.Info = i
		}
		switch k {
		case doWide, doTryWide:
			r.More = 1
		case doTimed:
			r.Until = now.Time + 1
		case doFixed, doFixedRead:
			r.Lease = 2
		case doCapped:
			r.Lease, r.Capped = capped, true
		case doBounded:
			r.Most = int32(w.most())
		}
		if k == doRead || k == doFixedRead {
			r.Mode = core.Shared
		}
		if w.Do&Same != 0 {
			r.Handle = i + 1
		}
		w.calls(c, i, waiting, r)
		if l.Lock(r, now) != core.Waiting {
			w.returns(c, u)
			return
		}
		w.run(c, i, false)
	case doNestWide:
		w.nestsWide(c, i)
	case doNest, doLongNest, doDowngrade:
		r := &core.Call{Owner: o, Until: core.Never, Tag: i}
		if k == doLongNest {
			r.Lease = 2 * w.lease()
		}
		if k == doDowngrade || u.writes == 0 {
			r.Mode = core.Shared
		}
		if l.Lock(r, now) != core.Acquired {
			w.fail("client %d: nested Lock: outcome %v", c.id, r.Outcome)
			return
		}
		if r.Mode == core.Shared {
			u.reads++
		} else {
			u.writes++
		}
	case doUnlock, doUnlockRead, doUnlockStay:
		mode := core.Alone
		if k == doUnlockRead || u.writes == 0 {
			mode = core.Shared
		}
		if k == doUnlockStay {
			u.stays = now.Time + stays
			l.StayUntil(u.stays)
		}
		var h any
		if w.Do&Same != 0 {
			h = i + 1
		}
		_, t, ok := l.Unlock(o, mode, h, now)
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
	case doUnlockWith:
		w.unlocksWith(c, i)
	case doCancel:
		c.passed, c.seen = 0, false
		w.leaves(c, i)
	case doDetach:
		mode := core.Alone
		if u.reads > 0 {
			mode = core.Shared
		}
		if v, t, result := l.Detach(o, mode, nil, now); result == core.HasParted {
			u.state, u.reads, u.writes = idle, 0, 0
			u.parted, u.partedUntil = t.ID, core.Time(v.Until)
		}
	case doPassOn:
		mode := core.Alone
		if u.reads > 0 {
			mode = core.Shared
		}
		v, t, result := l.Pass(o, mode, nil, within, now)
		if result != core.HasParted {
			return // beside other readers
		}
		u.reads, u.writes, u.token = 0, 0, v.Token
		u.passes = true
		w.releases(c, i, t)
	case doResume:
		if w.Rounds > 0 {
			u.rounds++
		}
		r := &core.Call{Owner: o, Mode: w.passed.mode, More: w.passed.more, Until: core.Never, Named: w.passed.id, Inherits: w.passed.token, Tag: i}
		w.calls(c, i, waiting, r)
		l.Resume(r, now)
		w.run(c, i, false)
	case doSetLease:
		mode := core.Alone
		if u.reads > 0 {
			mode = core.Shared
		}
		if !l.SetLease(o, mode, nil, 2, now) {
			w.fail("client %d: SetLease of a held lock is refused", c.id)
		}
	case doExtend:
		l.Extend(o, core.Alone, nil, capped, now)
		if u.until > 0 {
			u.until = now.Time + core.Time(capped)
		}
	case doWrite:
		w.writes(c, i)
	}
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
		c.users[i].stays = 0 // beside other readers
		return
	}
	u, call := &c.users[i], &core.Call{Owner: w.ownerOf(i), Until: w.clock(c).Time + 1, Carries: c.users[i].carries, Tag: i}
	u.ends = t.ID
	w.calls(c, i, unlocking, call)
	t.Lock().Release(t, call)
	w.run(c, i, false)
}

func (w *world) happens(c *client, i int, k kind) {
	switch k {
	case doForce:
		id := w.server.Holders[0].ID
		l, call, now := w.lockOf(c, id), &core.Call{Named: id, Until: core.Never}, w.clock(c)
		l.Force(call)
		cmd := l.Command(call, l.Next(call, true, now).Op, now)
		cmd.More = w.server.Holders[0].More // the text of the owner is the holder's
		a := w.server.Do(cmd, server.Time(w.now), &w.effects)
		l.Answer(&cmd, a, now)
		l.Next(call, false, now) // it returns
		if to := &w.clients[id.Client]; a.Left && to != c && !to.dead {
			to.heard = append(to.heard, message{Message: core.Message{Kind: core.Forced, ID: id}})
		}
		w.wiped = true // another may hold the lock before the message is heard
		w.granted()
	case doClose:
		for _, l := range c.locks {
			l.Close(w.clock(c))
		}
		for i := range c.users {
			if u := &c.users[i]; u.state == holding && u.reads+u.writes == 0 {
				u.state = idle
			}
		}
	case doNudge:
		w.nudge(c, i)
	case doSlot:
		w.run(c, i, true)
	case doSlotWrite:
		w.sendsWrite(c, i, true)
	case doExecute:
		w.executeFirst(c)
	case doLate:
		p := c.late[i]
		c.late = slices.Delete(c.late, i, i+1)
		w.execute(c, &p)
	case doHandle:
		p := c.back[0]
		c.back = slices.Delete(c.back, 0, 1)
		w.answered(c, &p)
	case doHear:
		m := c.heard[0]
		if m.Kind == core.Granted && !m.confirms && !m.doubts && !m.abroad {
			c.heeds = m.ID
		}
		c.heard = slices.Delete(c.heard, 0, 1)
		for _, l := range c.locks {
			switch {
			case m.confirms:
				if l.Subscribes() {
					l.Listening(true, w.clock(c))
				}
			case m.abroad:
				l.ListeningAbroad(w.clock(c))
			case m.doubts:
				l.Doubt(w.clock(c))
			case len(c.locks) == 1 || l.Find(m.ID) != nil || m.Kind == core.Shown && l == c.locks[0]: // the driver has an index of the tickets of a semaphore
				l.Hear(m.Message, w.clock(c))
			}
		}
	case doSubscribe:
		c.sub = subscribed
		w.server.Listens = w.server.Listens.With(uint32(c.id))
		c.heard = append(c.heard, message{confirms: true})
	case doListen:
		c.abroad = subscribed
		w.server.Foreign.Ears = w.server.Foreign.Ears.With(uint32(c.id))
		c.heard = append(c.heard, message{abroad: true})
	case doForeignTry, doForeignSubscribe, doForeignRelease:
		w.foreignActs(i, k)
	case doFail:
		p := c.pipe[0]
		c.pipe = slices.Delete(c.pipe, 0, 1)
		p.reply = core.Reply{Fault: core.Unknown}
		c.back = append(c.back, p)
	case doHeal:
		c.off = false
	case doThaw:
		if c.asleep { // the keeper notices that the clocks have jumped
			for j := range c.timers {
				c.timers[j].at = 0
			}
		}
		c.frozen, c.asleep = false, false
		w.fire(c)
	case doTakeOver:
		w.server, w.lags, w.wiped = w.old, false, true
		for i := range w.clients { // their connections break, and the driver has the core doubt
			w.breaks(&w.clients[i])
			w.clients[i].heard = append(w.clients[i].heard, message{doubts: true})
		}
	case doTick:
		w.tick()
	}
}

// lockOf returns the lock that a tenure belongs to.
func (w *world) lockOf(c *client, id core.ID) *core.Lock {
	for _, l := range c.locks {
		if l.Find(id) != nil {
			return l
		}
	}
	return c.locks[0]
}

// within is for how long locks are passed on.
const within = 3

// executeFirst executes the first command of a client's pipeline.
func (w *world) executeFirst(c *client) {
	p := c.pipe[0]
	c.pipe = slices.Delete(c.pipe, 0, 1)
	p.reply = w.execute(c, &p)
	if p.cmd.Op == core.Leave && p.cmd.ID == c.heeds {
		c.heeds = core.ID{}
	}
	p.reply.Settled = w.Ordered && p.behind && p.epoch == c.epoch
	if !c.dead {
		c.back = append(c.back, p)
	}
}

// execute executes a command in Redis.
func (w *world) execute(c *client, p *packet) core.Reply {
	queue := w.server.Queue
	a := w.server.Do(p.cmd, server.Time(w.now), &w.effects)
	if p.cmd.Op != core.Resume {
		w.checkTurns(queue)
	}
	if p.cmd.Op == core.Write {
		w.executed(c, p, a)
	}
	if p.cmd.Op == core.Join && a.Found == core.Nowhere && !a.Full {
		w.fail("a join is answered that its ticket is nowhere")
	}
	w.bounds(p, a)
	switch {
	case a.Found != core.Holds:
	case p.cmd.Op == core.Mirror && p.cmd.Owner == 0:
		w.passed = passed{id: p.cmd.ID, mode: p.cmd.Mode, more: p.cmd.More, until: w.now + within, older: w.passed.untilAll()}
	case p.cmd.Op == core.Resume && p.cmd.Passed == w.passed.id && !w.passed.used:
		w.passed.used, w.passed.by = true, place{c.id, c.users[0].rounds}
	}
	for i := range c.users {
		if u := &c.users[i]; p.cmd.Op == core.Leave && a.Left && p.cmd.ID == u.ends {
			u.left = true
		}
	}
	if w.effects.Wrote {
		w.carried(p.cmd.ID)
	}
	if !a.Full {
		w.joins(c, p)
	}
	w.ownRelease(c, p, a)
	w.granted()
	return a
}

// deliver puts what Redis has published on its way.
func (w *world) deliver() {
	for _, m := range w.effects.Messages {
		if m.Fair != (core.ID{}) {
			w.tellQueuer(m.Fair)
			continue
		}
		if m.Kind == core.ForeignNews {
			m.Ours = true
			w.tellAbroad(message{Message: m.Message})
			continue
		}
		to := &w.clients[m.ID.Client]
		if m.Kind == core.Shown && w.lockOf(to, m.ID).Find(m.ID) != nil {
			continue // it changes nothing
		}
		if !to.dead && (m.Kind == core.Called || m.Kind == core.Shown || w.server.Listens.Has(m.ID.Client)) {
			to.heard = append(to.heard, message{Message: m.Message})
		}
	}
	w.effects.Messages = w.effects.Messages[:0]
}

// breaks ends the connection of a client: commands in flight on it get no answer.
func (w *world) breaks(c *client) {
	c.back = append(c.back, c.pipe...)
	c.pipe = c.pipe[:0]
	c.epoch++
	for i := range c.back {
		c.back[i].reply = core.Reply{Fault: core.Unknown}
	}
}

func (w *world) fault(c *client, k kind) {
	switch k {
	case doSlowTick:
		w.tick()
	case doBreak:
		w.breaks(c)
	case doBreakLate:
		p := c.pipe[0]
		p.since = w.now
		c.late = append(c.late, p)
		w.breaks(c)
	case doDouble:
		p := c.pipe[0]
		p.since = w.now
		c.late = append(c.late, p)
	case doRepeat:
		p := c.pipe[0]
		p.since = w.now
		w.executeFirst(c)
		c.late = append(c.late, p)
	case doRefuse, doWrongType, doJoinFails, doUnreplicated:
		p := c.pipe[0]
		c.pipe = slices.Delete(c.pipe, 0, 1)
		switch k {
		case doRefuse:
			p.reply = core.Reply{Fault: core.NotRun}
		case doWrongType:
			p.reply = core.Reply{Fault: core.Fatal}
		case doJoinFails:
			joins := p.cmd.Joins
			p.cmd.Joins = core.Ticket{}
			p.reply = w.execute(c, &p)
			p.cmd.Joins, p.reply.JoinFault = joins, core.NotRun
		case doUnreplicated:
			p.reply = w.execute(c, &p)
			p.reply.Unreplicated = p.reply.Found == core.Holds
		}
		c.back = append(c.back, p)
	case doLoseMessage:
		c.heard = slices.Delete(c.heard, 0, 1)
	case doDoubleMessage:
		c.heard = append(c.heard, c.heard[0])
	case doForgeGrant:
		c.heard = append(c.heard, message{Message: core.Message{Kind: core.Granted, ID: core.ID{Client: uint32(c.id), N: 1 << 40}}})
	case doForgeOther:
		for _, k := range []core.MessageKind{core.Granted, core.Forced, core.Called} {
			c.heard = append(c.heard, message{Message: core.Message{Kind: k, ID: w.server.Holders[0].ID}})
		}
	case doCut:
		c.sub = subscribing
		w.server.Listens = w.server.Listens.Without(uint32(c.id))
		c.heard = c.heard[:0]
	case doPart:
		c.off = true
	case doStall:
		w.stalled = w.now + 3
	case doDie, doDieDeaf:
		c.dead = true
		c.back, c.heard, c.nudges, c.timers = c.back[:0], c.heard[:0], c.nudges[:0], c.timers[:0]
		if k == doDieDeaf {
			w.server.Listens = w.server.Listens.Without(uint32(c.id))
		}
		for i := range c.users {
			c.users[i] = user{rounds: w.Rounds}
		}
	case doFreeze:
		c.frozen = true
	case doSleep:
		c.frozen, c.asleep = true, true
	case doWipe:
		w.wiped = true
		w.server.Holders, w.server.Queue, w.server.Marks = nil, nil, nil
	case doLoseQueue:
		w.server.Queue, w.server.Marks = nil, nil
	case doDelete:
		w.wiped = true
		w.server.Holders = nil
	case doLag:
		w.old, w.lags = w.server, true
	}
}

// tick advances the time, for all at once but those whose clock sleeps.
func (w *world) tick() {
	w.beforeTick()
	w.now++
	w.server.Expire(server.Time(w.now))
	for i := range w.clients {
		c := &w.clients[i]
		if w.Fault&Endless == 0 {
			c.late = slices.DeleteFunc(c.late, func(p packet) bool { return w.now-p.since >= core.Time(w.lease()) })
		}
		if c.asleep {
			c.lag++
		}
		if c.lives() {
			w.fire(c)
		}
	}
	w.afterTick()
}
