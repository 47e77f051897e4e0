package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// runCall is the loop of every call that waits: for the lock, for a release, for a guarded write.
// It carries out the decisions of package core. slot is a slot for the first command, or nil.
// granted reports whether the call was granted the lock while it slept.
//
// REQUIRES: shard.mu. If granted, runCall returns without it.
func (l *lockState) runCall(ctx context.Context, w *waiter, slot *wire.Limit, now core.Now) (granted bool) {
	s := l.shard
	for {
		s.applyEffects()
		if w.ends != nil && w.Outcome == core.Waiting {
			l.End(&w.Call, core.Cancelled, now)
			s.applyEffects()
		}
		a := l.Next(&w.Call, slot != nil, now)
		if slot != nil && a.Do != core.Sends {
			slot.FreeSlot()
			slot = nil
		}
		switch a.Do {
		case core.Returns:
			return false
		case core.Sends:
			now = l.sendCommand(ctx, w, a.Op, slot, now)
			slot = nil
		case core.Queues:
			limit, ok := l.slots(w), false
			if slot, ok = limit.TryEnter(); !ok {
				now, slot, granted = l.sleep(ctx, w, limit, a.Until, now)
			}
		case core.Sleeps:
			now, _, granted = l.sleep(ctx, w, nil, a.Until, now)
		default:
			panic(a.Do)
		}
		if granted {
			if slot != nil {
				slot.FreeSlot()
			}
			return true
		}
	}
}

// slots returns the limit of commands in flight that counts the commands of the call: releases have
// a limit of their own.
func (l *lockState) slots(w *waiter) *wire.Limit {
	limits := l.shard.client.wire.Limits(l.name.Slot)
	if p := w.Purpose; p == core.Releases || p == core.Forces {
		return &limits.Releases
	}
	return &limits.Asks
}

// sendCommand sends a command of the call and lands the answer, unless the caller leaves before it
// comes.
//
// REQUIRES: shard.mu.
func (l *lockState) sendCommand(ctx context.Context, w *waiter, op core.Op, slot *wire.Limit, now core.Now) core.Now {
	c := l.shard.client
	x := c.exchanges.Get().(*exchange)
	x.Cmd = l.Lock.Command(&w.Call, op, now)
	x.Write, x.Passed, x.slot = w.write, w.passed, slot
	if op == core.Acquire || op == core.Join {
		x.Unless = w.req.Unless
	}
	x.waiter, w.carried = w, x // until land or abandon
	l.fillExchange(x, now)
	w.stage = flying
	if w.Purpose != core.Releases {
		if w.context == nil {
			w.context = newCommandContext()
		}
		x.context = w.context
	}
	if w.watches {
		l.startTellingPlace(w, core.Span(contract.Silence)) // the caller is told nothing while the command is in flight
	}
	u := x.context // nil for a call whose caller stays
	l.shard.exit(l)

	answered := c.carry(ctx, x)
	left := u != nil && ctx.Err() != nil // the caller

	now = l.shard.lock()
	if w.stage = running; u != nil && u.spent {
		w.context = nil
	}
	// A call for the lock ends before its answer lands, any other call after it:
	//
	//	caller            this client             Redis
	//	Lock              Acquire                 it has the lock
	//	its context ends  reads: it has the lock  if a hold began now, callers here could nest in it, or join it, and lose it at once
	//
	//	Release           Leave                   it has left
	//	its context ends  reads: it has left      if the call ended now, its caller would get ErrUnconfirmed
	if left && w.Purpose == core.Locks {
		l.End(&w.Call, core.Cancelled, now)
	}
	if answered {
		l.land(x, now)
	} else {
		w.abandon()
	}
	if left {
		l.End(&w.Call, core.Cancelled, now)
	}
	return now
}

// An exchange is a command and its answer.
type exchange struct {
	wire.Exchange
	lock       *lockState
	work       *work                 // the work of the tenure; nil for a release by force
	waiter     *waiter               // the call that carries it; nil for the keeper, or if the caller has left
	slot       *wire.Limit           // the slot of the command; nil for the keeper
	info       *contract.RenewedInfo // the report about the keeper's batch; nil for a call
	sentAt     core.Time
	generation uint64          // the generation of the command that brought the tenure in: see wire.Sent
	context    *commandContext // the context by which the caller leaves; nil if it does not
}

