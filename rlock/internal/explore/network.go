package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// The connections of clients: commands on their way to Redis, answers and messages on their way
// back.

// network appends what may come next on the connections of a client.
func (w *world) network(as []action, i int, quiet *bool) []action {
	c, add := &w.clients[i], func(k kind, j int, due bool) {
		as = append(as, action{k, uint8(i), uint8(j)})
		*quiet = *quiet && !due
	}
	if w.stalled <= w.now {
		if len(c.pipe) > 0 && !c.off {
			add(doExecute, 0, true)
		}
		for j := range c.late {
			if !alike(c.late, j) {
				add(doLate, j, false)
			}
		}
		if c.sub == subscribing && c.lives() && !c.off {
			add(doSubscribe, 0, true)
		}
		if c.abroad == subscribing && c.lives() && !c.off {
			add(doListen, 0, true)
		}
	} else if len(c.pipe) > 0 && !c.off {
		*quiet = false
	}
	if len(c.pipe) > 0 && c.off {
		add(doFail, 0, true)
	}
	if c.off {
		add(doHeal, 0, false)
	}
	return as
}

// alike reports whether a command like this one comes before it.
func alike(late []packet, j int) bool {
	for i := range late[:j] {
		if late[i].cmd.ID == late[j].cmd.ID && late[i].cmd.Op == late[j].cmd.Op && late[i].since == late[j].since && late[i].write == late[j].write {
			return true
		}
	}
	return false
}

// carries makes that happen on a connection of the client.
func (w *world) carries(c *client, i int, k kind) {
	switch k {
	case doExecute:
		w.executeFirst(c)
	case doLate:
		p := c.late[i]
		c.late = slices.Delete(c.late, i, i+1)
		w.execute(c, &p)
	case doHandle:
		p := c.back[i]
		for j := range i {
			c.back[j].overtaken = true
		}
		c.back = slices.Delete(c.back, i, i+1)
		w.answered(c, &p)
	case doHear:
		w.hears(c)
	case doSubscribe:
		c.sub = subscribed
		w.server.Listens = w.server.Listens.With(uint32(c.id))
		c.heard = append(c.heard, message{confirms: true})
	case doListen:
		c.abroad = subscribed
		w.server.Foreign.Ears = w.server.Foreign.Ears.With(uint32(c.id))
		c.heard = append(c.heard, message{abroad: true})
	case doFail:
		p := c.pipe[0]
		c.pipe = slices.Delete(c.pipe, 0, 1)
		p.reply = core.Reply{Fault: core.Unknown}
		c.back = append(c.back, p)
	case doHeal:
		c.off = false
	default:
		panic(k)
	}
}

// hears makes the client hear the next message.
func (w *world) hears(c *client) {
	m := c.heard[0]
	if m.Kind == core.Granted && !m.confirms && !m.verifies && !m.abroad {
		c.heeds = m.ID
	}
	c.heard = slices.Delete(c.heard, 0, 1)
	for _, l := range c.locks {
		switch {
		case m.confirms:
			if l.Subscribes() {
				l.Subscribed(true, w.clock(c))
			}
		case m.abroad:
			l.ListeningForeign(w.clock(c))
		case m.verifies:
			l.Confirm(w.clock(c))
		case len(c.locks) == 1 || l.Find(m.ID) != nil || m.Kind == core.Shown && l == c.locks[0]: // the driver has an index of the tickets of a semaphore
			l.Hear(m.Message, w.clock(c))
		}
	}
}

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

// noted is the first number of an owner whose text has a note, to the model: a part of the owner.
const noted = 16

// ownerInText returns the number of the ticket's owner in Redis, with the note in it. It fails a
// permit that Redis has by another text: it could not leave.
func (w *world) ownerInText(c *client, t core.Ticket) core.OwnerID {
	if t.Owner != 0 { // a pass has no note
		t.Owner += noted * core.OwnerID(core.NoteKey(t.Note))
	}
	if w.Kind.Permits > 0 && t.Owner != 0 && slices.ContainsFunc(w.server.Holders, func(h server.Holder) bool {
		return h.ID == t.ID && h.Owner != 0 && h.Owner != t.Owner
	}) {
		w.fail("client %d: the text of a permit has changed", c.id)
	}
	return t.Owner
}

