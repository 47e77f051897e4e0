package core

import (
	"maps"

	"github.com/go-rlock/rlock/waitqueue"
)

// For the explorer, which keeps a copy of a client for each state, and tells states apart by their
// keys. What ships calls none of this. A new field needs a place in the key, and in the copy unless
// its struct is copied as a whole; a test finds a field that was left out.

const mostLocks = 3

// An Image is the memory of a copy of a client and its locks. It may be reused.
type Image struct {
	Client Client
	Locks  [mostLocks]Lock

	tenures copies[Tenure]
	calls   copies[Call]
	gone    Tenure // the copy of each forgotten tenure: zero, so that no answer fits it
}

// copies are the copies of structs of one type. They are allocated one by one, since an explorer
// keeps many images at once, and most of them have few structs.
type copies[T any] struct {
	all []copied[T]
	n   int // the number of copies in use, which are the first
}

type copied[T any] struct{ from, to *T }

// add returns a copy of a struct.
func (s *copies[T]) add(from *T) *T {
	if s.n == len(s.all) {
		s.all = append(s.all, copied[T]{to: new(T)})
	}
	c := &s.all[s.n]
	c.from, *c.to = from, *from
	s.n++
	return c.to
}

// of returns the copy of a struct, nil if there is none.
func (s *copies[T]) of(from *T) *T {
	for i := range s.all[:s.n] {
		if s.all[i].from == from {
			return s.all[i].to
		}
	}
	return nil
}

// Copy makes the image a copy of a client and its locks.
func (y *Image) Copy(c *Client, locks ...*Lock) {
	to := &y.Client
	effects, taken, partings := to.Effects[:0], to.taken, to.partings[:0]
	y.Client = *c
	to.Effects, to.taken, to.partings = effects, taken, append(partings, to.partings...)
	y.tenures.n, y.calls.n = 0, 0
	for i, l := range locks {
		y.copyLock(l, &y.Locks[i])
	}
	if t := to.spare; t != nil {
		to.spare = y.tenures.add(t)
		*to.spare = Tenure{Tag: t.Tag, flight: t.flight}
	}
}

func (y *Image) copyLock(from, to *Lock) {
	all := to.levels.all[:0]
	*to = *from
	to.client = &y.Client
	to.levels.all = append(all, from.levels.all...)
	to.tenures, to.line = tenures{}, line{calls: from.line.calls, overdue: from.line.overdue, repeats: maps.Clone(from.line.repeats)}
	for t := from.tenures.first; t != nil; t = t.behind {
		c := y.tenures.add(t)
		c.lock, c.behind = to, nil
		to.tenures.add(c)
	}
	for w := range from.line.All {
		c := y.calls.add(w.Value)
		c.position = waitqueue.Waiter[*Call]{Value: c}
		to.line.Join(&c.position)
		c.Tenure = y.CopyOfTenure(c.Tenure)
	}
	for t := to.tenures.first; t != nil; t = t.behind {
		if c := y.CopyOfCall(t.Agent); c != nil {
			t.Agent, c.Tenure = c, t // a call of a Resume or of a release is not in the line
		}
	}
	to.held = y.CopyOfTenure(from.held)
}

// CopyOfTenure returns the copy of a tenure. All forgotten tenures but the spare one have the same
// copy.
func (y *Image) CopyOfTenure(t *Tenure) *Tenure {
	switch c := y.tenures.of(t); {
	case t == nil:
		return nil
	case c == nil:
		return &y.gone
	default:
		return c
	}
}

// CopyOfCall returns the copy of a call, which may have left the line.
func (y *Image) CopyOfCall(w *Call) *Call {
	if w == nil {
		return nil
	}
	c := y.calls.of(w)
	if c == nil {
		c = y.calls.add(w)
		c.Tenure = nil
	}
	return c
}

// CopyOfCommand makes the command name the copies of its tenures.
func (y *Image) CopyOfCommand(cmd *Command) {
	cmd.Tenure, cmd.joins = y.CopyOfTenure(cmd.Tenure), y.CopyOfTenure(cmd.joins)
}

// Names renames tenures and owners in the order in which they are seen, so that states that differ
// by names only have the same key.
type Names struct {
	Client     uint32
	ids        [24]uint64
	n          int
	Owners     [8]OwnerID
	OwnerCount int
}

// ID returns the name of a tenure: 0 for none, 1 for any tenure of another client.
func (n *Names) ID(id ID) byte {
	switch {
	case id == ID{}:
		return 0
	case id.Client != n.Client:
		return 1
	}
	for i := range n.n {
		if n.ids[i] == id.N {
			return byte(2 + i)
		}
	}
	n.ids[n.n] = id.N
	n.n++
	return byte(1 + n.n)
}

