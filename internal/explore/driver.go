package explore

import (
	"slices"

	"github.com/go-rlock/rlock/internal/core"
)

// The driver as data: which goroutine is to poll which tenure, and when. It is what the real one does under its mutex, so
// that a poll that no goroutine carries out, or a time for which none wakes, is a state like any other.

// carryOut does what the core's effects ask for.
func (w *world) carryOut(c *client) {
	for {
		effects := slices.Clone(c.core.TakeEffects())
		for _, e := range effects {
			w.effect(c, e)
		}
		switch {
		case w.Lazy || c.frozen:
			if len(effects) == 0 {
				return
			}
		case len(c.nudges) > 0:
			w.nudge(c, 0)
		case len(effects) == 0:
			return
		}
	}
}

func (w *world) effect(c *client, e core.Effect) {
	switch e.Kind {
	case core.Poll:
		n := nudge{e.Tenure, -1}
		if e.Waiter != nil {
			n.user = e.Waiter.Tag.(int)
		}
		if !slices.Contains(c.nudges, n) {
			c.nudges = append(c.nudges, n)
		}
	case core.Wake:
		if u := e.Waiter.Tag.(int); c.users[u].waiter == e.Waiter {
			c.nudges = append(c.nudges, nudge{nil, u})
		}
	case core.Lose:
		w.loses(c, e)
	case core.Released:
		for i := range c.users {
			if u := &c.users[i]; u.state == unlocking && u.releases == e.Tenure {
				if u.queues {
					w.fail("client %d: a release returns that was not sent", c.id)
				}
				u.state, u.releases = idle, nil
				if e.Tenure.Want() == core.Parted && e.Cause == core.ByUnlock && e.Tenure.ID == w.passed.id {
					w.passed.told, w.passed.token = true, u.token
				}
			}
		}
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
	}
}

// loses tells the holders that they have lost the lock.
func (w *world) loses(c *client, e core.Effect) {
	for _, v := range e.Lost {
		u := &c.users[w.userOf(c, v)]
		if u.waiter != nil && u.waiter.Outcome == core.Acquired { // it has not returned yet
			w.collect(c, u)
		}
		if w.Steady && e.Cause == core.Unrenewed && u.began-w.faults < 2 {
			w.fail("client %d: fewer than two faults end a hold", c.id)
		}
		if u.state != holding {
			w.fail("client %d: a loss is told to a user that holds nothing", c.id)
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
		w.run(c, n.user)
	} else {
		w.keep(c, n.tenure)
	}
}

// keep makes the keeper poll a tenure.
func (w *world) keep(c *client, t *core.Tenure) {
	c.timers = slices.DeleteFunc(c.timers, func(k timer) bool { return k.tenure == t })
	l := t.Lock()
	if l == nil || l.Client() != c.core {
		return
	}
	now := w.clock(c)
	cmd, at := l.Poll(t, now)
	if cmd.Op != core.None {
		w.send(c, cmd)
	}
	if at < core.Never {
		c.timers = append(c.timers, timer{t, max(at, now.Time)})
	}
}

// run has the goroutine of a user that waits look what it can do: that is the loop of a call.
func (w *world) run(c *client, i int) {
	u := &c.users[i]
	if u.state != waiting {
		return
	}
	l, now := c.lockOf(i), w.clock(c)
	if u.waiter.Outcome == core.Waiting && l.Due(u.waiter, now) <= now.Time {
		l.Tick(u.waiter, now)
	}
	at := core.Never
	if u.waiter.Outcome == core.Waiting && u.waiter.Ticket != nil {
		cmd, due := l.Poll(u.waiter.Ticket, now)
		if cmd.Op != core.None {
			w.send(c, cmd)
		}
		at = due
	}
	if u.waiter.Outcome != core.Waiting {
		w.collect(c, u)
		return
	}
	due := l.Due(u.waiter, now)
	if due <= now.Time {
		w.fail("client %d: user %d has nothing to do, and is due", c.id, i)
	}
	u.timer = min(at, due)
}

// collect returns a call to its user.
func (w *world) collect(c *client, u *user) {
	o := u.waiter
	u.waiter, u.timer = nil, core.Never
	switch o.Outcome {
	case core.Acquired:
		u.state, u.wrote = holding, false
		if w.Steady {
			u.began = w.faults
		}
		w.refused = false
		w.refuses = 0
		if o.Mode == core.Shared {
			u.reads++
		} else {
			u.writes++
		}
		w.acquired(c, u, o)
		if o.Way != core.ByPass {
			w.passForeign()
		}
	case core.Waiting:
		panic("explore: a call returns that waits")
	default:
		u.state = idle
		if p := &w.passed; o.Outcome == core.NotPassed && o.Passed == p.id && w.Users == 1 && !w.wiped && p.used && p.by == (place{c.id, u.rounds}) {
			w.fail("client %d: a call is refused the lock that it has resumed", c.id)
		}
		w.refused = w.refused || o.Outcome == core.Denied && w.deadWait()
	}
}

func (w *world) send(c *client, cmd core.Command) {
	cmd.Polling = slices.Contains(w.Foreign, Poller) || slices.Contains(w.Foreign, Former) // as the driver knows it
	p := packet{cmd: cmd, epoch: c.epoch, behind: true}
	if cmd.Op == core.Leave { // does it come behind the command that brings the tenure in?
		enters := func(o packet) bool { return o.epoch == c.epoch && o.cmd.ID == cmd.ID && o.cmd.Op <= core.Join }
		p.behind = slices.ContainsFunc(c.pipe, enters) || slices.ContainsFunc(c.back, enters)
	}
	c.pipe = append(c.pipe, p)
}

// fire fires the due timers.
func (w *world) fire(c *client) {
	now := w.clock(c)
	for i := range c.users {
		if u := &c.users[i]; u.state == waiting && u.timer <= now.Time {
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
