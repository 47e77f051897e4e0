package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// The assertions about each state, each grant and each call that returns. Those of check are made
// after each event.

// check fails a state that breaks a promise.
func (w *world) check() {
	w.taken = w.taken || len(w.server.Holders)+len(w.server.Queue) > 0
	w.checkHolders()
	for i := range w.clients {
		c := &w.clients[i]
		w.checkSummaries(c)
		w.checkOwners(c)
		if c.lives() {
			w.checkBeliefs(c)
			w.checkReaders(c)
			w.checkForced(c)
			w.checkAgents(c)
			w.checkNotes(c)
		}
	}
	w.checkLeft()
	w.checkWrites()
	w.checkBounds()
}

// checkSummaries fails a summary of levels that does not follow from them, and levels without a
// tenure.
func (w *world) checkSummaries(c *client) {
	for _, l := range c.locks {
		if !core.IsSummed(l) {
			w.fail("client %d: the summary of its levels is another one", c.id)
		}
		if l.IsHeld() != (l.Held() != nil) {
			w.fail("client %d: it has levels without a tenure, or a tenure without levels", c.id)
		}
	}
}

// checkNotes fails a holder that Redis shows with another note than its own, although this client
// knows that Redis shows its levels. After a fault a late command may have written the former one.
func (w *world) checkNotes(c *client) {
	for _, l := range c.locks {
		t := l.Held()
		if w.Do&Noted == 0 || w.Fault != 0 || t == nil || !l.IsShown(w.clock(c)) || t.OpInFlight() != core.None {
			continue
		}
		for _, h := range w.server.Holders {
			note := byte(0)
			if o := h.Owner % noted; l.Hosts(o, true) {
				note = core.NoteKey(l.FirstLevel(o).Note)
			}
			if h.ID == t.ID && byte(h.Owner/noted) != note {
				w.fail("client %d: Redis shows another note", c.id)
			}
		}
	}
}

// checkHolders fails more valid holders than are permitted: one, or readers, or as many as there
// are permits.
func (w *world) checkHolders() {
	valid, reads := w.valid()
	if valid > w.permits() && valid > reads && !w.wiped {
		w.fail("%d valid holders", valid)
	}
}

// valid returns how many owners hold the lock by what their clients believe, and how many of them
// only read.
func (w *world) valid() (valid, reads int) {
	for i := range w.threads {
		if f := &w.threads[i]; f.state == foreignHolding {
			valid++
			if f.kind == Reader {
				reads++
			}
		}
	}
	for i := range w.clients {
		c := &w.clients[i]
		if c.dead {
			continue
		}
		for j, l := range c.locks {
			any, reading := false, true
			for _, v := range l.Levels() {
				if l.Holds(v.Owner, w.clock(c)) {
					any = true
					reading = reading && v.Mode == core.Shared
				}
			}
			if any {
				valid += c.has(j)
				if reading {
					reads++
				}
			}
		}
	}
	return valid, reads
}

// has returns how many permits the users of a client's lock believe to have, whose owner holds it.
// It is 1 for other locks.
func (c *client) has(lock int) int {
	more := int32(0)
	if len(c.locks) == len(c.users) {
		u := &c.users[lock]
		if more = u.more; u.state == waiting && u.call != nil {
			more = u.call.More
		}
	}
	return 1 + int(more)
}

// checkBeliefs fails a caller that believes something else than the core says.
func (w *world) checkBeliefs(c *client) {
	if w.Do&Same != 0 {
		return
	}
	for j := range c.users {
		u, o := &c.users[j], w.ownerOf(j)
		has := c.lockOf(j).Holds(o, w.clock(c)) && !(u.state == waiting && u.call.Outcome == core.Acquired)
		if has != (u.state == holding) && !w.Lazy {
			w.fail("client %d: user %d is %s, and the core says that it holds: %v", c.id, j, stateNames[u.state], has)
		}
		if has && u.state == holding && u.until > 0 && w.clock(c).Time >= u.until {
			w.fail("client %d: the hold of user %d lasts for longer than it may", c.id, j)
		}
	}
}

