package server

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// What a step does: queue.lua and grant.lua.

var noTicket core.Ticket

// step takes leave out, adds join, looks for look, each unless it is the zero Ticket, and grants
// the lock as long as it is open to the first ticket.
func (r *run) step(leave, join, look core.Ticket, lease core.Span) core.Reply {
	ended := r.Kind.expire(r)
	existed := r.queueExists()
	asker, term := look, lease
	if join != noTicket {
		asker, term = join, r.claimOf(join)
	}

	queue := r.Queue
	left, freed := r.leave(leave)

	joined, added, behind := false, noTicket, false
	alone := join != noTicket && len(r.Queue) == 0
	if join != noTicket && !r.Kind.inside(r, join) {
		joined = true
		if join.Takes {
			alone = false
			r.putFirst(join)
		}
		if n := len(r.Queue); n > 0 {
			behind = r.Queue[n-1] != join && r.Queue[n-1] != Window
		}
		if !r.queues(join) {
			r.add(join, queue)
			added = join
		}
	}

	// A ticket that joins behind another one, while a client of ours has the lock alone, is all of
	// the step.
	guarded := !r.Kind.open(r, core.Shared, 0) && !r.foreignHolds()
	if guarded && joined && behind && leave == noTicket && !r.bounded && len(ended) == 0 {
		r.QueueEnds = r.now.after(r.Silence)
		a := r.denial()
		a.Found = core.Waits
		return a
	}

	r.buryAll(ended, leave, asker)
	if !guarded || joined && (len(r.Queue) == 1 || join.Takes && r.Queue[0] == join) { // a ticket that joins an empty queue lets foreign clients go first
		r.meet(freed, added)
	}
	dropped := !guarded && r.dropDeaf(asker)
	foremost, _ := r.behind()
	var front core.Ticket
	if len(r.Queue) > 0 {
		front = r.Queue[0]
	}
	token, granted := r.grantAll(asker, term)
	if freed && len(r.Queue) > 0 && r.Queue[0] == front {
		r.Kind.ungranted(r, leave)
	}
	if last, asks := r.readTogether(leave, asker, term); asks {
		token, granted = last, true
	}
	last, asks, held, heldFor := r.holdBack(asker, term)
	if asks {
		token, granted = last, true
	}

	full := joined && r.isFull(join)
	tickets := r.tickets()
	first, waits := r.behind()
	if !waits && !r.stay.on {
		r.dropTurn()
	}
	if freed && r.stay.on && !r.stay.told && len(r.Holders) == 0 { // readers of ours have read in a window
		r.stay.told = true
		r.tell()
	}
	if guarded && alone && !full { // the ticket counts as the first, also if it has the lock already
		first, waits = join, true
	}
	follows := waits && first == asker
	if r.stay.here && waits && (r.stay.on || r.foreignHolds()) {
		if r.foreignHolds() && (!r.stay.on || r.now >= r.Foreign.Memory.Over) {
			r.takePlace()
		}
		follows = r.tellFollowers(asker, r.stay.told || left || dropped)
		follows = asker != noTicket && r.follows(asker, follows)
	}
	if gaveUp := left && !freed; waits && first != asker && (first != foremost || gaveUp || dropped) && r.shownAsPassed() {
		r.send(core.Message{Kind: core.AtFront, ID: first.ID, More: first.More})
	}
	switch {
	case !waits:
		r.queueEmptied(freed, existed || join != noTicket)
	case asker != noTicket && !full:
		r.QueueEnds = r.now.after(r.Silence)
	}
	if !r.queueExists() {
		r.QueueEnds = 0
	}

	a := core.Reply{Left: left}
	if asker == noTicket {
		return a
	}
	switch {
	case granted:
		a.Found, a.Token = core.Holds, token
	case r.Kind.inside(r, asker):
		a.Found, a.Token = core.Holds, r.Kind.keepOwner(r, asker, term)
	default:
		a = r.denial()
		a.Left = left
		switch {
		case full:
			a.Full, a.Tickets = true, tickets
		case follows:
			a.Found = core.First
			if first == asker && look != noTicket && !look.Polls {
				r.asks()
			}
		case joined || r.queues(asker):
			a.Found = core.Waits
		}
	}
	if r.stay.on {
		a.Window = max(r.Foreign.Memory.Over.since(r.now), 0)
	}
	a.HeldBack, a.HeldFor = held, heldFor
	return a
}

