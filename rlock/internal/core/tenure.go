package core

import "slices"

// A Tenure is the time during which this client owns the lock's key in Redis. If it has to wait, it
// is a ticket in the queue before. No other tenure has its ID.
//
// The fields want, place, trust and flight are each written in the file of that name, and nowhere
// else. A client may hold a hundred thousand tenures, so the small fields stand together: a tenure
// takes 288 bytes, a size class of Go's allocator.
type Tenure struct {
	ID           ID
	Tag          any     // the driver's data, which stays when the memory is reused
	lock         *Lock   // the lock; nil once the tenure is over
	prev, behind *Tenure // neighbours in the list of its lock

	want       Want
	entry      Op // the command by which a ticket enters: Acquire, Join or Resume
	place      Place
	mode       Mode   // the mode in which it needs the lock
	answerable bool   // a release with an answer takes the ticket out of the queue
	brief      bool   // the ticket is granted a brief claim: see trust.go
	takes      taking // whether the ticket takes the lock over: see takeover.go
	news       news
	old        bool  // Redis may show other levels than the last mirror, so that another mirror is due
	step       bool  // a step is due, which lets in others that wait after a downgrade
	wrote      bool  // a level that is closed by now sent a guarded write
	marked     bool  // the lock was granted to it out of the queue, and it may have a mark there
	claim      bool  // Redis was asked for no more than a claim: see trust.go
	touched    bool  // the deadline may have changed, and the effect Poll that recomputes it was not taken yet
	polls      uint8 // 1 + the number of looks of a ticket whose client was not subscribed; 0 for any other: see scheduleLook
	fails      uint8 // the number of commands in a row without an answer, at most doublings
	more       int32 // the number of permits that it takes beside the first

	flight     flight
	trust      trust
	Agent      *Call   // the call that sends its commands: the waiter of the ticket, or the release; nil for the keeper
	named      OwnerID // the owner in whose name the next mirror shows it, if that owner has a level then
	note       *Note   // the note in the text; nil for none
	shown      shape   // the levels that the last mirror showed, with the owner in the text
	tokens     tokens
	contention contention
	within     Span // the lease with which a Parted tenure passes the lock on; 0 once its Mirror was sent, or if there is none

	// The deadlines from which table.go computes when the next command is due.
	again Time // the time before which no command is sent
	late  Time // the time until which a command without an answer may run
	since Time // the time at which the ticket was sent to the queue, or was let through. Of a Gone tenure: the time at which it became Gone, or was granted the lock after that
	look  Time // the time of the next look for a ticket in the queue
	alarm Time // the deadline last given to the agent, which polls no later
}

// Lock returns the tenure's lock, or nil once the tenure is over.
func (t *Tenure) Lock() *Lock { return t.lock }

// newTenure returns a new tenure, in the memory of one that is over if there is one: a lock that is
// taken and freed all day would touch new memory each time. The sequence number of its flights goes
// on, so that a late answer to the former tenure does not fit.
func (l *Lock) newTenure(id ID, mode Mode) *Tenure {
	c := l.client
	t := c.spare
	if t == nil || len(c.Effects) > 0 { // an effect may still name it
		t = new(Tenure)
	} else {
		c.spare = nil
	}
	*t = Tenure{ID: id, Tag: t.Tag, lock: l, mode: mode, flight: flight{seq: t.flight.seq}}
	l.tenures.add(t)
	return t
}

// forget removes a tenure that is over. Nothing else gives the memory of a tenure back: a driver or
// a command may still point to it, and finds by the sequence number that it is another tenure.
func (l *Lock) forget(t *Tenure, now Now) {
	if t.want == Parted {
		l.client.rememberParting(t, now)
	}
	l.tenures.remove(t)
	t.lock = nil // no answer fits it any more
	l.client.spare = t
	if c := t.Agent; c != nil { // the call that was about to release it
		t.Agent = nil
		c.finish(Answered, false, KeyGone)
		l.addEffect(Effect{Kind: Wake, Call: c})
	}
	l.addEffect(Effect{Kind: Ended, Tenure: t})
	if l.grants != unsubscribed && l.Idle() {
		l.unsubscribe()
	}
}