var stateNames = [...]string{"idle", "waiting", "holding", "unlocking"}

// checkForced fails a hold in a tenure that its own client has released by force, whatever comes
// after the answer: an older answer to the command that brought the tenure in, or a message that
// grants it the lock.
func (w *world) checkForced(c *client) {
	if c.forced == (core.ID{}) {
		return
	}
	for _, l := range c.locks {
		if t := l.Held(); t != nil && t.ID == c.forced {
			w.fail("client %d: it holds the lock by tenure %d, which it has released by force", c.id, t.ID.N)
		}
	}
	if w.forgotten(c.forced) {
		c.forced = core.ID{}
	}
}

// checkOwners fails an owner that waits for itself.
func (w *world) checkOwners(c *client) {
	for _, l := range c.locks {
		for r := range l.Waiters {
			if !c.dead && l.Holds(r.Owner, w.clock(c)) {
				w.fail("client %d: owner %d waits for itself", c.id, r.Owner)
			}
		}
	}
}

// checkReaders fails a reader that waits though it may read with the readers of its client.
func (w *world) checkReaders(c *client) {
	for _, l := range c.locks {
		if l.KeepsOut(w.clock(c)) {
			w.fail("client %d: a reader waits beside readers", c.id)
		}
	}
}

// checkAgents fails a tenure with something to send that no goroutine looks after in time, and a
// call whose time comes and that no timer wakes: rule 1 of the driver.
func (w *world) checkAgents(c *client) {
	for j := range c.users {
		if u := &c.users[j]; u.call != nil && u.call.Outcome != core.Waiting && u.stage != flies && w.looksAt(c, u.call) > 0 {
			w.fail("client %d: the wait of user %d is over, and none wakes it", c.id, j)
		}
	}
	now := w.clock(c)
	for _, l := range c.locks {
		for t := range l.Tenures {
			_, at := l.Peek(t, now)
			if at == core.Never {
				continue
			}
			has := core.Never
			if call := t.Agent; call != nil {
				has = w.looksAt(c, call)
			} else {
				has = w.keepsAt(c, t)
			}
			if has > max(at, now.Time) {
				w.fail("client %d: no agent looks after tenure %d, which is due", c.id, t.ID.N)
			}
		}
		for r := range l.Waiters {
			if at := l.Wakes(r, now); w.looksAt(c, r) > max(at, now.Time) {
				w.fail("client %d: no timer wakes user %d in time", c.id, r.Tag)
			}
		}
	}
}

// looksAt returns when the goroutine of a call looks by itself: at any time for one that waits for
// an answer or a slot.
func (w *world) looksAt(c *client, call *core.Call) core.Time {
	i := call.Tag.(int)
	u := &c.users[i]
	switch {
	case u.call != call:
		return core.Never
	case u.stage != sleeps && call.Outcome == core.Waiting, slices.Contains(c.nudges, nudge{nil, i}):
		return 0
	}
	return u.timer
}

// keepsAt returns when the keeper polls the tenure.
func (w *world) keepsAt(c *client, t *core.Tenure) core.Time {
	if slices.Contains(c.nudges, nudge{t, -1}) {
		return 0
	}
	for _, k := range c.timers {
		if k.tenure == t {
			return k.at
		}
	}
	return core.Never
}

// acquired notes that a call has returned with the lock.
func (w *world) acquired(c *client, u *user, r *core.Call) {
	if r.Way == core.ByHandoff && core.IsTakenOver(c.lockOf(r.Tag.(int))) {
		w.fail("client %d: the lock is handed off, although it is taken over", c.id)
	}
	if w.Kind.Fenced {
		token := uint64(0)
		for _, v := range c.lockOf(r.Tag.(int)).Levels() {
			token = max(token, v.Token)
		}
		if r.Way == core.ByPass && token != w.passed.token {
			w.fail("client %d: a hold that was passed on has token %d, not %d", c.id, token, w.passed.token)
		}
		if token <= w.token && r.Way != core.ByNesting && r.Way != core.ByPass && !w.wiped {
			w.fail("client %d: a hold has token %d after %d", c.id, token, w.token)
		}
		w.token = max(w.token, token)
	}
	w.outdates(r.Mode, c.lockOf(r.Tag.(int)).Held())
	if r.Way != core.ByPass { // it goes on with the section of the client that has passed the lock on
		w.passOthers(c)
	}
	c.passed, c.seen = 0, false
	w.inOrder(c, r)
}