// putFirst puts a ticket that takes the lock over into the queue, behind earlier ones of the sort and
// before all others: takeover.lua.
func (r *run) putFirst(t core.Ticket) {
	if r.queues(t) {
		return
	}
	i := 0
	for i < len(r.Queue) && r.Queue[i].Takes {
		i++
	}
	if !r.queueExists() {
		r.QueueEnds = r.now.after(r.Silence)
	}
	r.Queue = slices.Insert(slices.Clone(r.Queue), i, t)
}

// takeOver executes the step of a ticket that takes the lock over, before which a holder may leave,
// and adds the holders to its reply.
func (r *run) takeOver(c *core.Command) core.Reply {
	var leave, join, look core.Ticket
	if c.Op == core.Join {
		join = c.Ticket
	} else {
		look = c.Ticket
	}
	if c.Ends != (core.Holding{}) && r.queues(look) { // else no ticket of the caller would be granted the lock
		leave = core.Ticket{ID: c.Ends.ID, More: c.Ends.More}
		for _, mark := range slices.Clone(r.Marks) {
			if mark.Client == look.ID.Client {
				r.unmark(mark)
			}
		}
	}
	a := r.step(leave, join, look, c.Lease)
	for _, h := range r.Holders {
		holding := core.Holding{ID: h.ID, More: h.More, Foreign: IsForeign(h.ID)}
		if h.ID != c.ID && !slices.Contains(a.Holders, holding) {
			a.Holders = append(a.Holders, holding)
		}
	}
	a.Takes = slices.ContainsFunc(r.Queue, func(q core.Ticket) bool { return q.ID == c.ID && q.Takes })
	return a
}

// LetThrough puts a ticket before all others, which takes the lock over from one of the holders from
// then on: let_through.lua. It returns the reply of the script.
func (s *Server) LetThrough(id core.ID, grace core.Span, holders []core.ID, now Time, effects *Effects) int {
	s.Expire(now)
	i := slices.IndexFunc(s.Queue, func(q core.Ticket) bool { return q != Window && q.ID == id })
	switch {
	case i < 0:
		return 0
	case !slices.ContainsFunc(s.Holders, func(h Holder) bool { return slices.Contains(holders, h.ID) }):
		return -1
	case s.Queue[i].Mode == core.Shared || s.Queue[i].Answerable:
		return -2
	case !s.Uncounted && !s.Listens.Has(id.Client):
		return -3
	}
	t := s.Queue[i]
	rest := without(s.Queue, func(q core.Ticket) bool { return q == t })
	s.setTier(t, 0)
	t.Takes = true
	s.Queue = slices.Insert(slices.Clone(rest), 0, t)
	effects.Messages = append(effects.Messages, Message{Message: core.Message{Kind: core.LetThrough, ID: id, More: t.More, Left: grace}})
	return 1
}

// asQueued returns the ticket as it stands in the queue: its client may not know yet that an operator
// has let it through.
func (s *Server) asQueued(t core.Ticket) core.Ticket {
	other := t
	if other.Takes = !t.Takes; slices.Contains(s.Queue, other) {
		return other
	}
	return t
}

// Told returns the messages that the client of a ticket which takes the lock over publishes with the
// answer to its command.
func Told(c *core.Command, a *core.Reply) (told []core.Message) {
	if c.Ends != (core.Holding{}) && a.Left {
		told = append(told, core.Message{Kind: core.Forced, ID: c.Ends.ID})
	}
	for _, t := range c.Tells {
		told = append(told, core.Message{Kind: core.TakenOver, ID: t.ID, Left: t.Left})
	}
	return told
}

// isTakenOver reports whether a ticket that takes the lock over waits.
func (r *run) isTakenOver() bool { return len(r.Queue) > 0 && r.Queue[0].Takes }