// tenures is the list of a lock's tenures that are not over.
type tenures struct {
	first, last *Tenure
	byID        map[ID]*Tenure // the tenures by ID; nil while there are at most manyTenures
}

const manyTenures = 8

func (s *tenures) add(t *Tenure) {
	if t.prev = s.last; t.prev != nil {
		t.prev.behind = t
	} else {
		s.first = t
	}
	s.last = t
	switch {
	case s.byID != nil:
		s.byID[t.ID] = t
	case s.countTenures() > manyTenures:
		s.byID = make(map[ID]*Tenure)
		for t := s.first; t != nil; t = t.behind {
			s.byID[t.ID] = t
		}
	}
}

// countTenures returns the number of tenures, of which there are few while byID is nil.
func (s *tenures) countTenures() (n int) {
	for t := s.first; t != nil; t = t.behind {
		n++
	}
	return n
}

func (s *tenures) remove(t *Tenure) {
	if t.prev != nil {
		t.prev.behind = t.behind
	} else {
		s.first = t.behind
	}
	if t.behind != nil {
		t.behind.prev = t.prev
	} else {
		s.last = t.prev
	}
	t.prev, t.behind = nil, nil
	if s.byID != nil {
		delete(s.byID, t.ID)
		if s.first == nil {
			s.byID = nil
		}
	}
}

