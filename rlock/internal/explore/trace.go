package explore

import (
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// trace tells in words the way to the last step.
func trace(s *Setup, steps []step) (lines []string) {
	var as []action
	for at := len(steps) - 1; steps[at].parent >= 0; at = int(steps[at].parent) {
		as = append(as, steps[at].action)
	}
	w := newWorld(s)
	for i := len(as) - 1; i >= 0; i-- {
		lines = append(lines, w.describe(as[i]))
		w.apply(as[i])
	}
	return lines
}

var opNames = [...]string{"nothing", "acquire", "resume", "join", "look", "mirror", "leave", "step", "unmark", "guarded write"}

func nameOf(id core.ID) string {
	if id == (core.ID{}) {
		return "none"
	}
	return fmt.Sprintf("%d.%d", id.Client, id.N)
}

func (p *packet) String() string {
	s := fmt.Sprintf(" %s of %s", opNames[p.cmd.Op], nameOf(p.cmd.ID))
	if p.cmd.Op == core.Resume {
		s += ", from " + nameOf(p.cmd.Passed)
	}
	if p.cmd.Joins.ID != (core.ID{}) {
		s += ", with the join of " + nameOf(p.cmd.Joins.ID)
	}
	return s
}

func (p *packet) answer() string {
	a := &p.reply
	switch {
	case p.cmd.Op == core.Write && a.Fault == core.Answered:
		return map[bool]string{true: ": executed", false: ": refused"}[a.Found == core.Holds]
	case a.Fault == core.NotRun:
		return ": not executed"
	case a.Fault != core.Answered:
		return ": no answer"
	case p.cmd.Op == core.Leave && p.cmd.Joins.ID == core.ID{}:
		if a.Left {
			return ": it has left"
		}
		return ": it was not there"
	}
	return ": " + [...]string{"it is nowhere", "it waits", "it is the first", "it has the lock"}[a.Found] + ", holder " + nameOf(a.Holder)
}

var messageNames = [...]string{"grant", "first behind foreign clients", "call", "released by force", "foreign news", "shown to have the lock", "answer"}

// describe describes the next action.
func (w *world) describe(a action) string {
	c := &w.clients[a.c]
	s := fmt.Sprintf("t=%-2d client %d  ", w.now-start, a.c)
	switch {
	case a.kind == doForeignTry || a.kind == doForeignSubscribe || a.kind == doForeignRelease:
		return fmt.Sprintf("t=%-2d foreign client %d  %s", w.now-start, a.i, kindNames[a.kind])
	case a.kind == doTick || a.kind == doSlowTick:
		return fmt.Sprintf("t=%-2d %s", w.now-start, kindNames[a.kind])
	case a.kind >= doSlowTick:
		s += "FAULT: "
	case a.kind <= doWrite:
		s += fmt.Sprintf("user %d: ", a.i)
	}
	s += kindNames[a.kind]
	switch a.kind {
	case doExecute, doRepeat, doFail, doRefuse, doWrongType, doJoinFails, doUnreplicated, doBreakLate, doDouble:
		s += c.pipe[0].String()
	case doBreak:
		for i := range c.back {
			s += c.back[i].String() + " (executed)"
		}
		for i := range c.pipe {
			s += c.pipe[i].String() + " (not executed)"
		}
	case doLate:
		s += c.late[a.i].String()
	case doHandle:
		s += c.back[0].String() + c.back[0].answer()
	case doForce:
		s += " " + nameOf(w.server.Holders[0].ID)
	case doHear, doLoseMessage, doDoubleMessage:
		switch m := c.heard[0]; {
		case m.confirms:
			s += " that it is subscribed"
		case m.abroad:
			s += " that it hears what foreign clients are told"
		case m.doubts:
			s += " that its connection was replaced"
		default:
			s += " " + messageNames[m.Kind] + " of " + nameOf(m.ID)
		}
	case doSlot, doSlotWrite:
		s += fmt.Sprintf(" %d", a.i)
	case doNudge:
		if n := c.nudges[a.i]; n.user >= 0 {
			s += fmt.Sprintf(" user %d", n.user)
		} else {
			s += " " + nameOf(n.tenure.ID) + ", by the keeper"
		}
	}
	return s
}
