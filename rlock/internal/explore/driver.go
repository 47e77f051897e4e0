package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// The goroutines of callers. Each is a shell around a call of package core, as in the driver
// (run.go there). Any event may come while a goroutine is without the mutex.

// A stage is what the goroutine of a call does.
type stage uint8

const (
	sleeps stage = iota // until its timer or an effect, or it is about to look
	queues              // the same, or until it has a slot
	flies               // until the answer to its command
)

// A slot says which limit of commands in flight a command counts for.
type slot uint8

const (
	noSlot slot = iota // the keeper's batches have their own
	asks
	releases
	slots
)

// calls makes the user begin a call.
func (w *world) calls(c *client, i int, s userState, call *core.Call) {
	u := &c.users[i]
	u.state, u.call, u.stage, u.timer, u.admitted = s, call, sleeps, core.Never, false
}

// run is the loop of a call: what its goroutine does until it has to wait.
func (w *world) run(c *client, i int, slot bool) {
	u := &c.users[i]
	if u.call == nil || u.stage == flies {
		return
	}
	l, now := c.lockOf(i), w.clock(c)
	u.stage, u.timer = sleeps, core.Never
	a := l.Next(u.call, slot, now)
	if a.Do == core.Queues && w.Slots == 0 {
		a = l.Next(u.call, true, now)
	}
	switch a.Do {
	case core.Returns:
		w.returns(c, u)
	case core.Sends:
		u.stage = flies
		w.send(c, l.Command(u.call, a.Op, now), i, u.slot())
	case core.Queues:
		u.stage, u.timer = queues, a.Until
	case core.Sleeps:
		if u.timer = a.Until; u.timer <= now.Time {
			w.fail("client %d: user %d has nothing to do, and is due", c.id, i)
		}
	default:
		panic(a.Do)
	}
}

// slot returns the sort of slot that the command of the user's call needs.
func (u *user) slot() slot {
	if u.state == unlocking {
		return releases
	}
	return asks
}

// mayEnter reports whether a slot of the sort is free.
func (w *world) mayEnter(c *client, s slot) bool { return c.slots[s] < w.Slots }

// leaves ends the call of a user that does not wait any more.
func (w *world) leaves(c *client, i int) {
	u, l, now := &c.users[i], c.lockOf(i), w.clock(c)
	call, flew, ticket := u.call, u.stage == flies, w.queuedTicket(c, u.call)
	u.call, u.stage, u.timer = nil, sleeps, core.Never
	u.stays = 0
	u.ends, u.passes, u.carries, u.wroteOut, u.left = core.ID{}, false, false, false, false
	if call.Outcome == core.Acquired { // and does not know it
		if _, t, _ := l.Unlock(call.Owner, call.Mode, call.Handle, now); t != nil {
			w.stays(c, u, t)
		}
	} else {
		l.End(call, core.Cancelled, now)
		l.Next(call, false, now) // it returns
	}
	if u.state = idle; flew {
		w.abandon(c, i)
	}
	w.keepsPosition(c, l, ticket)
}

// abandon leaves behind the command of a user's call. Where the connection keeps the order the
// answer is that there is none, and the next command comes behind it. Elsewhere another goroutine
// waits for the answer.
func (w *world) abandon(c *client, i int) {
	for _, ps := range [][]packet{c.pipe, c.back} {
		for j := range ps {
			p := &ps[j]
			if p.user != i || p.cmd.Op == core.Write {
				continue
			}
			if p.user = -1; w.Ordered {
				p.left = true
				w.lockOf(c, p.cmd.ID).Answer(&p.cmd, nil, core.Reply{Fault: core.Behind}, w.clock(c))
			}
		}
	}
}

// returns returns a call to its user.
func (w *world) returns(c *client, u *user) {
	o, was := u.call, u.state
	u.call, u.stage, u.timer = nil, sleeps, core.Never
	switch o.Outcome {
	case core.Waiting:
		panic("explore: a call returns that waits")
	case core.Done:
		u.state = idle
		w.released(c, u, o)
	case core.Acquired:
		w.holds(c, u, o)
	case core.NotPassed:
		u.state = idle
		if p := &w.passed; o.Named == p.id && w.Users == 1 && !w.wiped && p.used && p.by == (caller{c.id, u.rounds}) {
			w.fail("client %d: a call is refused the lock that it has resumed", c.id)
		}
	case core.Denied:
		u.state = idle
		w.denied(c, o)
	case core.Full:
		u.state = idle
		w.refusedAsFull(c, u, o)
	case core.TimedOut, core.Cancelled, core.Closed, core.Upgrades, core.Failed, core.GotAnswer, core.Unanswered:
		u.state = idle
	default:
		panic(o.Outcome)
	}
	if was == unlocking && o.Outcome != core.Done {
		w.fail("client %d: a release returns with outcome %v", c.id, o.Outcome)
	}
}

// holds notes that a call returns with the lock.
func (w *world) holds(c *client, u *user, o *core.Call) {
	u.state, u.wrote, u.until, u.more = holding, false, 0, o.More
	if o.Capped {
		u.until = w.clock(c).Time + core.Time(capped)
	}
	if w.Steady {
		u.began = w.faults
	}
	w.refused = false
	w.refuses = 0
	u.levels(o.Mode, +1)
	w.acquired(c, u, o)
	if o.Way != core.ByPass {
		w.passForeign()
	}
}

