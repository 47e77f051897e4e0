package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// The connections of clients: commands on their way to Redis, answers and messages on their way back.

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
		p := c.back[0]
		c.back = slices.Delete(c.back, 0, 1)
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
	if m.Kind == core.Granted && !m.confirms && !m.doubts && !m.abroad {
		c.heeds = m.ID
	}
	c.heard = slices.Delete(c.heard, 0, 1)
	for _, l := range c.locks {
		switch {
		case m.confirms:
			if l.Subscribes() {
				l.Listening(true, w.clock(c))
			}
		case m.abroad:
			l.ListeningAbroad(w.clock(c))
		case m.doubts:
			l.Doubt(w.clock(c))
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

// execute executes a command in Redis.
func (w *world) execute(c *client, p *packet) core.Reply {
	queue := w.server.Queue
	a := w.server.Do(p.cmd, server.Time(w.now), &w.effects)
	if p.cmd.Op != core.Resume {
		w.checkTurns(queue)
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
		if u := &c.users[i]; p.cmd.Op == core.Leave && a.Left && p.cmd.ID == u.ends {
			u.left = true
		}
	}
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
			w.tellAbroad(message{Message: m.Message})
			continue
		}
		to := &w.clients[m.ID.Client]
		if m.Kind == core.Shown && w.lockOf(to, m.ID).Find(m.ID) != nil {
			continue // it changes nothing
		}
		if !to.dead && (m.Kind == core.Shown || w.server.Listens.Has(m.ID.Client)) {
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
