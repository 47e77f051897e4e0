package server

import (
	"slices"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/explore/server"
)

// A Time is a point on Redis' clock.
type Time = server.Time

// Effects are what commands have done beside their replies.
type Effects = server.Effects

// A Config is the constant part of a server.
type Config struct {
	Claim   core.Span                // of a ticket that is granted the lock, unless its client asks for more
	Silence core.Span                // for how long a queue is kept without a step
	Listens func(client uint32) bool // whether the client is subscribed to its channel of the lock
}

// A Lock is one lock in Redis, with its queue.
type Lock struct {
	Holder core.ID // the zero ID: the lock is free
	Owner  core.OwnerID
	Ends   Time // when the lock's key expires

	Queue     Queue
	Marks     []core.ID // of the tenures that were granted the lock out of the queue, and have not released it
	QueueEnds Time      // when the queue's key expires: the queue and the marks
}

var (
	noID     core.ID
	noTicket core.Ticket
)

// Clone returns a copy that shares no memory with the lock.
func (l *Lock) Clone() *Lock {
	n := *l
	n.Queue, n.Marks = l.Queue.clone(), slices.Clone(l.Marks)
	return &n
}

// Empty reports whether no key is left.
func (l *Lock) Empty(now Time) bool {
	l.expire(now)
	return l.Holder == noID && !l.queueExists()
}

func (l *Lock) queueExists() bool { return l.Queue.Len()+len(l.Marks) > 0 }

// expire removes the keys whose time has come.
func (l *Lock) expire(now Time) {
	if l.Holder != noID && now >= l.Ends {
		l.free()
	}
	if l.queueExists() && now >= l.QueueEnds {
		l.Queue, l.Marks, l.QueueEnds = Queue{}, nil, 0
	}
}

func (l *Lock) free() { l.Holder, l.Owner, l.Ends = noID, 0, 0 }

// Do executes a command at a time, which never goes back, and adds what it does to effects.
func (l *Lock) Do(cfg *Config, c *core.Command, now Time, effects *Effects) core.Reply {
	l.expire(now)
	r := run{Lock: l, Config: cfg, now: now, effects: effects}
	switch c.Op {
	case core.Acquire:
		return r.acquire(c)
	case core.Mirror:
		return r.mirror(c)
	case core.Join:
		return r.step(noTicket, c.Ticket, noTicket, c.Lease)
	case core.Look:
		return r.step(noTicket, noTicket, c.Ticket, c.Lease)
	case core.Leave:
		return r.step(c.Ticket, c.Joins, noTicket, c.Lease)
	case core.Step:
		return r.step(noTicket, noTicket, noTicket, c.Lease)
	case core.Unmark:
		l.unmark(c.ID)
		l.tidy()
	}
	return core.Reply{}
}

// A run is one command that is executed.
type run struct {
	*Lock
	*Config
	now     Time
	effects *Effects
}

func (r *run) after(d core.Span) Time { return r.now + Time(d) }

func (r *run) acquire(c *core.Command) core.Reply {
	if r.inside(c.Ticket) { // again: that changes nothing
		return core.Reply{Found: core.Holds}
	}
	if r.Holder != noID || r.queueExists() {
		r.call()
		return r.denial()
	}
	r.effects.Granted = append(r.effects.Granted, c.Ticket)
	r.Holder, r.Owner, r.Ends = c.ID, c.Owner, r.after(c.Lease)
	return core.Reply{Found: core.Holds}
}

func (r *run) mirror(c *core.Command) core.Reply {
	if r.Holder != c.ID {
		return core.Reply{}
	}
	if r.Owner = c.Owner; c.Exact {
		r.Ends = r.after(c.Lease)
	} else {
		r.Ends = max(r.Ends, r.after(c.Lease))
	}
	a := core.Reply{Found: core.Holds}
	if c.Asks {
		a.Others = r.Queue.Len()
	}
	return a
}