func (w *world) execute(c *client, p *packet) core.Reply {
	queue := w.server.Queue
	cmd := p.cmd
	cmd.Owner, cmd.Note = w.ownerInText(c, cmd.Ticket), nil
	cmd.Joins.Owner, cmd.Joins.Note = w.ownerInText(c, cmd.Joins), nil
	a := w.server.Do(cmd, server.Time(w.now), &w.effects)
	if p.cmd.Op != core.Resume {
		w.checkTurns(queue)
		w.checkTakeover(queue)
	}
	if p.cmd.Op == core.Write {
		w.executed(c, p, a)
	}
	if p.cmd.Op == core.Join && a.Found == core.Nowhere && !a.Full {
		w.fail("a join is answered that its ticket is nowhere")
	}
	w.bounds(p, a)
	w.passes(c, p, a)
	for i := range c.users {
		if u := &c.users[i]; p.cmd.Op == core.Leave && !p.isForce() && a.Left && p.cmd.ID == u.ends {
			u.left = true
		}
	}
	if p.isForce() && a.Left {
		w.forced(c, p.cmd.ID)
	}
	w.takesOverBy(c, p, a)
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

// takesOverBy notes what a command of a ticket that takes the lock over has done: its client tells
// holders, and a holder may have been taken out. Without a fault none is whose hold could have ended
// by itself. The caller is the one that Redis names, and not one that has got the ticket.
func (w *world) takesOverBy(c *client, p *packet, a core.Reply) {
	ends := p.cmd.Ends.ID
	if p.user >= 0 && (len(p.cmd.Tells) > 0 || ends != core.ID{}) && p.cmd.Owner != w.ownerOf(p.user) {
		w.fail("client %d: user %d takes the lock over by the ticket of another one", c.id, p.user)
	}
	for _, m := range server.Told(&p.cmd, &a) {
		if m.Kind == core.TakenOver {
			w.effects.Messages = append(w.effects.Messages, server.Message{Message: m})
		}
	}
	if ends == (core.ID{}) || !a.Left {
		return
	}
	if w.Do&(Take|Let) == 0 {
		w.fail("client %d: a holder is taken out by force, and nobody takes the lock over", c.id)
	}
	if w.faults == w.Faults && w.Do&(Pass|Stay) == 0 {
		w.fail("client %d: a holder is taken out by force, without a fault", c.id)
	}
	w.forced(c, ends)
}

// checkTakeover fails a grant to a ticket in the queue while another one takes the lock over. queue
// is the one before the command.
func (w *world) checkTakeover(queue []core.Ticket) {
	for _, t := range w.effects.Granted {
		i := slices.IndexFunc(w.server.Queue, func(q core.Ticket) bool { return q.Takes })
		if i >= 0 && !t.Takes && slices.ContainsFunc(queue, func(q core.Ticket) bool { return q.ID == t.ID }) {
			w.fail("Redis grants the lock to client %d, and client %d takes it over", t.ID.Client, w.server.Queue[i].ID.Client)
		}
	}
}

// passes notes that a command has passed the lock on, or resumed it.
func (w *world) passes(c *client, p *packet, a core.Reply) {
	switch {
	case a.Found != core.Holds:
	case p.cmd.Op == core.Mirror && p.cmd.Owner == 0:
		w.passed = passed{id: p.cmd.ID, mode: p.cmd.Mode, more: p.cmd.More, until: w.now + within, older: w.passed.untilAll()}
	case p.cmd.Op == core.Resume && p.cmd.Passed == w.passed.id && !w.passed.used:
		w.passed.used, w.passed.by = true, caller{c.id, c.users[0].rounds}
	}
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
			w.tellForeign(message{Message: m.Message})
			continue
		}
		to := &w.clients[m.ID.Client]
		if m.Kind == core.Shown && w.lockOf(to, m.ID).Find(m.ID) != nil {
			continue // it changes nothing
		}
		if !to.dead && (m.Kind == core.Shown || m.Kind == core.TakenOver || w.server.Listens.Has(m.ID.Client)) {
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

// The faults. Each of these actions takes one of those that the world has.

// faultsOf appends the faults that may come to a client now.
func (w *world) faultsOf(as []action, i int) []action {
	c := &w.clients[i]
	add := func(what Fault, when bool, k kind) {
		if w.Fault&what != 0 && when {
			as = append(as, action{k, uint8(i), 0})
		}
	}
	add(Break, len(c.pipe)+len(c.back) > 0, doBreak)
	add(Late|Endless, len(c.pipe) > 0, doBreakLate)
	add(Double, len(c.pipe) > 0, doDouble)
	add(Repeat, len(c.pipe) > 0 && !c.off && w.stalled <= w.now, doRepeat)
	add(NotRun, len(c.pipe) > 0, doRefuse)
	add(NotRun, len(c.pipe) > 0 && (c.pipe[0].cmd.Op == core.Acquire || c.pipe[0].cmd.Op == core.Join), doSkip)
	add(WrongType, len(c.pipe) > 0 && (c.pipe[0].cmd.Op <= core.Look), doWrongType)
	add(JoinFails, len(c.pipe) > 0 && c.pipe[0].cmd.Joins.ID != core.ID{}, doJoinFails)
	add(Unreplicated, len(c.pipe) > 0 && (c.pipe[0].cmd.Op <= core.Look && c.pipe[0].cmd.Op != core.Join), doUnreplicated)
	add(LoseMessage, len(c.heard) > 0 && !c.heard[0].confirms, doLoseMessage)
	add(DoubleMessage, len(c.heard) > 0 && !c.heard[0].confirms, doDoubleMessage)
	add(Forge, c.sub == subscribed, doForgeGrant)
	add(Forge, len(w.server.Holders) > 0 && int(w.server.Holders[0].ID.Client) == i, doForgeOther)
	add(Forge, w.ticketOf(c) != core.Ticket{}, doForgeLet)
	add(Cut, c.sub == subscribed, doCut)
	add(Partition, !c.off, doPart)
	add(Die, true, doDie)
	add(Die, c.sub == subscribed, doDieDeaf)
	add(Freeze, !c.frozen, doFreeze)
	add(Sleep, !c.frozen, doSleep)
	return as
}

// ticketOf returns the first ticket of a client in the queue, or the zero Ticket.
func (w *world) ticketOf(c *client) core.Ticket {
	i := slices.IndexFunc(w.server.Queue, func(t core.Ticket) bool { return t != server.Window && int(t.ID.Client) == c.id })
	if i < 0 {
		return core.Ticket{}
	}
	return w.server.Queue[i]
}

// faultsOfRedis appends those that may come to Redis.
func (w *world) faultsOfRedis(as []action) []action {
	add := func(what Fault, when bool, k kind) {
		if w.Fault&what != 0 && when {
			as = append(as, action{kind: k})
		}
	}
	some := len(w.server.Holders)+len(w.server.Queue)+len(w.server.Marks) > 0
	add(Stall, w.stalled <= w.now, doStall)
	add(Wipe, some, doWipe)
	add(LoseQueue, len(w.server.Queue)+len(w.server.Marks) > 0, doLoseQueue)
	add(Delete, len(w.server.Holders) > 0, doDelete)
	add(Failover, !w.lags, doLag)
	return as
}

func (w *world) fault(c *client, k kind) {
	switch k {
	case doSlowTick:
		w.tick()
	case doBreak, doBreakLate, doDouble, doRepeat:
		w.faultInTime(c, k)
	case doRefuse, doSkip, doWrongType, doJoinFails, doUnreplicated:
		w.faultOfAnswer(c, k)
	case doLoseMessage, doDoubleMessage, doForgeGrant, doForgeOther, doForgeLet, doCut:
		w.faultOfMessages(c, k)
	case doPart:
		c.off = true
	case doDie:
		w.dies(c)
	case doDieDeaf:
		w.dies(c)
		w.server.Listens = w.server.Listens.Without(uint32(c.id))
	case doFreeze:
		c.frozen = true
	case doSleep:
		c.frozen, c.asleep = true, true
	case doStall, doWipe, doLoseQueue, doDelete, doLag:
		w.faultOfRedis(k)
	default:
		panic(k)
	}
}

// faultInTime breaks the connection of a client, or makes its next command run late, or twice.
func (w *world) faultInTime(c *client, k kind) {
	if k == doBreak {
		w.breaks(c)
		return
	}
	p := c.pipe[0]
	p.since = w.now
	if k == doRepeat { // after its answer
		w.executeFirst(c)
	}
	c.late = append(c.late, p)
	if k == doBreakLate {
		w.breaks(c)
	}
}

// faultOfAnswer answers the next command of a client with an error, or executes a part of it.
func (w *world) faultOfAnswer(c *client, k kind) {
	p := c.pipe[0]
	c.pipe = slices.Delete(c.pipe, 0, 1)
	switch k {
	case doRefuse:
		p.reply = core.Reply{Fault: core.NotRun}
	case doSkip: // by the condition of its call, or since an acquire before it in the same script was refused
		p.reply = core.Reply{Fault: core.Skipped}
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
	default:
		panic(k)
	}
	c.back = append(c.back, p)
}

// faultOfMessages loses, doubles or forges a message, or ends the subscription.
func (w *world) faultOfMessages(c *client, k kind) {
	switch k {
	case doLoseMessage:
		c.heard = slices.Delete(c.heard, 0, 1)
	case doDoubleMessage:
		c.heard = append(c.heard, c.heard[0])
	case doForgeGrant:
		c.heard = append(c.heard, message{Message: core.Message{Kind: core.Granted, ID: core.ID{Client: uint32(c.id), N: 1 << 40}}})
	case doForgeOther:
		for _, k := range []core.MessageKind{core.Granted, core.Forced, core.TakenOver} {
			c.heard = append(c.heard, message{Message: core.Message{Kind: k, ID: w.server.Holders[0].ID}})
		}
	case doForgeLet:
		c.heard = append(c.heard, message{Message: core.Message{Kind: core.LetThrough, ID: w.ticketOf(c).ID}})
	case doCut:
		c.sub = subscribing
		w.server.Listens = w.server.Listens.Without(uint32(c.id))
		c.heard = c.heard[:0]
	default:
		panic(k)
	}
}

// faultOfRedis makes Redis stand still, or lose something, or a replica fall behind.
func (w *world) faultOfRedis(k kind) {
	switch k {
	case doStall:
		w.stalled = w.now + 3
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
	default:
		panic(k)
	}
}

// dies ends a client. Redis does not know.
func (w *world) dies(c *client) {
	c.dead = true
	c.back, c.heard, c.nudges, c.timers = c.back[:0], c.heard[:0], c.nudges[:0], c.timers[:0]
	for i := range c.users {
		c.users[i] = user{rounds: w.Rounds}
	}
}

// thaws makes a client go on that has stood still, or slept.
func (w *world) thaws(c *client) {
	if c.asleep { // the keeper notices that the clocks have jumped
		for j := range c.timers {
			c.timers[j].at = 0
		}
	}
	c.frozen, c.asleep = false, false
	w.fire(c)
}

// takesOver makes the replica that has fallen behind the primary.
func (w *world) takesOver() {
	w.server, w.lags, w.wiped = w.old, false, true
	for i := range w.clients { // their connections break, and the driver asks about holds, and subscribes again
		c := &w.clients[i]
		w.breaks(c)
		c.heard = append(c.heard, message{verifies: true})
		if c.sub == subscribed {
			c.heard = append(c.heard, message{confirms: true})
		}
	}
}