// fillExchange completes an exchange whose command is about to be sent. land takes the exchange
// with its answer.
//
// REQUIRES: shard.mu.
func (l *lockState) fillExchange(x *exchange, now core.Now) {
	c, cmd := l.shard.client, &x.Cmd
	x.lock, x.Keys, x.Kind, x.sentAt = l, &l.name.Keys, l.kind().wire, now.Time
	var k *work
	switch t := cmd.Tenure; {
	case t != nil:
		k = l.shard.workOf(l, t)
		if invariants {
			c.witness.polled(cmd, x.slot)
		}
	case cmd.Op == core.Write:
		k = l.shard.workOf(l, l.Held())
	default: // by force
		x.Text = x.Passed
		return
	}
	owner := cmd.Owner
	if l.owner != 0 && cmd.Op != core.Mirror {
		owner = l.owner // of permits, for a tenure that no call knows as well
	}
	x.work, x.Text, x.generation = k, k.textFor(c, cmd.Ticket, owner, cmd.Op == core.Join, now), k.generation
	first := false // no earlier command of the tenure can be in flight
	switch cmd.Op {
	case core.Acquire, core.Write:
		first = !cmd.Follows
	case core.Join:
		first, x.Counts = !cmd.Follows, l.isWatched()
	case core.Look:
		x.Counts = l.isWatched() && cmd.Ends == (core.Holding{})
		if cmd.Takes && cmd.Tenure.Agent != nil {
			l.nameVictims(x, cmd.Tenure.Agent.Tag.(*waiter))
		}
	case core.Mirror:
		tracks := k.decideTracking(now)
		x.Track, x.Awaits = tracks && l.isKeyOurs(), tracks && l.IsCurious()
	case core.Leave:
		first = !cmd.Follows
		if next := cmd.Joins; next.ID != (core.ID{}) { // a ticket joins the queue in the same step
			k := l.shard.workOf(l, l.Find(next.ID))
			x.Joins, first = k.textFor(c, next, next.Owner, true, now), false
		}
	case core.Resume, core.Step, core.Unmark:
	default:
		panic("driver: a command " + cmd.Op.String())
	}
	if first {
		x.First, x.At = true, c.clock.timeOf(now.Time)
	}
}

// textFor returns the text of the ticket's owner in Redis. waits is set if the ticket is about to
// join the queue. The text of a pass has no note, and textFor does not keep it: if the pass fails,
// the permit leaves by its text before.
//
// REQUIRES: shard.mu.
func (k *work) textFor(c *Client, t core.Ticket, owner core.OwnerID, waits bool, now core.Now) wire.OwnerText {
	switch {
	case owner == 0:
		return c.textOf(t.ID, owner, t.More)
	case k.text != "" && k.owner == owner && k.note == t.Note: // Redis knows the tenure by this text
		return k.text
	}
	k.text, k.owner, k.note = c.ID.Text(t.ID.N, uint64(owner)), owner, t.Note
	if n := t.Note; n != nil {
		began := time.Now().Add(time.Duration(n.Since - now.Time)) // the beginning by the present wall clock, which may have been set meanwhile
		k.text = k.text.WithNote(wire.Note{Text: n.Text, Line: n.Line, At: began, Waits: waits})
	}
	k.text = k.text.WithMore(t.More)
	return k.text
}

// adoptText keeps the text that a message names for a tenure which no call knows: Redis knows a
// permit by its whole text.
//
// REQUIRES: shard.mu.
func (l *lockState) adoptText(id core.ID, text wire.OwnerText) {
	if t := l.Find(id); t != nil {
		if k := l.shard.workOf(l, t); k.text == "" {
			k.text, k.owner = text, core.OwnerID(text.OwnerID())
		}
	}
}