// shownAsPassed reports whether one of the holders that others are told of has passed the lock on: no
// message will say that it is free.
func (r *run) shownAsPassed() bool {
	return !r.foreignHolds() && slices.ContainsFunc(r.Kind.asked(r), func(h Holder) bool { return h.Owner == 0 })
}

// isFull takes the ticket that has joined with a bound out of the queue again if too many stand
// there, and reports whether they do.
func (r *run) isFull(join core.Ticket) bool {
	if !r.bounded || !r.queues(join) || r.tickets() <= r.most {
		return false
	}
	r.Queue = without(r.Queue, func(m core.Ticket) bool { return m == join })
	return true
}

// tickets returns how many tickets stand in the queue. A window is none.
func (r *run) tickets() int {
	n := len(r.Queue)
	if slices.Contains(r.Queue, Window) {
		n--
	}
	return n
}

// queueEmptied is the end of a step after which no ticket is in the queue.
func (r *run) queueEmptied(freed, existed bool) {
	f, m := &r.stay, &r.Foreign.Memory
	r.leavePlace()
	if !f.on && existed { // marks alone are kept for the lease that they are about
		r.QueueEnds = r.now.after(max(r.Kind.remaining(r), 1))
	}
	switch {
	case freed && !f.on && len(r.Holders) == 0:
		if f.here && r.due() { // else our next acquire is always sooner
			r.setTier(Window, 0)
			r.Queue = with(r.Queue, Window)
			polls := f.waits == 0
			m.Polls = m.Polls || polls
			r.begin(polls)
			r.QueueEnds = m.Over
			return
		}
		r.Kind.freed(r)
		if f.fair {
			r.callFair()
		}
	case f.on:
		r.QueueEnds = max(m.Over, r.now.after(1))
	}
}

// leave takes a member out of the lock, or else out of the queue. A tenure that has the lock has a
// mark at most, and a ticket has a place.
func (r *run) leave(t core.Ticket) (left, freed bool) {
	if t == noTicket {
		return false, false
	}
	freed = r.Kind.removeOwner(r, t)
	if !freed && r.queues(t) {
		r.Queue = without(r.Queue, func(m core.Ticket) bool { return m == t })
		return true, false
	}
	r.unmark(t.ID)
	return freed, freed
}

// dropDeaf drops the tickets at the front whose clients do not listen, and reports whether there
// were any.
func (r *run) dropDeaf(asker core.Ticket) (some bool) {
	for {
		t, ok := r.behind()
		if !ok || t == asker || r.listens(t) {
			return some
		}
		r.Queue, some = without(r.Queue, func(m core.Ticket) bool { return m == t }), true
	}
}

// tellFollowers tells the clients of the first ticket and of its deputy to look, the first ticket
// of another client, if it is time to do so. It reports whether the asker is one of the two.
func (r *run) tellFollowers(asker core.Ticket, tells bool) (follows bool) {
	var before *core.Ticket
	for i, t := range r.Queue {
		if t == Window || before != nil && t.ID.Client == before.ID.Client {
			continue
		}
		if t == asker {
			follows = true
		} else if tells {
			r.send(core.Message{Kind: core.AtFront, ID: t.ID, More: t.More})
		}
		if before != nil {
			break
		}
		before = &r.Queue[i]
	}
	return follows
}

// follows reports whether the asker is to look at the releases of foreign clients: if it isOne of
// the first ticket and its deputy, or if neither was looked for in the time in which clients look
// that live.
func (r *run) follows(asker core.Ticket, isOne bool) bool {
	m := &r.Foreign.Memory
	since := r.now.since(m.Heard)
	switch {
	case isOne && m.Heard > 0 && since >= r.Windows.Heard, !isOne && m.Heard == 0 && r.queues(asker):
		m.Heard = r.now
		r.note()
	case !isOne && since >= r.Windows.Unheard:
		return r.queues(asker)
	}
	return isOne
}

// listens reports whether the client of a ticket can be told; true if Redis does not say.
func (r *run) listens(t core.Ticket) bool {
	return t.Polls || r.Uncounted || r.Listens.Has(t.ID.Client)
}

