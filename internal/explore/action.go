package explore

import "github.com/go-rlock/rlock/internal/core"

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
	doTimed
	doFixed
	doCapped
	doBounded
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
	doDetach
	doPassOn
	doResume
	doSetLease
	doUnlockWith
	doExtend
	doWrite
	doForce
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
	doWrongType
	doJoinFails
	doUnreplicated
	doLoseMessage
	doDoubleMessage
	doForgeGrant
	doForgeOther
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
	doLock: "Lock", doWide: "Lock, of two permits", doTry: "TryLock", doTryWide: "TryLock, of two permits", doTimed: "Lock, for a tick at most", doFixed: "Lock, with a lease", doCapped: "Lock, for so long at most", doBounded: "Lock, unless too many wait", doRead: "RLock", doFixedRead: "RLock, with a lease",
	doNest: "Lock, nested", doNestWide: "Lock of two permits, nested", doLongNest: "Lock, nested, with a long lease", doDowngrade: "RLock, beside its write lock", doUnlock: "Unlock", doUnlockRead: "RUnlock", doUnlockStay: "Unlock, and the lock stays", doCancel: "leaves", doDetach: "Detach", doPassOn: "Pass", doResume: "Resume",
	doSetLease: "SetLease", doExtend: "Extend", doUnlockWith: "Unlock with a guarded write", doWrite: "sends a guarded write", doForce: "releases the holder by force:", doClose: "Close", doNudge: "looks after", doSlot: "gets a slot: user", doSlotWrite: "gets a slot for a guarded write: user", doExecute: "Redis executes", doHandle: "reads the answer to",
	doHear: "hears", doSubscribe: "is subscribed", doLate: "Redis executes late", doFail: "cannot send", doHeal: "reaches Redis again", doThaw: "goes on",
	doTakeOver: "a replica takes over", doListen: "listens to what foreign clients are told", doForeignTry: "tries to lock", doForeignSubscribe: "subscribes",
	doForeignRelease: "unlocks", doTick: "---- tick", doSlowTick: "---- tick, though something is under way", doBreak: "the connection breaks:",
	doBreakLate: "the connection breaks, and a command may run late:", doDouble: "a command will run twice:", doRepeat: "Redis executes what will run again:",
	doRefuse:    "a command is refused:",
	doWrongType: "a command is refused for good:", doJoinFails: "Redis executes without the join:", doUnreplicated: "Redis executes, and replicas do not confirm:",
	doLoseMessage: "a message is lost:", doDoubleMessage: "a message comes twice:", doForgeGrant: "a stranger publishes a grant of a ticket that he has made up",
	doForgeOther: "a stranger publishes about the holder's tenure", doCut: "the subscription ends", doPart: "does not reach Redis from now on",
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

func (w *world) driver(as []action, i int, quiet *bool) []action {
	c := &w.clients[i]
	add := func(k kind, j int) { as, *quiet = append(as, action{k, uint8(i), uint8(j)}), false }
	if len(c.back) > 0 {
		add(doHandle, 0)
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
			if w.Rounds > 0 && u.rounds >= w.Rounds || c.core.Closed() {
				break
			}
			if w.Do&(OnlyRead|OnlyFixed|OnlyBounded) == 0 {
				add(doLock)
			}
			does(Try, doTry)
			does(Wide, doWide)
			if w.Do&Wide != 0 {
				does(Try, doTryWide)
			}
			does(Timed, doTimed)
			does(Fixed|OnlyFixed, doFixed)
			does(Capped, doCapped)
			does(Bounded|OnlyBounded, doBounded)
			does(Read, doRead)
			does(FixedRead, doFixedRead)
			if w.passed.told && (!w.endless() || !w.passed.used) {
				does(Pass, doResume)
			}
		case waiting:
			does(Cancel, doCancel)
		case unlocking:
			if u.stage == queues {
				does(Cancel, doCancel)
			}
		case holding:
			if u.writes > 0 {
				add(doUnlock)
			}
			if u.reads > 0 {
				add(doUnlockRead)
			}
			if u.writes+u.reads == 1 {
				does(Nest, doNest)
				if w.Do&Wide != 0 {
					does(Nest, doNestWide)
				}
				does(Stay, doUnlockStay)
				does(LongNest, doLongNest)
				does(Detach, doDetach)
				if w.mayPassOn() {
					does(Pass, doPassOn)
				}
				if v := c.lockOf(j).Levels(); len(v) == 1 && v[0].Until == core.NeverSafe {
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

// mayPassOn reports whether a user may pass the lock on: without end once in a tick, since its client remembers the tenure for
// the time of the pass.
func (w *world) mayPassOn() bool { return !w.endless() || w.passed.until != w.now+within }

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
	add(LoseCall, len(c.heard) > 0 && c.heard[0].Kind == core.Called, doLoseMessage)
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
