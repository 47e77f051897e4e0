package server

import (
	"slices"

	"github.com/go-rlock/rlock/internal/core"
)

// What a step does: queue.lua and grant.lua.

var nobody core.Ticket

// step takes leave out, adds join, looks for look, each unless it is the zero Ticket, and grants the lock as long as it
// is open to the first ticket.
func (r *run) step(leave, join, look core.Ticket, lease core.Span) core.Reply {
	ended := r.Kind.expire(r)
	existed := r.queueExists()
	asker, term := look, lease
	if join != nobody {
		asker, term = join, r.Claim
	}

	left, freed := r.leave(leave)

	joined, behind := false, false
	alone := join != nobody && len(r.Queue) == 0
	if join != nobody && !r.Kind.inside(r, join) {
		joined = true
		behind = len(r.Queue) > 0 && r.Queue[len(r.Queue)-1] != join
		if !r.queues(join) {
			r.Queue = with(r.Queue, join)
		}
	}

	// A ticket that joins behind another one, while the lock is open to none, is all of the step.
	if joined && behind && leave == nobody && len(ended) == 0 && !r.Kind.open(r, core.Shared) {
		r.QueueEnds = r.now.after(r.Silence)
		a := r.denial()
		a.Found = core.Waits
		return a
	}

	// A ticket that joins an empty queue while the lock is open to none counts as its first, also if the ticket has the
	// lock already.
	first := alone && !r.Kind.open(r, core.Shared)
	r.buryAll(ended, leave, asker)
	token, granted := r.grantAll(asker, term)

	if len(r.Queue) == 0 && !first {
		if existed || join != nobody { // marks alone are kept for the lease that they are about
			r.QueueEnds = r.now.after(max(r.Kind.remaining(r), 1))
		}
		if freed && len(r.Holders) == 0 {
			r.Kind.freed(r)
		}
	} else if asker != nobody {
		r.QueueEnds = r.now.after(r.Silence)
	}
	if !r.queueExists() {
		r.QueueEnds = 0
	}

	a := core.Reply{Left: left}
	if asker == nobody {
		return a
	}
	switch {
	case granted:
		a.Found, a.Token = core.Holds, token
	case r.Kind.inside(r, asker):
		a.Found, a.Token = core.Holds, r.Kind.keep(r, asker, term)
	default:
		a = r.denial()
		a.Left = left
		switch {
		case len(r.Queue) > 0 && r.Queue[0] == asker:
			a.Found = core.First
			r.call()
		case joined || r.queues(asker):
			a.Found = core.Waits
		}
	}
	return a
}

// leave takes a member out of the lock, or else out of the queue. A tenure that has the lock has a mark at most, and a
// ticket has a place.
func (r *run) leave(t core.Ticket) (left, freed bool) {
	if t == nobody {
		return false, false
	}
	freed = r.Kind.exit(r, t.ID)
	if !freed && r.queues(t) {
		r.Queue = without(r.Queue, func(m core.Ticket) bool { return m == t })
		return true, false
	}
	r.unmark(t.ID)
	return freed, freed
}

// buryAll drops the tickets of the dead: the clients of tenures that were granted the lock out of the queue, and ended
// without a release. They are those whose permit has ended, and all that are marked while the lock is free.
func (r *run) buryAll(ended []core.ID, leave, asker core.Ticket) {
	speaker, speaks := leave, true
	if leave == nobody {
		speaker, speaks = asker, asker != nobody
	}
	bury := func(mark core.ID) {
		r.unmark(mark)
		if speaks && mark.Client == speaker.ID.Client {
			return
		}
		r.Queue = without(r.Queue, func(m core.Ticket) bool { return m.ID.Client == mark.Client })
		r.Marks = without(r.Marks, func(id core.ID) bool { return id.Client == mark.Client })
	}
	for _, id := range ended {
		if slices.Contains(r.Marks, id) {
			bury(id)
		}
	}
	for len(r.Holders) == 0 && len(r.Marks) > 0 {
		bury(r.Marks[0])
	}
}

// grantAll grants the lock as long as it is open to the first ticket. The ticket of a client that cannot be told is
// dropped.
func (r *run) grantAll(asker core.Ticket, term core.Span) (token uint64, granted bool) {
	for len(r.Queue) > 0 && r.Kind.open(r, r.Queue[0].Mode) {
		m := r.Queue[0]
		r.Queue = r.Queue[1:]
		asks := m == asker
		if !asks && !m.Polls && !r.Uncounted && !r.Listens.Has(m.ID.Client) {
			continue
		}
		lease := r.Claim
		if asks {
			lease = term
		}
		last := r.Kind.enter(r, m, lease)
		r.entered(m)
		if !r.marked(m.ID) {
			r.Marks = with(r.Marks, m.ID)
		}
		switch {
		case asks:
			token, granted = last, true
		case !m.Polls:
			r.send(core.Granted, m.ID, last, r.reserve)
		}
	}
	return token, granted
}

func (s *Server) queues(t core.Ticket) bool { return slices.Contains(s.Queue, t) }

func (s *Server) marked(id core.ID) bool { return slices.Contains(s.Marks, id) }

func (s *Server) unmark(id core.ID) {
	s.Marks = without(s.Marks, func(mark core.ID) bool { return mark == id })
	if !s.queueExists() {
		s.QueueEnds = 0
	}
}