// joins notes the order in which the waiters of a strict lock have come.
func (w *world) joins(c *client, p *packet) {
	if !w.Kind.Strict || p.cmd.Op != core.Join {
		return
	}
	for j := range c.users {
		if u := &c.users[j]; u.state == waiting && u.call.Tenure != nil && u.call.Tenure.ID == p.cmd.ID {
			if pl := (caller{c.id, j}); !slices.Contains(w.order, pl) {
				w.order = append(w.order, pl)
			}
		}
	}
}

// inOrder fails a strict lock that is granted to one that came later, if nothing was lost.
func (w *world) inOrder(c *client, r *core.Call) {
	if !w.Kind.Strict {
		return
	}
	own := caller{c.id, r.Tag.(int)}
	w.order = slices.DeleteFunc(w.order, func(p caller) bool { return p != own && w.clients[p.client].users[p.user].state != waiting })
	at := slices.Index(w.order, own)
	if at > 0 && w.Fault&^(Slow|Stall) == 0 && w.Kind.Permits == 0 {
		p := w.order[0]
		w.fail("client %d: user %d of a fair lock was passed", p.client, p.user)
	}
	if at >= 0 {
		w.order = slices.Delete(w.order, at, at+1)
	}
}

// checkTurns fails a permit that is granted to a ticket while one that came before it waits: so a
// call that takes many permits is not starved by those that take few. queue is the one before the
// command.
func (w *world) checkTurns(queue []core.Ticket) {
	if w.Kind.Permits == 0 {
		return
	}
	for _, t := range w.effects.Granted {
		for _, before := range queue {
			if before.ID == t.ID || t.Takes && !before.Takes {
				break
			}
			if slices.Contains(w.server.Queue, before) {
				w.fail("Redis grants a permit to client %d, and client %d came before it", t.ID.Client, before.ID.Client)
			}
		}
	}
}

// granted fails a grant by Redis while another client does not know of its loss, and one to a
// tenure that had one.
func (w *world) granted() {
	for _, t := range w.effects.Granted {
		w.idle, w.unused = 0, 0
		if slices.Contains(w.entered, t.ID) && !w.wiped && w.Fault&(Double|Repeat) == 0 {
			w.fail("Redis grants the lock to tenure %d.%d a second time", t.ID.Client, t.ID.N)
		}
		w.entered = append(w.entered, t.ID)
		held, reads := 0, 0
		for j := range w.clients {
			c := &w.clients[j]
			if !c.lives() {
				continue
			}
			for k, l := range c.locks {
				if v := l.Levels(); len(v) > 0 && !(l.Held() != nil && l.Held().ID == t.ID) && uint32(j) != t.ID.Client {
					held += c.has(k)
					if t.Mode == core.Shared && !slices.ContainsFunc(v, func(v core.Level) bool { return v.Mode == core.Alone }) {
						reads++
					}
				}
			}
		}
		if held+1+int(t.More) > w.permits() && held > reads && !w.wiped {
			w.fail("Redis grants the lock to client %d before another one knows of its loss", t.ID.Client)
		}
	}
	w.effects.Granted = w.effects.Granted[:0]
	w.entered = slices.DeleteFunc(w.entered, w.forgotten)
}

// forgotten reports whether no command names the tenure any more.
func (w *world) forgotten(id core.ID) bool {
	c := &w.clients[id.Client]
	if c.dead {
		return len(c.pipe)+len(c.late) == 0
	}
	names := func(p packet) bool { return p.cmd.ID == id || p.cmd.Joins.ID == id }
	for _, l := range c.locks {
		if l.Find(id) != nil {
			return false
		}
	}
	return !slices.ContainsFunc(c.pipe, names) && !slices.ContainsFunc(c.late, names)
}
