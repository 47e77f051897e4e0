package server

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// A Time is a point on Redis' clock, in the unit of the spans in the commands.
type Time int64

func (t Time) after(d core.Span) Time { return t + Time(d) }
func (t Time) since(u Time) core.Span { return core.Span(t - u) }

// A Config is the constant part of a server.
type Config struct {
	Kind Kind
	// Claim is the lease of a ticket that is granted the lock, unless its client asks for more.
	Claim core.Span
	// Brief is that of a brief ticket.
	Brief core.Span
	// Silence is for how long the queue is kept without a word of its clients.
	Silence core.Span
	// Uncounted is set in a Cluster with plain pub/sub, where no node knows all subscribers.
	Uncounted bool
	Windows   Windows // of foreign clients
	// LineOf returns the line of a ticket, "" for none. It is nil if no ticket has one.
	LineOf func(t core.Ticket) string
}

// A Server is one lock in Redis, with its queue.
type Server struct {
	*Config

	Holders []Holder // in the order of the scripts; none: the lock is free
	Mode    Mode     // of a read-write lock
	Ends    Time     // when the lock's key expires

	Queue     []core.Ticket
	Tiers     []Tier    // of the members of the queue that are not in tier 0, and of former ones
	Marks     []core.ID // of the tenures that were granted the lock out of the queue, and have not released it
	QueueEnds Time      // when the queue's key expires: the queue and the marks

	Counter uint64 // the last fencing token

	Listens Clients // the clients that are subscribed to their channel of this lock
	Foreign Foreign
}

// A Holder is a field of the lock's hash, or a member of a semaphore's sorted set. A tenure that
// writes and reads is two.
type Holder struct {
	ID     core.ID
	Owner  core.OwnerID
	More   int32 // how many permits it has besides the first
	Writes bool  // of a read-write lock: the field of a writer
	Count  int
	Ends   Time // of a reader and of a permit: when its own lease ends
}

// A Mode is the field "mode" of a read-write lock.
type Mode uint8

// The modes.
const (
	NoMode Mode = iota
	Read
	Write
)

// Clients is a set of clients, whose numbers are below 64.
type Clients uint64

// Has reports whether the client is in the set.
func (c Clients) Has(client uint32) bool { return c>>client&1 == 1 }

// With and Without return the set with the client, or without it.
func (c Clients) With(client uint32) Clients    { return c | 1<<client }
func (c Clients) Without(client uint32) Clients { return c &^ (1 << client) }

// Effects are what commands have done in addition to their replies.
type Effects struct {
	Messages []Message
	Granted  []core.Ticket // the tenures that have entered the lock
	Wrote    bool          // a Leave has carried a guarded write, which was executed
}

// A Message is one that a script publishes. One of ForeignNews goes to all that listen to
// Redisson's channel, any other one to the client of its ID.
type Message struct {
	core.Message
	Readers bool    // of ForeignNews: "1", a writer has made the lock free for readers; else "0"
	Fair    core.ID // of ForeignNews: its only receiver, a waiter of Redisson's fair lock; the zero ID for all
}

// A Kind is what the scripts of one kind of lock do, in the manner of plain.lua, rw.lua and
// semaphore.lua.
type Kind interface {
	acquire(r *run, c *core.Command) core.Reply
	mirror(r *run, c *core.Command) core.Reply
	// resume puts the tenure in the place of the one that has passed the lock on, for the lease.
	resume(r *run, c *core.Command) core.Reply

	// expire removes the owners whose leases have ended, before a step, and returns their tenures.
	expire(r *run) []core.ID
	// exit takes out all that the tenure has, and reports whether there was anything.
	removeOwner(r *run, t core.Ticket) bool
	// open reports whether the lock is open to a ticket of the mode, which takes so many permits
	// besides the first.
	open(r *run, mode core.Mode, more int32) bool
	inside(r *run, t core.Ticket) bool
	addOwner(r *run, t core.Ticket, lease core.Span) (token uint64)
	// keep keeps the lock of a ticket that has it, for the lease at least.
	keepOwner(r *run, t core.Ticket, lease core.Span) (token uint64)
	// remaining returns the rest of the lease that others wait for.
	remaining(r *run) core.Span
	// ungranted tells those that may know better why a release has granted the lock to none.
	ungranted(r *run, leaver core.Ticket)
	// freed tells foreign clients that a step has left the lock free.
	freed(r *run)
	// asked returns the holders whose clients a look asks.
	asked(r *run) []Holder
	// fair reports whether Redisson's fair lock may share the lock.
	fair() bool
}

// A run is one command that is executed.
type run struct {
	*Server
	now     Time
	reserve uint64 // how many tokens a grant reserves
	polling bool   // there may be foreign clients that only poll
	heard   bool   // the client has heard a foreign release since its last step
	permits int    // of a semaphore: how many there are
	bounded bool   // of a Join: it is undone unless the lock is granted to it, or...
	most    int    // ...so many tickets at most stand in the queue
	effects *Effects

	wrote bool // the tenure that left was a writer
	stay  stay
}

