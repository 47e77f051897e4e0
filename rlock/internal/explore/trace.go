package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
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

var messageNames = [...]string{"grant", "first behind foreign clients", "released by force", "foreign news", "shown to have the lock", "answer", "takeover", "let through"}

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
	case doExecute, doRepeat, doFail, doRefuse, doSkip, doWrongType, doJoinFails, doUnreplicated, doBreakLate, doDouble:
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
		s += c.back[a.i].String() + c.back[a.i].answer()
	case doLet:
		s += " " + nameOf(w.server.Queue[a.i].ID)
	case doForce:
		s += " " + nameOf(w.server.Holders[0].ID)
	case doHear, doLoseMessage, doDoubleMessage:
		switch m := c.heard[0]; {
		case m.confirms:
			s += " that it is subscribed"
		case m.abroad:
			s += " that it hears what foreign clients are told"
		case m.verifies:
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

// A hard state is one in which a mistake would show. The explorer counts them by name. A run of the
// gate in which one is never reached fails: a change of its setups, or of the code, has left
// something untested.
var hardStates = [...]struct {
	name string
	is   func(w *world) bool
}{
	{"a grant lost", (*world).grantLost},
	{"a claim ended unheard", (*world).claimEnded},
	{"a window of foreign clients missed", (*world).windowMissed},
	{"a hold passed on while a mirror is under way", (*world).mirrorOfPassed},
	{"a ticket taken out by an answer", (*world).satisfied},
}

// Reached counts the states that are hard, in the order of hardStates.
type Reached [len(hardStates)]int

func (r *Reached) count(w *world) {
	for i := range hardStates {
		if hardStates[i].is(w) {
			r[i]++
		}
	}
}

// missing returns the names of the hard states of which none was reached.
func (r *Reached) missing() (names []string) {
	for i, states := range r {
		if states == 0 {
			names = append(names, hardStates[i].name)
		}
	}
	return names
}

func (r *Reached) String() string {
	var all []string
	for i := range hardStates {
		all = append(all, fmt.Sprintf("%s: %d", hardStates[i].name, r[i]))
	}
	return strings.Join(all, ", ")
}

// grantLost: a tick ago a tenure had the lock, and its client did not know.
func (w *world) grantLost() bool { return w.unheard > 0 }

// claimEnded: a ticket was granted the lock, and that lease has ended, before its client has heard
// of it. The client takes the ticket to be in the queue, and Redis has it nowhere.
func (w *world) claimEnded() bool {
	if w.wiped { // it may have lost the ticket
		return false
	}
	for i := range w.clients {
		c := &w.clients[i]
		if !c.lives() {
			continue
		}
		for _, l := range c.locks {
			for t := range l.Tenures {
				if t.Want() == core.Asked && t.Place() == core.InQueue && !w.has(t.ID) {
					return true
				}
			}
		}
	}
	return false
}

// has reports whether Redis has the tenure in the queue, or in the lock for a lease that goes on.
func (w *world) has(id core.ID) bool {
	return slices.ContainsFunc(w.server.Queue, func(t core.Ticket) bool { return t.ID == id }) ||
		slices.ContainsFunc(w.server.Holders, func(h server.Holder) bool { return h.ID == id && !w.isOver(h) })
}

// windowMissed: a window of foreign clients has ended, and none has used it.
func (w *world) windowMissed() bool {
	m := &w.server.Foreign.Memory
	return m.Began > 0 && m.Used == 0 && core.Time(m.Over) <= w.now
}

// mirrorOfPassed: a Mirror of the hold that was passed on may still be executed, and says that its
// client has it.
func (w *world) mirrorOfPassed() bool {
	if w.passed.id == (core.ID{}) {
		return false
	}
	late := func(p packet) bool { return p.cmd.Op == core.Mirror && p.cmd.ID == w.passed.id && p.cmd.Owner != 0 }
	return slices.ContainsFunc(w.clients, func(c client) bool { return slices.ContainsFunc(c.pipe, late) || slices.ContainsFunc(c.late, late) })
}

// satisfied: a release has taken a ticket out with an answer, and its client has not heard of it.
func (w *world) satisfied() bool {
	for i := range w.clients {
		c := &w.clients[i]
		if slices.ContainsFunc(c.heard, func(m message) bool { return m.Kind == core.Satisfied && w.lockOf(c, m.ID).Find(m.ID) != nil }) {
			return true
		}
	}
	return false
}