// land gives package core the answer to a command of a call or of the keeper, in time or late, and
// ends the exchange.
//
// REQUIRES: shard.mu.
func (l *lockState) land(x *exchange, now core.Now) {
	alive := x.work != nil && x.work.tenure != nil && x.work.tenure.ID == x.Cmd.ID // the tenure is not over
	if x.Answer.Heard && x.slot != nil {
		x.slot.Heard()
	}
	var call *core.Call // nil if the keeper sent the command, or if the caller has left
	if w := x.waiter; w != nil {
		if call = &w.Call; w.Purpose != core.Locks {
			w.err = x.Answer.Err
		}
	}
	ends := l.noteBeforeAnswer(x, alive, now)
	l.Answer(&x.Cmd, call, x.Answer.Reply, now)
	l.noteAfterAnswer(x, ends, now)
	l.freeSlot(x, alive)
	if x.waiter != nil {
		x.waiter.carried = nil
	}
	c := l.shard.client
	*x = exchange{}
	c.exchanges.Put(x)
}

// answerEnds has the calls that an answer ends without package core.
type answerEnds struct {
	hopeless *waiter // the call whose error waiting does not cure, or nil
	checked  *waiter // the call whose condition the command checked, or nil
}

// noteBeforeAnswer notes what an answer means beside its tenure, before package core has it: for
// calls that wait for the lock, the counters and the log.
//
// REQUIRES: shard.mu.
func (l *lockState) noteBeforeAnswer(x *exchange, alive bool, now core.Now) (ends answerEnds) {
	c, a := l.shard.client, &x.Answer
	l.noteEntry(x, alive)
	ends = answerEnds{l.noteAnswerForWaiters(x, alive, now), x.callOfCondition(alive)}
	switch {
	case x.Cmd.Op == core.Mirror:
		l.countRenewal(x, alive, now)
	case x.Cmd.Op == core.Leave && a.Err != nil:
		l.failFirstAttempt(a, now)
		if !a.Left { // else Redis has refused a message only
			c.tellRefused(l.name.Key, a.Err)
		}
	}
	if a.Err != nil {
		_, l.shard.fault = wire.Diagnose(a.Err)
	}
	if invariants && x.Cmd.Tenure != nil {
		c.witness.noteAnswerArrived(&x.Cmd)
	}
	return ends
}

// noteAfterAnswer ends the calls that an answer ends by itself, and wakes calls that wait for more
// than the lock: for a place, or for a confirmed lease.
//
// REQUIRES: shard.mu.
func (l *lockState) noteAfterAnswer(x *exchange, ends answerEnds, now core.Now) {
	switch {
	case ends.hopeless != nil:
		l.End(&ends.hopeless.Call, core.Failed, now)
	case ends.checked != nil:
		l.noteCondition(ends.checked, x.Answer.Met, now)
	}
	if x.Counts {
		l.notePlace(x)
	}
	//exhaustive:ignore
	switch x.Cmd.Op {
	case core.Mirror:
		l.shard.endMirrorWait(l)
	case core.Join:
		l.confirmCurious(now)
	}
}

// noteEntry notes the generation of a command that may have brought a tenure in.
//
// REQUIRES: shard.mu.
func (l *lockState) noteEntry(x *exchange, alive bool) {
	switch {
	case alive && x.Cmd.Op.Enters():
		x.work.generation = x.Answer.Sent.Generation
	case x.Joins != "":
		if t := l.Find(x.Cmd.Joins.ID); t != nil {
			l.shard.workOf(l, t).generation = x.Answer.Sent.Generation
		}
	}
}

// freeSlot gives back the slot of a command. A command that was left behind, or whose deadline has
// passed, may still stand in rueidis' ring, and keeps the slot until its tenure is over, a later
// command of the tenure is answered, or rueidis would have ended the connection. A ticket that
// waits needs another slot for its next command: if its slot were kept for longer, tickets could
// have all slots, and none could look.
//
// REQUIRES: shard.mu.
func (l *lockState) freeSlot(x *exchange, alive bool) {
	k := x.work
	alive = alive && k.tenure != nil
	if alive && x.Answer.Heard {
		k.freeKeptSlot()
	}
	switch {
	case x.slot == nil:
	case alive && k.kept == nil && x.isBehind():
		kept := &keptSlot{x.slot}
		k.kept = kept
		s := l.shard
		context.AfterFunc(s.client.deadline(), func() {
			s.underMutex(func() {
				if k.kept == kept { // else the slot was freed, and the tenure may keep another one
					k.freeKeptSlot()
				}
			})
		})
	default:
		x.slot.FreeSlot()
	}
}

