package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// The assertions about calls with a bound, which wait only if few others do.

// checkRoom fails a join with another bound than the callers here leave: each that waits without a ticket counts.
func (w *world) checkRoom(c *client, p *packet) {
	if p.cmd.Op != core.Join || p.user < 0 {
		return
	}
	u := &c.users[p.user]
	if bounded := u.call.Most != 0 && !u.admitted; p.cmd.Bounded != bounded {
		w.fail("client %d: user %d asks for a position, with a bound: %v", c.id, p.user, p.cmd.Bounded)
	}
	if !p.cmd.Bounded {
		return
	}
	room := w.most()
	for r := range c.lockOf(p.user).Waiters {
		if r == u.call {
			break
		}
		if r.Tenure == nil {
			room--
		}
	}
	if room = max(room, 0); p.cmd.Most != room {
		w.fail("client %d: user %d asks for one of %d positions, and there are %d", c.id, p.user, p.cmd.Most, room)
	}
}

// bounds fails a join that is undone though there is room, or that stays though there is none.
func (w *world) bounds(p *packet, a core.Reply) {
	if p.cmd.Op != core.Join || !p.cmd.Bounded {
		return
	}
	tickets := w.tickets()
	has := slices.ContainsFunc(w.server.Queue, func(t core.Ticket) bool { return t.ID == p.cmd.ID })
	switch {
	case a.Full && (has || tickets < p.cmd.Most):
		w.fail("a join is undone, and with it stood %d tickets, of %d that may; it stands there: %v", tickets, p.cmd.Most, has)
	case has && tickets > p.cmd.Most && w.Fault&(Double|Repeat) == 0:
		w.fail("a join is not undone, and %d tickets are there, of %d that may be", tickets, p.cmd.Most)
	}
}

// tickets returns how many tickets stand in the queue.
func (w *world) tickets() int {
	n := len(w.server.Queue)
	if slices.Contains(w.server.Queue, server.Window) {
		n--
	}
	return n
}

// checkBounds fails a queue with more tickets than may wait, where all calls have a bound.
func (w *world) checkBounds() {
	if n := w.tickets(); w.Do&OnlyBounded != 0 && w.Do&(Read|Try) == 0 && w.Fault&(Double|Repeat|Late|Endless|Wipe|LoseQueue|Failover) == 0 && n > w.most() {
		w.fail("%d tickets stand in the queue, and %d calls may wait", n, w.most())
	}
}

// checkAsked fails a call that waits for more than a tick and has not asked for a position, though it must: nothing has gone wrong.
func (w *world) checkAsked() {
	if w.faults < w.Faults || w.Polling {
		return
	}
	for i := range w.clients {
		c := &w.clients[i]
		for j := range c.users {
			if u := &c.users[j]; c.lives() && u.state == waiting && u.call.Outcome == core.Waiting && u.call.Most != 0 && u.call.Tenure == nil {
				w.fail("client %d: user %d waits, and has not asked for a position", i, j)
			}
		}
	}
}

// refusedAsFull notes that a call returns since too many wait. It fails one without a bound, and one that had a position.
func (w *world) refusedAsFull(c *client, u *user, o *core.Call) {
	switch {
	case o.Most == 0:
		w.fail("client %d: a call without a bound is refused, since too many wait", c.id)
	case u.admitted:
		w.fail("client %d: a call that had a position in the queue is refused, since too many wait", c.id)
	case int(o.Others) < w.most():
		w.fail("client %d: a call is refused since %d wait", c.id, o.Others)
	}
}