// Find returns the tenure with the ID, or nil if there is none or it is over.
func (l *Lock) Find(id ID) *Tenure {
	s := &l.tenures
	if s.byID != nil {
		return s.byID[id]
	}
	for t := s.first; t != nil; t = t.behind {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// tokens are the fencing tokens that a tenure has reserved, so that a hand-off inside the process
// needs no command. A lock without tokens has the zero value.
type tokens struct {
	reserved uint32 // the number of tokens that the grant reserves
	left     uint32 // the number of them that are left for later holds
	current  uint64 // the token of the current hold; 0 before the grant
}

// A tenure reserves moreTokens times as many tokens as the tenure before it used. The count belongs
// to the Lock, and so begins with one again after the lock was idle; under load it grows 16-fold
// per tenure.
const (
	moreTokens = 16
	maxTokens  = 1 << 16
)

// take sets the tokens to the n tokens that end with last.
func (t *tokens) take(last, n uint64) {
	if t.reserved > 0 && last > 0 && n > 0 && n <= maxTokens {
		*t = tokens{reserved: uint32(n), left: uint32(n - 1), current: last - n + 1}
	}
}

// takeFrom takes the tokens that a message names.
func (t *tokens) takeFrom(m Message) {
	if m.Tokens <= m.Token {
		t.take(m.Token, m.Tokens)
	}
}

// missing reports whether the tenure has no tokens although its holds need some.
func (t *tokens) missing() bool { return t.reserved > 0 && t.current == 0 }

// spent reports whether there is no token for another hold.
func (t *tokens) spent() bool { return t.reserved > 0 && t.left == 0 }

// nextHold advances to the token of the next hold.
func (t *tokens) nextHold() {
	if t.left > 0 {
		t.current, t.left = t.current+1, t.left-1
	}
}

// reserveNext returns the number of tokens that the next tenure should reserve.
func (t *tokens) reserveNext() uint32 {
	if t.current == 0 { // as for a lock without tokens
		return 1
	}
	return min(moreTokens*(t.reserved-t.left), maxTokens)
}

// A client parts with a lock by leaving it to its lease: Redis shows the lock as held until then,
// and no owner here holds it. The reason is a least hold (StayUntil), or that the lock is passed on
// to a client that presents the ID of the tenure (Pass, and Resume there).
//
// Redis shows a lock that is passed on as held by owner 0, for a fixed lease. No other Mirror of
// the tenure changes that, so a late one does not take the lock back, and no guarded write of the
// tenure finds the lock. A Resume replaces the tenure with a new one.

// A PartResult is the outcome of Pass.
type PartResult uint8

const (
	HasParted   PartResult = iota // the hold has ended, and Redis shows the lock until its lease ends
	NotAlone                      // there are other levels, or the least hold of another reader
	NothingHeld                   // the owner has no such level
)

// passedOnOwner is the owner of a tenure that was passed on. No owner of a hold is 0.
const passedOnOwner OwnerID = 0

// Pass ends the hold of the only level, and passes the lock on for the time within. A call sends
// the command: see BeginRelease. If Redis does not confirm the pass, the lock is released. A reader
// does not end the least hold of another one.
func (l *Lock) Pass(o OwnerID, m Mode, handle any, within Span, now Now) (was Level, passes *Tenure, result PartResult) {
	l.endLapsed(now)
	t, i := l.held, l.levelOf(o, m, handle)
	switch {
	case i < 0:
		return was, nil, NothingHeld
	case len(l.levels.all) > 1, l.isRead() && now.Time < l.stays:
		return was, nil, NotAlone
	}
	was = l.closeLevel(i)
	l.makeParted(within)
	l.Settle(now)
	return was, t, HasParted
}

// StayUntil sets a least hold: if the last level ends before at, by Unlock, by its own lease or by
// Close, the lock is left to a lease that ends then. The latest of several counts. A lock that
// Redis may not have any more does not stay.
func (l *Lock) StayUntil(at Time) { l.stays = max(l.stays, at) }

// BeginResume begins a call that takes a lock which was passed on. The call does not wait in the
// line, since Redis says at once whether it has the lock. While there is no answer the call asks
// again, with the same tenure, until its time is up.
func (l *Lock) BeginResume(w *Call, now Now) Outcome {
	w.Began, w.Waits = now.Time, true
	l.beginCall(w, Locks, nil)
	if l.client.closed {
		w.Outcome = Closed
		return w.Outcome
	}
	t := l.newTicket(w, Resume)
	t.contention.handoffs = int32(l.client.HandoffLimit) // no hand-offs while others wait
	if w.Inherits > 0 {                                  // the inherited token is the only one
		t.tokens = tokens{reserved: 1, current: w.Inherits}
	}
	l.Settle(now)
	return w.Outcome
}

// A tenure that this client has parted with is forgotten as soon as it needs no more commands,
// although Redis shows it until its lease ends: most locks that are passed on are resumed and
// released long before that. Its number is kept until the lease ends, so that a message that is
// late, doubled or forged does not give back a lock that another client may have by now.

// partings are the forgotten tenures that Redis may still show, sorted by number.
type partings []parting

// A parting is a forgotten tenure that Redis may still show.
type parting struct {
	n     uint64 // the number in its ID
	until Time   // the end of its lease
}

// fewPartings is the capacity that partings begin with.
const fewPartings = 8

// rememberParting adds a tenure that is about to be forgotten. When the slice is full, partings
// whose leases have ended are dropped and the rest is copied to a slice of a fitting size, so that
// a parting costs the same however many there are.
func (c *Client) rememberParting(t *Tenure, now Now) {
	until := t.leaseEndsAt()
	if until <= now.Time {
		return
	}
	s := c.partings
	if len(s) == cap(s) {
		s = slices.DeleteFunc(s, func(p parting) bool { return p.until <= now.Time })
		s = append(make(partings, 0, max(2*len(s), fewPartings)), s...)
	}
	i, _ := s.search(t.ID.N)
	c.partings = slices.Insert(s, i, parting{t.ID.N, until})
}

// hasPartedFrom reports whether the tenure was parted with and forgotten, and its lease has not
// ended.
func (c *Client) hasPartedFrom(id ID, now Now) bool {
	i, found := c.partings.search(id.N)
	return found && now.Time < c.partings[i].until
}

func (s partings) search(n uint64) (int, bool) {
	return slices.BinarySearchFunc(s, n, func(p parting, n uint64) int {
		switch {
		case p.n < n:
			return -1
		case p.n > n:
			return 1
		}
		return 0
	})
}