// Do executes a command, and adds what it does to effects.
func (s *Server) Do(c core.Command, now Time, effects *Effects) core.Reply {
	s.Expire(now)
	r := run{Server: s, now: now, reserve: c.Tokens, polling: c.Polling, heard: c.Heard, permits: c.Permits, bounded: c.Bounded, most: c.Most, effects: effects}
	if effects.Wrote = c.Carries && r.guards(c.Ticket).Found == core.Holds; effects.Wrote {
		r.satisfies()
	}
	takes := c.Takes && (c.Op == core.Join || c.Op == core.Look)
	if c.Ticket = s.asQueued(c.Ticket); takes {
		return r.takeOver(&c)
	}
	switch c.Op {
	case core.Acquire:
		return s.Kind.acquire(&r, &c)
	case core.Resume:
		a := s.Kind.resume(&r, &c)
		if a.Found == core.Holds {
			s.unmark(c.Passed) // it has not died
		}
		return a
	case core.Mirror:
		a := s.Kind.mirror(&r, &c)
		a.Takes = c.Heeds && a.Found == core.Holds && r.isTakenOver()
		return a
	case core.Join:
		return r.step(core.Ticket{}, c.Ticket, core.Ticket{}, c.Lease)
	case core.Look:
		return r.step(core.Ticket{}, core.Ticket{}, c.Ticket, c.Lease)
	case core.Leave:
		return r.step(c.Ticket, c.Joins, core.Ticket{}, c.Lease)
	case core.Step:
		return r.step(core.Ticket{}, core.Ticket{}, core.Ticket{}, c.Lease)
	case core.Write:
		return r.guards(c.Ticket)
	case core.Unmark:
		r.unmark(c.ID)
		return core.Reply{}
	default:
		panic(c.Op)
	}
}

// Expire removes the keys whose time has come.
func (s *Server) Expire(now Time) {
	if len(s.Holders) > 0 && now >= s.Ends {
		s.free()
	}
	if s.queueExists() && now >= s.QueueEnds {
		s.Queue, s.Tiers, s.Marks, s.QueueEnds = nil, nil, nil, 0
	}
	if s.Foreign.Memory.Ends > 0 && now >= s.Foreign.Memory.Ends {
		s.Foreign.Memory = Memory{}
	}
}

// free removes the lock's key.
func (s *Server) free() { s.Holders, s.Mode, s.Ends = nil, NoMode, 0 }

// LeaseLeft returns the rest of the lease of the lock's key, 0 if it is free.
func (s *Server) LeaseLeft(now Time) core.Span {
	if len(s.Holders) == 0 {
		return 0
	}
	return s.Ends.since(now)
}

// queueExists reports whether the queue's key is there: marks count.
func (s *Server) queueExists() bool { return len(s.Queue)+len(s.Marks) > 0 }

// find returns the index of the holder with that owner's text, -1 for none.
func (s *Server) find(id core.ID, o core.OwnerID, writes bool) int {
	return slices.IndexFunc(s.Holders, func(h Holder) bool { return h.ID == id && h.Owner == o && h.Writes == writes })
}

// hasPassed reports whether the tenure was passed on: by owner 0. No Mirror but the one that says
// so changes it.
func (s *Server) hasPassed(id core.ID) bool {
	return slices.ContainsFunc(s.Holders, func(h Holder) bool { return h.ID == id && h.Owner == 0 })
}

// tokens reserves the tokens that the command asks for, and returns the last of them.
func (r *run) tokens() uint64 {
	r.Counter += r.reserve
	if r.reserve == 0 {
		return 0
	}
	return r.Counter
}

func (r *run) send(m core.Message) {
	r.effects.Messages = append(r.effects.Messages, Message{Message: m})
}

// tell tells foreign clients that the lock is free, or free for readers.
func (r *run) tell() {
	r.effects.Messages = append(r.effects.Messages, Message{Message: core.Message{Kind: core.ForeignNews}, Readers: r.wrote})
}

func (r *run) entered(t core.Ticket) { r.effects.Granted = append(r.effects.Granted, t) }

// asks asks the clients of the holders whether they know of their tenures.
func (r *run) asks() {
	for _, h := range r.Kind.asked(r) {
		if !IsForeign(h.ID) && h.Owner != 0 {
			r.send(core.Message{Kind: core.Shown, ID: h.ID, More: h.More})
		}
	}
}

// denial returns the answer to a command that does not get the lock: the holder, and the rest of
// its lease. A foreign client counts rather than one of ours, since its release tells only those
// that listen to Redisson's channel.
func (r *run) denial() core.Reply {
	if len(r.Holders) == 0 {
		return core.Reply{}
	}
	if r.foreignHolds() {
		return core.Reply{Foreign: true, TTL: r.Kind.remaining(r)}
	}
	return core.Reply{Holder: r.Holders[0].ID, TTL: r.Kind.remaining(r)}
}

// with returns the slice and one element more, without changing the array below.
func with[T any](s []T, x T) []T { return append(slices.Clip(s), x) }

// without returns the elements that are not out, without changing the array below. It returns s
// itself if none is.
func without[T any](s []T, out func(T) bool) []T {
	i := slices.IndexFunc(s, out)
	if i < 0 {
		return s
	}
	var kept []T
	kept = append(kept, s[:i]...)
	for _, x := range s[i+1:] {
		if !out(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// change returns a copy of the slice whose i-th element is x.
func change[T any](s []T, i int, x T) []T {
	s = slices.Clone(s)
	s[i] = x
	return s
}