// step takes leave out, adds join, looks for look, each unless it is the zero Ticket, and grants the lock if it is free.
func (r *run) step(leave, join, look core.Ticket, lease core.Span) core.Reply {
	existed := r.queueExists()
	asker, term := look, lease
	if join != noTicket {
		asker, term = join, r.Claim
	}
	left, freed := r.leave(leave)

	alone := join != noTicket && r.Queue.Len() == 0
	joined, behind := false, false
	if join != noTicket && !r.inside(join) {
		joined, behind = true, r.Queue.Len() > 0 && r.Queue.Last() != join
		r.Queue.Join(join)
	}

	held := r.Holder != noID
	if held && joined && behind && leave == noTicket {
		r.QueueEnds = r.after(r.Silence)
		a := r.denial()
		a.Found = core.Waits
		return a
	}

	speaker := leave
	if leave == noTicket {
		speaker = asker
	}
	for r.Holder == noID && len(r.Marks) > 0 {
		r.bury(r.Marks[0], speaker)
	}
	granted := r.grant(asker, term)

	first, waits := r.Queue.First()
	if held && alone { // the ticket counts as the first, also if it has the lock already
		first, waits = join, true
	}
	switch {
	case !waits:
		if existed || join != noTicket { // marks alone are kept for the lease that they are about
			r.QueueEnds = r.after(max(r.left(), 1))
		}
		if freed && r.Holder == noID {
			r.effects.Messages = append(r.effects.Messages, server.Message{Message: core.Message{Kind: core.ForeignNews}})
		}
	case asker != noTicket:
		r.QueueEnds = r.after(r.Silence)
	}
	r.tidy()

	a := core.Reply{Left: left}
	switch {
	case asker == noTicket:
	case granted:
		a.Found = core.Holds
	case r.inside(asker):
		a.Found = core.Holds
		r.Ends = max(r.Ends, r.after(term))
	default:
		a = r.denial()
		a.Left = left
		switch {
		case waits && first == asker:
			a.Found = core.First
			r.call()
			if look != noTicket && !look.Polls && r.Holder != noID {
				r.send(core.Shown, r.Holder)
			}
		case joined || r.Queue.Has(asker):
			a.Found = core.Waits
		}
	}
	return a
}

// leave takes a member out of the lock, or else out of the queue.
func (r *run) leave(t core.Ticket) (left, freed bool) {
	if t == noTicket {
		return false, false
	}
	if freed = r.Holder == t.ID; freed {
		r.free()
	} else if r.Queue.Leave(t) {
		return true, false
	}
	r.unmark(t.ID)
	return freed, freed
}

// bury drops the tickets of a client that was granted the lock out of the queue, and whose tenure ended without a release.
func (r *run) bury(mark core.ID, speaker core.Ticket) {
	r.unmark(mark)
	if speaker != noTicket && mark.Client == speaker.ID.Client {
		return
	}
	r.Queue.LeaveAll(func(t core.Ticket) bool { return t.ID.Client == mark.Client })
	r.Marks = slices.DeleteFunc(r.Marks, func(id core.ID) bool { return id.Client == mark.Client })
}

// grant grants the lock to the first ticket whose client is there. The asker learns of its grant by the reply.
func (r *run) grant(asker core.Ticket, term core.Span) (asks bool) {
	for r.Holder == noID {
		t, ok := r.Queue.First()
		if !ok {
			return false
		}
		r.Queue.Leave(t)
		asks = t == asker
		if !asks && !t.Polls && !r.Listens(t.ID.Client) {
			continue
		}
		lease := r.Claim
		if asks {
			lease = term
		}
		r.Holder, r.Owner, r.Ends = t.ID, t.Owner, r.after(lease)
		r.effects.Granted = append(r.effects.Granted, t)
		if !slices.Contains(r.Marks, t.ID) {
			r.Marks = append(r.Marks, t.ID)
		}
		if !asks {
			r.send(core.Granted, t.ID)
		}
	}
	return asks
}

func (r *run) send(kind core.MessageKind, id core.ID) {
	r.effects.Messages = append(r.effects.Messages, server.Message{Message: core.Message{Kind: kind, ID: id}})
}

// call calls the client of a holder that may linger.
func (r *run) call() {
	if r.Holder.Lingers {
		r.send(core.Called, r.Holder)
	}
}

// left returns the rest of the lease, 0 if the lock is free.
func (r *run) left() core.Span {
	if r.Holder == noID {
		return 0
	}
	return core.Span(r.Ends - r.now)
}

// denial returns the answer to a command that does not get the lock: the holder, and the rest of its lease.
func (r *run) denial() core.Reply {
	if r.Holder == noID {
		return core.Reply{}
	}
	return core.Reply{Holder: r.Holder, TTL: r.left()}
}

func (l *Lock) inside(t core.Ticket) bool {
	return l.Holder == t.ID && l.Owner == t.Owner && t.ID != noID
}

func (l *Lock) unmark(id core.ID) {
	if i := slices.Index(l.Marks, id); i >= 0 {
		l.Marks = slices.Delete(l.Marks, i, i+1)
	}
}

// tidy forgets the end of a queue that is gone.
func (l *Lock) tidy() {
	if !l.queueExists() {
		l.QueueEnds = 0
	}
}
