package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// An action is one event: its sort, its client, and its user, command or poll.
type action struct {
	kind kind
	c, i uint8
}

type kind uint8

const (
	doLock kind = iota
	doWide
	doTry
	doTryWide
	doTryRead
	doTimed
	doFixed
	doCapped
	doBounded
	doTake
	doTakeWide
	doRead
	doFixedRead
	doNest
	doNestWide
	doLongNest
	doDowngrade
	doUnlock
	doUnlockRead
	doUnlockStay
	doCancel
	doPassOn
	doResume
	doSetLease
	doUnlockWith
	doExtend
	doWrite
	doForce
	doLet
	doClose
	doNudge
	doSlot
	doSlotWrite
	doExecute
	doHandle
	doHear
	doSubscribe
	doLate
	doFail
	doHeal
	doThaw
	doTakeOver
	doListen
	doForeignTry
	doForeignSubscribe
	doForeignRelease
	doTick
	doSlowTick // from here on each takes one of the world's faults
	doBreak
	doBreakLate
	doDouble
	doRepeat
	doRefuse
	doSkip
	doWrongType
	doJoinFails
	doUnreplicated
	doLoseMessage
	doDoubleMessage
	doForgeGrant
	doForgeOther
	doForgeLet
	doCut
	doPart
	doStall
	doDie
	doDieDeaf
	doFreeze
	doSleep
	doWipe
	doLoseQueue
	doDelete
	doLag
)

var kindNames = [...]string{
	doLock: "Lock", doWide: "Lock, of two permits", doTry: "TryLock", doTryWide: "TryLock, of two permits", doTryRead: "TryRLock", doTimed: "Lock, for a tick at most", doFixed: "Lock, with a lease", doCapped: "Lock, for so long at most", doBounded: "Lock, unless too many wait", doTake: "Lock, takes over", doTakeWide: "Lock, takes two permits over", doRead: "RLock", doFixedRead: "RLock, with a lease",
	doNest: "Lock, nested", doNestWide: "Lock of two permits, nested", doLongNest: "Lock, nested, with a long lease", doDowngrade: "RLock, beside its write lock", doUnlock: "Unlock", doUnlockRead: "RUnlock", doUnlockStay: "Unlock, and the lock stays", doCancel: "leaves", doPassOn: "Pass", doResume: "Resume",
	doSetLease: "SetLease", doExtend: "Extend", doUnlockWith: "Unlock with a guarded write", doWrite: "sends a guarded write", doForce: "releases the holder by force:", doLet: "an operator lets through:", doClose: "Close", doNudge: "looks after", doSlot: "gets a slot: user", doSlotWrite: "gets a slot for a guarded write: user", doExecute: "Redis executes", doHandle: "reads the answer to",
	doHear: "hears", doSubscribe: "is subscribed", doLate: "Redis executes late", doFail: "cannot send", doHeal: "reaches Redis again", doThaw: "goes on",
	doTakeOver: "a replica takes over", doListen: "listens to what foreign clients are told", doForeignTry: "tries to lock", doForeignSubscribe: "subscribes",
	doForeignRelease: "unlocks", doTick: "---- tick", doSlowTick: "---- tick, though something is under way", doBreak: "the connection breaks:",
	doBreakLate: "the connection breaks, and a command may run late:", doDouble: "a command will run twice:", doRepeat: "Redis executes what will run again:",
	doRefuse:    "a command is refused:",
	doSkip:      "a command is skipped:",
	doWrongType: "a command is refused for good:", doJoinFails: "Redis executes without the join:", doUnreplicated: "Redis executes, and replicas do not confirm:",
	doLoseMessage: "a message is lost:", doDoubleMessage: "a message comes twice:", doForgeGrant: "a stranger publishes a grant of a ticket that he has made up",
	doForgeOther: "a stranger publishes about the holder's tenure", doForgeLet: "a stranger publishes that a ticket is let through", doCut: "the subscription ends", doPart: "does not reach Redis from now on",
	doStall: "Redis stands still for three ticks", doDie: "dies", doDieDeaf: "dies, and Redis knows", doFreeze: "stands still", doSleep: "sleeps, with its clock",
	doWipe: "Redis loses everything", doLoseQueue: "Redis loses the queue", doDelete: "a stranger deletes the lock", doLag: "a replica falls behind from now on",
}

// actions appends the possible next actions. A tick comes only when nothing is under way; else it
// is a fault.
func (w *world) actions(as []action) []action {
	quiet := true
	for i := range w.clients {
		as = w.network(as, i, &quiet)
		c := &w.clients[i]
		switch {
		case c.dead:
		case c.frozen:
			as = append(as, action{doThaw, uint8(i), 0})
		default:
			as = w.driver(as, i, &quiet)
			as = w.usersOf(as, i)
		}
		if w.faults > 0 && !c.dead {
			as = w.faultsOf(as, i)
		}
	}
	as = w.foreignActions(as, &quiet)
	if w.lags {
		as = append(as, action{kind: doTakeOver})
	}
	if w.faults > 0 {
		as = w.faultsOfRedis(as)
	}
	switch {
	case quiet || w.stalled > w.now && w.calm():
		as = append(as, action{kind: doTick})
	case w.faults > 0 && w.Fault&Slow != 0:
		as = append(as, action{kind: doSlowTick})
	}
	return as
}

// calm reports whether clients have nothing to do but to wait for Redis.
func (w *world) calm() bool {
	for i := range w.clients {
		if c := &w.clients[i]; c.lives() && len(c.back)+len(c.heard)+len(c.nudges) > 0 {
			return false
		}
	}
	return true
}

func (w *world) driver(as []action, i int, quiet *bool) []action {
	c := &w.clients[i]
	add := func(k kind, j int) { as, *quiet = append(as, action{k, uint8(i), uint8(j)}), false }
	for j := range c.back {
		if add(doHandle, j); !w.Overtakes || c.back[j].overtaken {
			break
		}
	}
	if len(c.heard) > 0 {
		add(doHear, 0)
	}
	for j := range c.nudges {
		add(doNudge, j)
	}
	for j := range c.users {
		u := &c.users[j]
		if u.stage == queues && w.mayEnter(c, u.slot()) {
			add(doSlot, j)
		}
		if u.write != nil && w.mayEnter(c, asks) {
			add(doSlotWrite, j)
		}
	}
	return as
}

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

// happens carries out an action that is no user's, and no fault.
func (w *world) happens(c *client, i int, k kind) {
	switch k {
	case doForce:
		w.force(c)
	case doLet:
		w.lets(w.server.Queue[i])
	case doClose:
		w.closes(c)
	case doNudge:
		w.nudge(c, i)
	case doSlot:
		w.run(c, i, true)
	case doSlotWrite:
		w.sendsWrite(c, i, true)
	case doExecute, doLate, doHandle, doHear, doSubscribe, doListen, doFail, doHeal:
		w.carries(c, i, k)
	case doForeignTry, doForeignSubscribe, doForeignRelease:
		w.foreignActs(i, k)
	case doThaw:
		w.thaws(c)
	case doTakeOver:
		w.takesOver()
	case doTick:
		w.tick()
	default:
		panic(k)
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