// buryAll drops the tickets of the dead: the clients of tenures that were granted the lock out of
// the queue, and ended without a release. They are those whose permit has ended, and all that are
// marked while no tenure of ours has the lock.
func (r *run) buryAll(ended []core.ID, leave, asker core.Ticket) {
	speaker, speaks := leave, true
	if leave == noTicket {
		speaker, speaks = asker, asker != noTicket
	}
	bury := func(mark core.ID) {
		r.unmark(mark)
		if speaks && mark.Client == speaker.ID.Client {
			return
		}
		r.Queue = without(r.Queue, func(m core.Ticket) bool { return m.ID.Client == mark.Client })
	}
	for _, id := range ended {
		if slices.Contains(r.Marks, id) {
			bury(id)
		}
	}
	ours := func(h Holder) bool { return !IsForeign(h.ID) }
	for !slices.ContainsFunc(r.Holders, ours) && len(r.Marks) > 0 {
		bury(r.Marks[0])
	}
}

// grantAll grants the lock as long as it is open to the first ticket. If a window of foreign
// clients is the first and some wait, it begins.
func (r *run) grantAll(asker core.Ticket, term core.Span) (token uint64, granted bool) {
	for len(r.Queue) > 0 && !r.stay.on && r.Kind.open(r, r.Queue[0].Mode, r.Queue[0].More) {
		switch m := r.Queue[0]; {
		case m != Window:
			if last, asks := r.grant(m, asker, term); asks {
				token, granted = last, true
			}
			r.leavePlace()
		case r.stay.here && (r.stay.waits > 0 || r.Foreign.Memory.Polls):
			r.begin(r.Foreign.Memory.Polls)
		default:
			r.dropTurn()
		}
	}
	return token, granted
}

// grant takes the ticket out of the queue, and grants it the lock if its client is there. The
// ticket of a client that cannot be told is dropped. The asker learns of its grant by the reply.
func (r *run) grant(m, asker core.Ticket, term core.Span) (token uint64, asks bool) {
	r.Queue = without(r.Queue, func(t core.Ticket) bool { return t == m })
	asks = m == asker
	if !asks && !r.listens(m) {
		return 0, false
	}
	lease := r.claimOf(m)
	if asks {
		lease = term
	}
	token = r.Kind.addOwner(r, m, lease)
	r.entered(m)
	if !r.marked(m.ID) {
		r.Marks = with(r.Marks, m.ID)
	}
	if !asks {
		r.send(core.Message{Kind: core.Granted, ID: m.ID, More: m.More, Token: token, Tokens: r.reserve})
	}
	return token, asks
}

// claimOf returns the lease of the ticket's claim.
func (s *Server) claimOf(t core.Ticket) core.Span {
	if t.Brief {
		return s.Brief
	}
	return s.Claim
}

func (s *Server) queues(t core.Ticket) bool { return slices.Contains(s.Queue, t) }

func (s *Server) marked(id core.ID) bool { return slices.Contains(s.Marks, id) }

func (s *Server) unmark(id core.ID) {
	s.Marks = without(s.Marks, func(mark core.ID) bool { return mark == id })
	if !s.queueExists() {
		s.QueueEnds = 0
	}
}

// guards returns whether a guarded write is executed: the lock has its tenure, in its mode, and was
// not passed on. A writer may read.
func (r *run) guards(t core.Ticket) (a core.Reply) {
	for _, h := range r.Holders {
		named := h.ID == t.ID && h.Owner != 0 && (h.Owner == t.Owner || r.Kind != Semaphore) // a permit has one owner
		if named && (h.Writes || t.Mode == core.Shared || r.Kind != ReadWrite) && (h.Ends == 0 || h.Ends > r.now) {
			a.Found = core.Holds
		}
	}
	return a
}

// satisfies takes the tickets out of the queue that take an answer, and tells their clients.
func (r *run) satisfies() {
	for _, t := range r.Queue {
		if t.Answerable {
			r.send(core.Message{Kind: core.Satisfied, ID: t.ID})
		}
	}
	r.Queue = without(r.Queue, func(t core.Ticket) bool { return t.Answerable })
	if !r.queueExists() {
		r.QueueEnds = 0
	}
}