// OwnerKey returns the name of an owner: 0 for none.
func (n *Names) OwnerKey(o OwnerID) byte {
	if o == 0 {
		return 0
	}
	for i := range n.OwnerCount {
		if n.Owners[i] == o {
			return byte(i + 1)
		}
	}
	n.Owners[n.OwnerCount] = o
	n.OwnerCount++
	return byte(n.OwnerCount)
}

func bit(f bool) byte {
	if f {
		return 1
	}
	return 0
}

func bits(fs ...bool) (v byte) {
	for _, f := range fs {
		v = v<<1 | bit(f)
	}
	return v
}

// clocks encodes times relative to now.
type clocks struct{ Now }

func (c clocks) time(t Time) byte {
	if t >= Never/4 {
		return 127
	}
	return byte(int8(min(max(t-c.Time, -12), 100)))
}

// until encodes a deadline. All deadlines that have passed are the same.
func (c clocks) until(t Time) byte { return c.time(max(t, c.Time)) }

func (c clocks) safe(t SafeTime) byte {
	if t >= NeverSafe/4 {
		return 127
	}
	return byte(int8(min(max(t-c.Safe, -12), 100)))
}

// AppendClient appends the key of the client's own state, without its locks.
func (n *Names) AppendClient(b []byte, c *Client, now Now) []byte {
	for _, p := range c.partings {
		if now.Time < p.until {
			b = append(b, n.ID(ID{Client: c.ID, N: p.n}), clocks{now}.time(p.until))
		}
	}
	return append(b, 0)
}

// AppendLock appends the key of the lock's state.
func (n *Names) AppendLock(b []byte, l *Lock, now Now) []byte {
	at := clocks{now}
	b = append(b, bits(l.client.Closed(), l.foreign.heard, l.shortTurn, l.curious), byte(l.yielding), byte(l.grants)<<4|byte(l.foreign.channel), byte(len(l.levels.all)), byte(l.line.Len()), byte(l.tenures.countTenures()), byte(min(l.reserve, 255)))
	if l.grants == subscribing {
		b = append(b, at.until(l.patient))
	}
	if l.yielding != yieldsNot {
		b = append(b, at.safe(max(l.yields, now.Safe)))
	}
	if l.stays > 0 {
		b = append(b, at.until(l.stays))
	}
	if l.foreign.channel != unsubscribed {
		b = append(b, byte(l.foreign.news), bit(l.foreign.listens), at.time(l.foreign.ends), at.time(l.foreign.since))
	}
	for i := range l.levels.all {
		v := &l.levels.all[i]
		b = append(b, n.OwnerKey(v.Owner), byte(v.Mode), at.safe(v.Until), handle(v.Handle), NoteKey(v.Note), bits(v.wrote, v.Guest, v.Capped))
	}
	if len(l.levels.all) > 0 {
		b = append(b, at.safe(max(l.levels.ends, now.Safe)))
	}
	for w := range l.line.All {
		b = n.call(b, w.Value, l, at)
	}
	for t := l.tenures.first; t != nil; t = t.behind {
		b = n.tenure(b, l, t, at)
	}
	return b
}

func handle(h any) byte {
	if i, ok := h.(int); ok {
		return byte(i)
	}
	return 0
}

// NoteKey returns the length of the note's text, by which the explorer tells its notes apart; 0 for
// none.
func NoteKey(n *Note) byte {
	if n == nil {
		return 0
	}
	return byte(1 + len(n.Text))
}

func (n *Names) call(b []byte, w *Call, l *Lock, at clocks) []byte {
	b = append(b, n.OwnerKey(w.Owner), byte(w.Mode), byte(w.More), byte(w.Lease), handle(w.Handle), NoteKey(w.Note), at.time(w.Until),
		byte(w.Outcome), byte(w.tried<<4|w.tries), byte(min(w.fails, 3)), bits(w.Waits, w.Repeats, w.position.InLine(), w.Tenure != nil, w.Guest), bits(w.asleep, w.Carries, w.Answerable, w.Capped, w.admitted, w.overdue), byte(w.Most), n.ID(w.Named), byte(w.Inherits))
	if w.rest > 0 {
		b = append(b, 1+at.until(w.rest))
	} else {
		b = append(b, 0)
	}
	b = append(b, at.until(w.alarm), byte(w.Grace), byte(w.letBy))
	for i := range w.victims {
		v := &w.victims[i]
		b = append(b, 1+n.ID(v.ID), byte(v.More), at.time(v.since), at.until(v.tells))
	}
	if w.Mode == Shared {
		b = append(b, at.until(w.Began.After(l.client.ReadersTime)))
	}
	return b
}

