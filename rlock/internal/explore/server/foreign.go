package server

import (
	"math/bits"
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// What a step does for foreign clients: foreign.lua, and its parts of grant.lua.

// Windows are the times of the windows of foreign clients.
type Windows struct {
	Shortest, Longest core.Span // of a window that no foreign client uses
	LeastPart, Part   core.Span // of a window that is used: the least and the most for each process that waits
	Credit            core.Span // and the most of it for the time until it was used
	Vain, Polled      core.Span // by how much the next window is farther away than the lock was idle: after one in vain, after one of pollers
	Memory            core.Span // how long the hash is kept
	Patience          core.Span // how long an entry in the fair queue outlives the lease
	Starved, Respite  core.Span // how long readers of ours are held back, and then may begin
	Heard, Unheard    core.Span // how exactly it is noted when a client has looked, and after how long it counts as standing still
}

// RedisWindows are the times in the scripts, in milliseconds.
var RedisWindows = Windows{
	Shortest: 10, Longest: 140, LeastPart: 5, Part: 10, Credit: 64, Vain: 16, Polled: 2,
	Memory: 5000, Patience: 3000, Starved: 2000, Respite: 1000, Heard: 500, Unheard: 3000,
}

// Window is "?" in the queue: a window for foreign clients.
var Window = core.Ticket{ID: core.ID{Client: 1<<32 - 1}}

// FirstForeign is the first of the numbers of foreign clients: that of the n-th process is
// FirstForeign + n. The tenure of a thread there has its number; unlike ours it is the same each
// time.
const FirstForeign = 1 << 16

// IsForeign reports whether the owner is a foreign client.
func IsForeign(id core.ID) bool { return id.Client >= FirstForeign }

// Place is "rlock:0" in Redisson's fair queue: our entry.
var Place = core.ID{Client: FirstForeign - 1}

// Foreign is the state of foreign clients in Redis.
type Foreign struct {
	Listen Clients // the processes that are subscribed to Redisson's channel
	Ears   Clients // the clients of ours that are subscribed to it

	Fair      []core.ID // Redisson's queue of its fair lock
	PlaceEnds Time      // if Place is in it, the time until which Redisson waits for that

	Memory Memory
}

// Memory is the hash. No time in it is 0, which is for none.
type Memory struct {
	Ends    Time      // when it expires
	Began   Time      // b: when the window that is on began
	Over    Time      // e: when it ends
	Used    Time      // u: when it was first seen to be used
	Polls   bool      // p: "?" is for foreign clients that only poll
	Next    Time      // n: "?" for those that are counted is not put in the queue before
	Length  core.Span // l: of their next window, if none uses it
	Polled  Time      // q: "?" for those that only poll is not put in the queue before
	Last    Time      // t: when the last one ended
	Seen    Time      // s: when a foreign holder was last seen, in a Cluster with plain pub/sub
	FairAt  Time      // f: when the fair queue was last seen
	Holding Time      // w: since when readers of ours are held back
	Heard   Time      // h: when the first ticket or its deputy was last looked for
}

// A stay is what a step knows of foreign clients.
type stay struct {
	here  bool // there may be some: the other fields are known
	fair  bool // there is a fair queue
	waits int  // how many wait: those that listen, and the processes of the fair queue
	on    bool // it is their window
	told  bool // a message has told them that the lock is free
}

// foreignHolds reports whether a foreign client has the lock.
func (s *Server) foreignHolds() bool {
	return slices.ContainsFunc(s.Holders, func(h Holder) bool { return IsForeign(h.ID) })
}

func (s *Server) windowFirst() bool { return len(s.Queue) > 0 && s.Queue[0] == Window }

// behind returns the first ticket, which may stand behind a window.
func (s *Server) behind() (core.Ticket, bool) {
	if i := slices.IndexFunc(s.Queue, func(t core.Ticket) bool { return t != Window }); i >= 0 {
		return s.Queue[i], true
	}
	return core.Ticket{}, false
}

func (r *run) note() { r.Foreign.Memory.Ends = r.now.after(r.Windows.Memory) }

// meet counts foreign clients, and begins or ends their windows. The step may have freed the lock,
// and added a ticket to the queue.
func (r *run) meet(freed bool, added core.Ticket) {
	f, m := &r.stay, &r.Foreign.Memory
	if !r.Uncounted {
		f.waits = bits.OnesCount64(uint64(r.Foreign.Listen))
	}
	f.fair = r.Kind.fair() && len(r.Foreign.Fair) > 0
	f.here = r.polling || f.fair || f.waits > 0 || r.windowFirst() || r.foreignHolds() || r.Uncounted && m.Ends > 0
	if !f.here {
		return
	}
	if f.fair {
		f.waits += r.fairProcesses()
		if r.now.since(m.FairAt) > r.Windows.Memory/2 {
			m.FairAt = r.now
			r.note()
		}
	}
	if r.Uncounted {
		if r.foreignHolds() {
			m.Seen = r.now
			r.note()
		}
		if r.now.since(m.Seen) < r.Windows.Memory {
			f.waits = max(f.waits, 1)
		}
	}
	if m.Began > 0 && m.Used == 0 && (r.heard || r.foreignHolds()) {
		r.use()
	}
	had := false // the lock has been left free to them since their window began
	switch {
	case m.Began > 0 && !r.windowFirst(): // no ticket waited for its end, and the queue has expired
		had = !freed && len(r.Holders) == 0
		used, polls := m.Used > 0, m.Polls
		r.forget()
		switch {
		case polls:
		case used:
			m.Length = r.Windows.Shortest
			r.note()
		case f.waits > 0:
			m.Length = min(2*r.length(), r.Windows.Longest)
			r.note()
		}
	case m.Began > 0 && !r.foreignHolds() && (r.now >= m.Over || f.waits == 0 && !m.Polls):
		r.finish()
	case m.Began == 0 && r.windowFirst() && f.waits == 0 && !m.Polls: // those for whom it was to begin have left
		r.dropTurn()
	}
	f.on = r.windowFirst() && m.Began > 0
	if len(r.Queue) > 0 && !r.windowFirst() && !had && r.due() && !r.queues(Window) {
		at := len(r.Queue)
		if added != noTicket {
			at = slices.Index(r.Queue, added)
		}
		r.setTier(Window, r.tierOf(r.Queue[min(at, len(r.Queue)-1)]))
		r.Queue = slices.Insert(slices.Clone(r.Queue), at, Window)
		if f.waits == 0 {
			m.Polls = true
			r.note()
		}
	}
}

// due reports whether a window may be put in the queue: of those that are counted, if there are
// some, else of those that only poll. The two do not put off one another.
func (r *run) due() bool {
	m := &r.Foreign.Memory
	if r.stay.waits > 0 {
		return r.now >= m.Next
	}
	return r.polling && r.now >= m.Polled
}

// fairProcesses returns of how many processes the first nine of the fair queue are.
func (r *run) fairProcesses() int {
	var seen []uint32
	for _, id := range r.Foreign.Fair[:min(len(r.Foreign.Fair), 9)] {
		if id != Place && !slices.Contains(seen, id.Client) {
			seen = append(seen, id.Client)
		}
	}
	return len(seen)
}

// length returns how long the next window is that no foreign client uses.
func (r *run) length() core.Span {
	if l := r.Foreign.Memory.Length; l > 0 {
		return l
	}
	return r.Windows.Shortest
}

// begin begins a window, of foreign clients that only poll or of others.
func (r *run) begin(polls bool) {
	m := &r.Foreign.Memory
	length := r.length()
	if polls {
		length = r.Windows.Longest
	}
	m.Began, m.Over, m.Used, m.Holding = r.now, r.now.after(length), 0, 0
	r.note()
	r.callFair()
	if !r.stay.told {
		r.tell()
	}
	r.stay.on, r.stay.told = true, true
}

// use notes that a foreign client has the lock in its window, or has had it. From now the window
// lasts as long as each client of ours had since the last one, for each process that waits, less a
// quarter. If all that has passed, the window ends.
func (r *run) use() {
	m, t := &r.Foreign.Memory, r.Windows
	tickets := r.Queue[min(1, len(r.Queue)):min(65, len(r.Queue))]
	var seen []uint32
	for _, ticket := range tickets {
		if !slices.Contains(seen, ticket.ID.Client) {
			seen = append(seen, ticket.ID.Client)
		}
	}
	clients := float64(max(len(seen), 1))
	mean, processes := float64(m.Began-m.Last)/clients, float64(max(1, min(r.stay.waits, 8)))
	most := float64(t.Part) * max(float64(len(tickets))/clients, 1)
	since := float64(r.now.since(m.Began))
	part := max(float64(t.LeastPart), min(0.75*mean, most)) * processes
	if !m.Polls && mean*processes <= since {
		part, since = 0, 0
	}
	m.Used = r.now
	m.Over = r.now.after(core.Span(max(part, min(since, float64(t.Credit)))))
	r.note()
}

// finish ends the window.
func (r *run) finish() {
	m, t := &r.Foreign.Memory, r.Windows
	used, polls := m.Used, m.Polls
	if used == 0 && r.stay.waits == 0 && !polls {
		used = r.now
	}
	vain := r.now.after(t.Vain * min(r.now, m.Over).since(m.Began))
	switch {
	case polls && used > 0:
		m.Polled = r.now.after(t.Polled * used.since(m.Began))
	case polls:
		m.Polled = vain
	case used > 0:
		m.Length, m.Next = t.Shortest, r.now
	default:
		m.Length, m.Next = min(2*max(m.Over.since(m.Began), t.Shortest), t.Longest), vain
	}
	m.Last = r.now
	r.dropTurn()
	r.forget()
	r.note()
}

// forget forgets the window that was on.
func (r *run) forget() {
	m := &r.Foreign.Memory
	m.Began, m.Over, m.Used, m.Polls = 0, 0, 0, false
	if *m == (Memory{Ends: m.Ends}) {
		m.Ends = 0 // an empty hash is gone
	}
}

func (r *run) dropTurn() {
	r.Queue = without(r.Queue, func(t core.Ticket) bool { return t == Window })
}

func (r *run) hasPlace() bool { return slices.Contains(r.Foreign.Fair, Place) && r.Kind.fair() }

// takePlace puts us before the waiters of Redisson's fair lock, which then leaves the lock free for
// us and tells us of it. The entry lasts for the lease and some time, from each step that takes it
// again.
func (r *run) takePlace() {
	if !r.Kind.fair() || !r.hasPlace() && r.Foreign.Memory.FairAt == 0 {
		return
	}
	if !r.hasPlace() {
		r.Foreign.Fair = slices.Insert(slices.Clone(r.Foreign.Fair), 0, Place)
	}
	r.Foreign.PlaceEnds = r.now.after(max(r.Kind.remaining(r), 0) + r.Windows.Patience)
}

func (r *run) leavePlace() {
	if r.hasPlace() && r.stay.fair {
		r.Foreign.Fair = without(r.Foreign.Fair, func(id core.ID) bool { return id == Place })
		r.Foreign.PlaceEnds = 0
	}
}

// callFair tells the first waiter of Redisson's fair lock that the lock is free.
func (r *run) callFair() {
	r.leavePlace()
	if r.stay.fair && len(r.Foreign.Fair) > 0 {
		r.effects.Messages = append(r.effects.Messages, Message{Message: core.Message{Kind: core.ForeignNews}, Fair: r.Foreign.Fair[0]})
	}
}

// readerBehind reports whether a window is the first, and a reader of ours right behind it.
func (s *Server) readerBehind() bool {
	return len(s.Queue) > 1 && s.windowFirst() && s.Queue[1].Mode == core.Shared
}

// readTogether tells foreign clients that a writer of ours has let readers in, by their window if
// that stands before a reader of ours, and lets readers right behind the window read beside a
// foreign one.
func (r *run) readTogether(leave, asker core.Ticket, term core.Span) (token uint64, granted bool) {
	f, m := &r.stay, &r.Foreign.Memory
	if len(r.Holders) == 0 || !r.Kind.open(r, core.Shared, 0) {
		return 0, false
	}
	if f.here {
		lets := r.wrote || leave == noTicket && asker == noTicket
		if lets && !f.on && r.readerBehind() && (f.waits > 0 || m.Polls) {
			r.wrote = true
			r.begin(m.Polls)
		}
		for r.readerBehind() && r.foreignHolds() {
			if last, asks := r.grant(r.Queue[1], asker, term); asks {
				token, granted = last, true
			}
		}
	}
	if r.wrote && !f.told && (f.waits > 0 || r.Uncounted) {
		f.told = true
		r.tell()
	}
	return token, granted
}

// holdBack holds readers of ours back for a time while foreign readers keep a writer out, and then
// grants them the lock.
func (r *run) holdBack(asker core.Ticket, term core.Span) (token uint64, granted, held bool, left core.Span) {
	m, t := &r.Foreign.Memory, r.Windows
	out, waits := r.behind()
	if !r.stay.here || !waits || out.Mode == core.Shared || !r.Kind.open(r, core.Shared, 0) || !r.foreignHolds() {
		return 0, false, false, 0
	}
	if r.now.since(m.Holding) >= t.Starved+t.Respite {
		m.Holding = r.now
		r.note()
	}
	left = max(t.Starved-r.now.since(m.Holding), 0)
	if left > 0 {
		return 0, false, true, left
	}
	for _, member := range r.Queue {
		if member.Mode == core.Shared && member != Window {
			if last, asks := r.grant(member, asker, term); asks {
				token, granted = last, true
			}
		}
	}
	return token, granted, true, 0
}

// Actions of foreign clients. Some publish when they release the lock, others do not.

// ForeignEnters gives the lock to a foreign client, if it is free or, for a reader, read.
func (s *Server) ForeignEnters(t core.Ticket, lease core.Span, now Time) bool {
	s.Expire(now)
	r := run{Server: s, now: now, effects: &Effects{}}
	if !s.Kind.open(&r, t.Mode, t.More) {
		return false
	}
	s.Kind.addOwner(&r, t, lease)
	return true
}

// FairEnters is ForeignEnters of Redisson's fair lock: a lock that is free is left to the first of
// the fair queue, and one that does not get it stands there. An entry of ours that is the first and
// whose time has come goes before.
func (s *Server) FairEnters(t core.Ticket, lease core.Span, now Time) bool {
	f := &s.Foreign
	if len(f.Fair) > 0 && f.Fair[0] == Place && now >= f.PlaceEnds {
		f.Fair, f.PlaceEnds = f.Fair[1:], 0
	}
	if (len(f.Fair) == 0 || f.Fair[0] == t.ID) && s.ForeignEnters(t, lease, now) {
		f.Fair = without(f.Fair, func(id core.ID) bool { return id == t.ID })
		return true
	}
	if !slices.Contains(f.Fair, t.ID) {
		f.Fair = with(f.Fair, t.ID)
	}
	return false
}

// ForeignLeaves releases the lock of a foreign client.
func (s *Server) ForeignLeaves(id core.ID, now Time) {
	s.Expire(now)
	s.Kind.removeOwner(&run{Server: s, now: now, effects: &Effects{}}, core.Ticket{ID: id})
}