// A keptSlot is the slot of a command that was left behind.
type keptSlot struct{ *wire.Limit }

// freeKeptSlot gives back the slot of a command that was left behind, if the tenure keeps one.
//
// REQUIRES: shard.mu.
func (k *work) freeKeptSlot() {
	if k.kept != nil {
		k.kept.FreeSlot()
		k.kept = nil
	}
}

// noteAnswerForWaiters notes the answer for each call that waits for the lock by a tenure of the
// command. It returns a call whose error waiting does not cure, or nil. It never returns the call
// of the ticket that joins with a Leave: a server that refuses the Leave now may not refuse a Join.
//
// REQUIRES: shard.mu.
func (l *lockState) noteAnswerForWaiters(x *exchange, alive bool, now core.Now) (hopeless *waiter) {
	if x.Answer.Fault == core.Behind {
		return nil
	}
	if x.Joins != "" {
		if t := l.Find(x.Cmd.Joins.ID); t != nil {
			l.noteAnswerFor(t, x, now)
		}
	}
	if alive {
		if w, permanent := l.noteAnswerFor(x.work.tenure, x, now); permanent {
			return w
		}
	}
	return nil
}

// noteAnswerFor notes the answer for the call that waits for the lock by the tenure, which need not
// be the call that sent the command. It reports whether waiting does not cure the error.
//
// REQUIRES: shard.mu.
func (l *lockState) noteAnswerFor(t *core.Tenure, x *exchange, now core.Now) (w *waiter, permanent bool) {
	c, a, agent := l.shard.client, &x.Answer, t.Agent
	if agent == nil || agent.Purpose != core.Locks || agent.Outcome != core.Waiting {
		return nil, false
	}
	w = agent.Tag.(*waiter)
	if a.Clock > 0 && w.clock == 0 {
		w.clock, w.read = a.Clock, x.sentAt
	}
	if len(a.Owners) > 0 {
		w.inTheWay = a.Owners
	}
	permanent = w.noteError(a, &c.clock, now.Time)
	if !permanent && w.err != nil {
		c.TellTrouble(l.name.Key, w.since, w.err)
	}
	return w, permanent
}

// callOfCondition returns the call whose condition the command checked, if it still waits for the
// lock by that command; else nil. The ticket of a caller that has left may belong to another
// call by now.
//
// REQUIRES: shard.mu.
func (x *exchange) callOfCondition(alive bool) *waiter {
	if w := x.waiter; w != nil && x.Unless != nil && alive && x.Answer.Err == nil && x.work.tenure.Agent == &w.Call && w.Outcome == core.Waiting {
		return w
	}
	return nil
}

// noteCondition notes the result of a call's condition. If it was met, Redis has not executed the
// command, and the call ends.
//
// REQUIRES: shard.mu.
func (l *lockState) noteCondition(w *waiter, met *string, now core.Now) {
	if met == nil {
		w.checked = w.Outcome == core.Acquired
		return
	}
	w.answer, w.checked, w.err = *met, true, contract.ErrAnswered
	l.End(&w.Call, core.GotAnswer, now)
}

// failFirstAttempt ends a TryLock with the permanent error of a Leave that it waits for: a free
// lock with a queue has refused its attempt, or this client is about to release the lock.
//
// REQUIRES: shard.mu.
func (l *lockState) failFirstAttempt(a *wire.Answer, now core.Now) {
	first := l.FirstWaiter()
	if first == nil {
		return
	}
	if w := first.Tag.(*waiter); !w.Waits && w.noteError(a, &l.shard.client.clock, now.Time) {
		l.End(first, core.Failed, now)
	}
}