func (n *Names) tenure(b []byte, of *Lock, t *Tenure, at clocks) []byte {
	now, holds := at.Now, of.held == t
	b = append(b, n.ID(t.ID), byte(t.want)<<4|byte(t.place), byte(t.entry)<<4|byte(t.flight.op), byte(min(t.polls, 5)), byte(t.news), byte(min(t.fails, 3)), at.until(t.again), at.until(t.late),
		bits(holds, t.mode == Shared, t.Agent != nil && t.Agent.Purpose == Releases, t.step, t.marked, t.contention.othersWait),
		byte(t.trust.least), byte(t.trust.most), byte(t.within), bits(t.claim, t.contention.handedOff), n.OwnerKey(t.shown.owner), NoteKey(t.note), bits(t.wrote, t.answerable, t.brief), byte(t.takes), byte(t.more))
	if f := &t.flight; f.op != None {
		b = append(b, at.time(f.at.Time), at.safe(f.at.Safe), byte(f.lease), byte(f.asks), bits(f.exact, f.last))
	}
	if t.tokens.reserved > 0 {
		b = append(b, byte(min(t.tokens.reserved, 255)), byte(min(t.tokens.left, 255)), bit(t.tokens.current > 0))
	}
	if t.Agent != nil {
		b = append(b, n.OwnerKey(t.Agent.Owner))
	}
	if t.want == Gone {
		return append(b, at.time(t.since))
	}
	if holds {
		b = append(b, at.until(t.alarm))
	}
	if of.client.Brief > 0 {
		b = append(b, at.time(t.since))
	}
	b = append(b, at.safe(max(t.trust.until, now.Safe)), byte(t.trust.lease), at.time(t.trust.seen.Time), at.safe(t.trust.seen.Safe), at.until(t.look),
		n.OwnerKey(t.named), byte(t.shown.writes), bits(t.shown.reads, t.old), at.safe(t.shown.until))
	if t.contention.othersWait {
		b = append(b, at.time(t.contention.since), byte(min(t.contention.handoffs, 200)))
	}
	return b
}

// Subscribes reports whether the lock needs the subscription to its grants.
func (l *Lock) Subscribes() bool { return l.grants == subscribing || l.grants == subscribed }

// IsTakenOver reports whether the client knows from Redis that a ticket takes the lock over.
func IsTakenOver(l *Lock) bool { return l.yielding == confirmed }

// Len returns the number of calls that wait.
func (l *Lock) Len() int { return l.line.Len() }

// KeepsOut reports whether the first waiter is a reader that could join the readers here.
func (l *Lock) KeepsOut(now Now) bool {
	w, t := l.line.first(), l.held
	return w != nil && w.Mode == Shared && l.isRead() && !t.contention.othersWait && t.mayBeginHold() && !l.client.closed && t.isLeaseLongEnough(now) && now.Safe < l.TrustedUntil()
}

// Current reports whether the answer to the command is awaited: by its tenure, and by the ticket
// that joins with it.
func Current(cmd *Command) (tenure, joins bool) {
	flies := func(t *Tenure, seq uint32) bool {
		return t != nil && t.OpInFlight() != None && t.flight.seq == seq
	}
	return flies(cmd.Tenure, cmd.tenureSeq), flies(cmd.joins, cmd.joinsSeq)
}

// IsSummed reports whether the summary of a lock's levels is what sum would compute now.
func IsSummed(l *Lock) bool {
	is, s := l.levels.summary, summary{asked: NeverSafe, ends: NeverSafe}
	if len(l.levels.all) > 0 {
		s.asked = 0
	}
	for i := range l.levels.all {
		v := &l.levels.all[i]
		if v.Mode == Alone {
			s.writes++
		}
		if v.Until == NeverSafe {
			s.asked = NeverSafe
			continue
		}
		if v.Capped {
			s.asked = NeverSafe
		} else {
			s.asked, s.longest = max(s.asked, v.Until), max(s.longest, v.Until)
		}
		if v.Mode == Shared || v.Capped {
			s.ends = min(s.ends, v.Until)
			if is.ends > endAskedBy(l.levels.all, v.Owner) {
				return false
			}
		}
	}
	s.ends = max(s.ends, is.ends) // a level of an owner may have ended although its hold goes on
	return is == s
}

// endAskedBy returns the end of the time for which the levels of an owner ask for the lock.
func endAskedBy(all []Level, o OwnerID) SafeTime {
	until, most := SafeTime(0), NeverSafe
	for i := range all {
		switch v := &all[i]; {
		case v.Owner != o:
		case v.Capped:
			until, most = NeverSafe, min(most, v.Until)
		default:
			until = max(until, v.Until)
		}
	}
	return min(until, most)
}
