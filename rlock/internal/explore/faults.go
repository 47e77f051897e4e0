package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

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
	add(WrongType, len(c.pipe) > 0 && (c.pipe[0].cmd.Op <= core.Look), doWrongType)
	add(JoinFails, len(c.pipe) > 0 && c.pipe[0].cmd.Joins.ID != core.ID{}, doJoinFails)
	add(Unreplicated, len(c.pipe) > 0 && (c.pipe[0].cmd.Op <= core.Look && c.pipe[0].cmd.Op != core.Join), doUnreplicated)
	add(LoseMessage, len(c.heard) > 0 && !c.heard[0].confirms, doLoseMessage)
	add(DoubleMessage, len(c.heard) > 0 && !c.heard[0].confirms, doDoubleMessage)
	add(Forge, c.sub == subscribed, doForgeGrant)
	add(Forge, len(w.server.Holders) > 0 && int(w.server.Holders[0].ID.Client) == i, doForgeOther)
	add(Cut, c.sub == subscribed, doCut)
	add(Partition, !c.off, doPart)
	add(Die, true, doDie)
	add(Die, c.sub == subscribed, doDieDeaf)
	add(Freeze, !c.frozen, doFreeze)
	add(Sleep, !c.frozen, doSleep)
	return as
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

// fault makes the fault happen.
func (w *world) fault(c *client, k kind) {
	switch k {
	case doSlowTick:
		w.tick()
	case doBreak, doBreakLate, doDouble, doRepeat:
		w.faultInTime(c, k)
	case doRefuse, doWrongType, doJoinFails, doUnreplicated:
		w.faultOfAnswer(c, k)
	case doLoseMessage, doDoubleMessage, doForgeGrant, doForgeOther, doCut:
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
		for _, k := range []core.MessageKind{core.Granted, core.Forced} {
			c.heard = append(c.heard, message{Message: core.Message{Kind: k, ID: w.server.Holders[0].ID}})
		}
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
	for i := range w.clients { // their connections break, and the driver has the core doubt
		w.breaks(&w.clients[i])
		w.clients[i].heard = append(w.clients[i].heard, message{doubts: true})
	}
}
