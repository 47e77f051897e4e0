package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
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

// happens carries out an action that is no user's, and no fault.
func (w *world) happens(c *client, i int, k kind) {
	switch k {
	case doForce:
		w.forces(c)
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
