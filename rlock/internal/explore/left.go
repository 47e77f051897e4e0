package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// Once all is released nothing may be left.

// checkLeft fails if living clients leave anything once all is released.
func (w *world) checkLeft() {
	for i := range w.clients {
		if !w.clients[i].isDone() {
			return
		}
	}
	for i := range w.threads {
		if f := &w.threads[i]; f.state != foreignIdle && f.kind != Sleeper {
			return
		}
	}
	for _, h := range w.server.Holders {
		if w.isOurs(h.ID) && w.now < core.Time(w.server.Ends) && !w.isOver(h) && !w.unbounded() && !w.isParted(&w.clients[h.ID.Client], h) {
			w.fail("all is released, and client %d has the key", h.ID.Client)
		}
	}
	for _, t := range w.server.Queue {
		if w.isOurs(t.ID) && !w.unbounded() {
			w.fail("all is released, and a ticket of client %d is in the queue", t.ID.Client)
		}
	}
	for _, id := range w.server.Marks {
		if w.isOurs(id) && !w.unbounded() {
			w.fail("all is released, and a mark of client %d is left", id.Client)
		}
	}
	if slices.Contains(w.server.Foreign.Fair, server.Place) {
		w.fail("all is released, and an entry of ours is left in the fair queue")
	}
}

// isDone reports whether the client has released all that it had, and nothing of it is under way. The dead have.
func (c *client) isDone() bool {
	switch {
	case len(c.pipe)+len(c.back)+len(c.late)+len(c.heard) > 0:
		return false
	case c.dead:
		return true
	case c.frozen || len(c.nudges) > 0:
		return false
	}
	return !slices.ContainsFunc(c.users, func(u user) bool { return u.state != idle }) &&
		!slices.ContainsFunc(c.locks, func(l *core.Lock) bool { return !l.Idle() })
}

// isOurs reports whether the tenure is that of a client that lives and reaches Redis.
func (w *world) isOurs(id core.ID) bool {
	if id.Client >= uint32(len(w.clients)) {
		return false
	}
	c := &w.clients[id.Client]
	return !c.dead && !c.off
}

// unbounded reports whether a command may have been executed at any time: what it leaves ends with its lease then.
func (w *world) unbounded() bool {
	return w.Fault&(Endless|Double|Repeat|Failover) != 0
}
