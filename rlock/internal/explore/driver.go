package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// The driver as data: which goroutine asks about which tenure, and when. It is what the real one does under its mutex. So a poll
// that no goroutine carries out, and a time for which none wakes, are states like any other.

// carryOut does what the core's effects ask for.
func (w *world) carryOut(c *client) {
	for {
		for _, e := range c.core.TakeEffects(w.clock(c)) {
			w.effect(c, e)
		}
		switch {
		case w.Lazy || c.frozen:
			if len(c.core.Effects) == 0 {
				return
			}
		case len(c.nudges) > 0:
			w.nudge(c, 0)
		case len(c.core.Effects) == 0:
			return
		}
	}
}

func (w *world) effect(c *client, e core.Effect) {
	switch e.Kind {
	case core.Poll:
		if e.Call != nil {
			w.wakes(c, e.Call.Tag.(int), e.At)
		} else {
			w.schedule(c, e.Tenure, e.At)
		}
	case core.Ended:
		w.schedule(c, e.Tenure, core.Never)
		c.nudges = slices.DeleteFunc(c.nudges, func(n nudge) bool { return n.tenure == e.Tenure })
	case core.Wake:
		if i := e.Call.Tag.(int); c.users[i].call == e.Call {
			if c.users[i].stage == flies { // its command is left behind
				c.users[i].stage = sleeps
				w.abandon(c, i)
			}
			w.wakes(c, i, 0)
		}
	case core.Lose:
		w.loses(c, e)
	case core.Subscribe:
		switch {
		case w.Polling:
			e.Lock.Listening(false, w.clock(c))
		case c.sub == subscribed:
			c.heard = append(c.heard, message{confirms: true})
		default:
			c.sub = subscribing
		}
	case core.ListenAbroad:
		c.abroad = subscribing
	case core.IgnoreAbroad:
		c.abroad = unsubscribed
		w.server.Foreign.Ears = w.server.Foreign.Ears.Without(uint32(c.id))
		c.heard = slices.DeleteFunc(c.heard, func(m message) bool { return m.abroad || m.Kind == core.ForeignNews })
	case core.Unsubscribe:
		for _, l := range c.locks { // those of a semaphore share it
			if l.Subscribes() {
				return
			}
		}
		c.sub = unsubscribed
		w.server.Listens = w.server.Listens.Without(uint32(c.id))
		c.heard = slices.DeleteFunc(c.heard, func(m message) bool { return m.Kind == core.Granted && !m.abroad })
	default:
		panic(e.Kind)
	}
}

// loses reports the loss of the lock to its holders.
func (w *world) loses(c *client, e core.Effect) {
	for _, v := range e.Lost {
		u := &c.users[w.userOf(c, v)]
		if u.call != nil && u.call.Outcome == core.Acquired { // it has not returned yet
			w.returns(c, u)
		}
		if v.Capped && e.Cause <= core.Unrenewed && u.until > w.clock(c).Time && w.faults == w.Faults {
			w.fail("client %d: a hold ends before its time, without a fault", c.id)
		}
		if w.Steady && e.Cause == core.Unrenewed && u.began-w.faults < 2 {
			w.fail("client %d: fewer than two faults end a hold", c.id)
		}
		if u.state != holding {
			w.fail("client %d: a loss is reported to a user that holds nothing", c.id)
		}
		if v.Mode == core.Shared {
			u.reads--
		} else {
			u.writes--
		}
		if u.reads+u.writes == 0 {
			u.state = idle
		}
	}
}

// userOf returns which user has opened the level.
func (w *world) userOf(c *client, v core.Level) int {
	if v.Info != nil {
		return v.Info.(int)
	}
	return int(v.Owner) - 1
}

// nudge carries out one poll.
func (w *world) nudge(c *client, i int) {
	n := c.nudges[i]
	c.nudges = slices.Delete(c.nudges, i, i+1)
	if n.user >= 0 {
		w.run(c, n.user, false)
	} else {
		w.keep(c, n.tenure)
	}
}

// schedule makes the keeper poll a tenure at that time.
func (w *world) schedule(c *client, t *core.Tenure, at core.Time) {
	c.timers = slices.DeleteFunc(c.timers, func(k timer) bool { return k.tenure == t })
	n := nudge{t, -1}
	switch {
	case at == core.Never:
	case at > w.clock(c).Time:
		c.timers = append(c.timers, timer{t, at})
	case !slices.Contains(c.nudges, n):
		c.nudges = append(c.nudges, n)
	}
}

// keep makes the keeper poll a tenure, unless a call sends its commands by now.
func (w *world) keep(c *client, t *core.Tenure) {
	l := t.Lock()
	if l == nil || l.Client() != c.core {
		return
	}
	now := w.clock(c)
	cmd, at := l.Poll(t, now)
	if cmd.Op != core.None {
		w.send(c, cmd, -1, noSlot)
	}
	w.schedule(c, t, core.Never)
	if at < core.Never {
		c.timers = append(c.timers, timer{t, max(at, now.Time)})
	}
}

// fire fires the due timers.
func (w *world) fire(c *client) {
	now := w.clock(c)
	for i := range c.users {
		if u := &c.users[i]; u.call != nil && u.stage != flies && u.timer <= now.Time {
			u.timer = core.Never
			if n := (nudge{nil, i}); !slices.Contains(c.nudges, n) {
				c.nudges = append(c.nudges, n)
			}
		}
	}
	for i := 0; i < len(c.timers); i++ {
		if k := c.timers[i]; k.at <= now.Time {
			c.timers = slices.Delete(c.timers, i, i+1)
			i--
			if n := (nudge{k.tenure, -1}); !slices.Contains(c.nudges, n) {
				c.nudges = append(c.nudges, n)
			}
		}
	}
	w.carryOut(c)
}