// released notes that an Unlock or a Pass returns. It fails one that says that Redis has confirmed
// it, while Redis shows the tenure.
func (w *world) released(c *client, u *user, o *core.Call) {
	passes := u.passes
	if o.Cause == core.ByUnlock && passes && u.ends == w.passed.id {
		w.passed.known, w.passed.token = true, u.token
	}
	if u.stays > 0 && o.Cause == core.ByUnlock {
		u.parted, u.partedUntil = u.ends, u.stays
	}
	if o.Cause != core.Unconfirmed && !passes && u.stays == 0 && w.shows(u.ends) && !w.wiped && w.Fault&(Double|Repeat) == 0 {
		w.fail("client %d: an Unlock returns as if it were answered, and Redis shows tenure %d", c.id, u.ends.N)
	}
	// A Leave that runs twice may find the tenure before that which is answered.
	if o.Cause == core.KeyGone && u.left && !passes && w.Fault&Double == 0 {
		w.fail("client %d: an Unlock says that the lock was lost, and a Leave has found it", c.id)
	}
	if u.carries {
		w.checkCarried(c, u, o)
	}
	if o.Cause == core.Unconfirmed && w.faults == w.Faults && w.Slots == 0 {
		w.fail("client %d: a release has no answer, and nothing has failed", c.id)
	}
	u.ends, u.passes, u.carries, u.wroteOut, u.left = core.ID{}, false, false, false, false
}

// shows reports whether Redis has the tenure in the lock.
func (w *world) shows(id core.ID) bool {
	for _, h := range w.server.Holders {
		if h.ID == id {
			return true
		}
	}
	return false
}

// send sends the command of a user's call, or of the keeper.
func (w *world) send(c *client, cmd core.Command, user int, s slot) {
	cmd.Polling = slices.Contains(w.Foreign, Poller) // as the driver knows it
	p := packet{cmd: cmd, epoch: c.epoch, behind: true, user: user, slot: s}
	if cmd.Op == core.Leave { // does it come behind the command that brings the tenure in?
		enters := func(o packet) bool { return o.epoch == c.epoch && o.cmd.ID == cmd.ID && o.cmd.Op <= core.Join }
		p.behind = slices.ContainsFunc(c.pipe, enters) || slices.ContainsFunc(c.back, enters)
	}
	w.checkRoom(c, &p)
	c.slots[s]++
	c.pipe = append(c.pipe, p)
}

// callOf returns the call that has sent a command, nil for the keeper, for one that has left, and
// for a guarded write, whose caller leaves at once.
func (w *world) callOf(c *client, p *packet) *core.Call {
	if p.user < 0 || p.cmd.Op == core.Write {
		return nil
	}
	return c.users[p.user].call
}

// isAwaited reports whether a call waits for the answer to a command.
func (w *world) isAwaited(c *client, p *packet) bool {
	call := w.callOf(c, p)
	return call != nil && call.Outcome == core.Waiting
}

// answered reads the answer to a command. Its call goes on, unless it has left.
func (w *world) answered(c *client, p *packet) {
	c.slots[p.slot]--
	if p.left {
		return
	}
	if p.user >= 0 && p.cmd.Op == core.Join && p.cmd.Bounded && (p.reply.Found == core.Waits || p.reply.Found == core.First) {
		c.users[p.user].admitted = true
	}
	w.lockOf(c, p.cmd.ID).Answer(&p.cmd, w.callOf(c, p), p.reply, w.clock(c))
	if p.isForce() && p.reply.Left && int(p.cmd.ID.Client) == c.id {
		c.forced = p.cmd.ID
	}
	if p.user >= 0 && p.cmd.Op != core.Write {
		c.users[p.user].stage = sleeps
		w.run(c, p.user, false)
	}
}

// wakes makes the goroutine of a user look at that time, unless it looks by itself when its command
// is answered.
func (w *world) wakes(c *client, i int, at core.Time) {
	u, n := &c.users[i], nudge{nil, i}
	switch {
	case u.call == nil || u.stage == flies || at == core.Never:
	case at > w.clock(c).Time:
		u.timer = min(u.timer, at)
	case !slices.Contains(c.nudges, n):
		c.nudges = append(c.nudges, n)
	}
}

// The driver as data: which goroutine asks about which tenure, and when. It is what the real one
// does under its mutex. So a poll that no goroutine carries out, and a time for which none wakes,
// are states like any other.

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
			e.Lock.Subscribed(false, w.clock(c))
		case c.sub == subscribed:
			c.heard = append(c.heard, message{confirms: true})
		default:
			c.sub = subscribing
		}
	case core.ListenForeign:
		c.abroad = subscribing
	case core.Wanted: // only the caller is told
	case core.IgnoreForeign:
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
	if e.Cause == core.ByTakeover && w.Do&(Take|Let) == 0 {
		w.fail("client %d: a lock is taken over, and no ticket takes it over", c.id)
	}
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
		u.levels(v.Mode, -1)
	}
	switch {
	case e.Lock.IsHeld():
	case e.Cause == core.LeaseEnded, e.Cause == core.TooLong, e.Cause == core.ByClose:
		w.stays(c, &c.users[w.userOf(c, e.Lost[0])], e.Tenure)
	default:
		c.stays = 0
	}
}

// stays notes that a user had the last level of the tenure, which stays for another reader's least
// hold.
func (w *world) stays(c *client, u *user, t *core.Tenure) {
	if c.stays > w.clock(c).Time {
		u.parted, u.partedUntil = t.ID, c.stays
	}
	c.stays = 0
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
