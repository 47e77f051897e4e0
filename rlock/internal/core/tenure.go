package core

import "slices"

// A Tenure is the time during which this client owns the lock's key in Redis. Before, it is a ticket in the queue, if it
// has to wait. It is known by its ID, which no other tenure has.
//
// Its want, place, trust and flight are each written in the file of that name. A client may hold a hundred thousand of them,
// so the small fields stand together: a tenure is 288 bytes large, a size of Go's allocator.
type Tenure struct {
	ID           ID
	Tag          any     // the driver's; it stays when the memory is used again
	lock         *Lock   // nil once it is over
	prev, behind *Tenure // in the list of its lock

	want    Want
	entry   Op // of a ticket: Acquire, Join or Resume
	place   Place
	mode    Mode // in which it needs the lock
	takes   bool // a release with an answer takes the ticket out of the queue
	news    news
	old     bool  // Redis may show something else than what it was told last
	step    bool  // Held, Parted: a downgrade is to let in others that wait
	wrote   bool  // a level that has closed has sent a guarded write
	marked  bool  // it was granted the lock out of the queue, and may have a mark there
	claim   bool  // Owner: Redis was asked for no more than a claim. See trust.go
	touched bool  // its time may have changed: an effect Poll of it is not taken yet
	polls   uint8 // of a ticket whose client had not subscribed when it was made: one more than its looks; else 0. See looksNext
	fails   uint8 // commands in a row without an answer, doublings at most
	more    int32 // how many permits it takes beside the first

	flight flight
	trust  trust
	Agent  *Call   // which sends its commands: the one for which a ticket stands, or that releases it; nil: the keeper
	named  OwnerID // Held: in whose name the next mirror shows it, if that has a level then
	shown  shape   // what Redis was told last, with the owner in its text
	tokens tokens
	share  share
	within Span // Parted: the lease for which the lock is to be passed on; 0 once that Mirror was sent, or for none

	// When the next command may be sent, see table.go.
	again Time // until then nothing is sent for it
	late  Time // an unanswered command may still run until then
	since Time // Gone: since when
	look  Time // InQueue: when it is looked for
	alarm Time // when its agent was told to poll it: no later than that it does
}

// Lock returns the tenure's lock, nil once it is over.
func (t *Tenure) Lock() *Lock { return t.lock }

// changed tells [Client.Changed] of another want or place, with what they were.
func (t *Tenure) changed(want Want, place Place) {
	if told := t.lock.client.Changed; told != nil {
		told(t, want, place)
	}
}

// newTenure returns a tenure in the memory of one that is over, if there is one: a lock that is taken and freed all day
// would touch new memory each time. Its sequence of commands goes on, so that an answer to its former life is not taken
// for one to this.
func (l *Lock) newTenure(id ID, mode Mode) *Tenure {
	c := l.client
	t := c.spare
	if t == nil || len(c.Effects) > 0 { // which may name it
		t = new(Tenure)
	} else {
		c.spare = nil
	}
	*t = Tenure{ID: id, Tag: t.Tag, lock: l, mode: mode, flight: flight{seq: t.flight.seq}}
	l.tenures.add(t)
	return t
}

// forget ends a tenure that is over. It is the only place where memory is given back: what a driver or a command
// still points to is told apart by its sequence number.
func (l *Lock) forget(t *Tenure, now Now) {
	if t.want == Parted {
		l.client.partsFrom(t, now)
	}
	l.tenures.remove(t)
	t.lock = nil // no answer fits it any more
	l.client.spare = t
	if c := t.Agent; c != nil { // it was about to release it
		t.Agent = nil
		c.done(Answered, false, KeyGone)
		l.tell(Effect{Kind: Wake, Call: c})
	}
	l.tell(Effect{Kind: Ended, Tenure: t})
	if l.hears != deaf {
		l.quiet()
	}
}

// tenures are those of a lock that are not over.
type tenures struct {
	first, last *Tenure
	len         int
	byID        map[ID]*Tenure // while they are many
}

const manyTenures = 8

func (s *tenures) add(t *Tenure) {
	if t.prev = s.last; t.prev != nil {
		t.prev.behind = t
	} else {
		s.first = t
	}
	s.last = t
	s.len++
	switch {
	case s.byID != nil:
		s.byID[t.ID] = t
	case s.len > manyTenures:
		s.byID = make(map[ID]*Tenure)
		for t := s.first; t != nil; t = t.behind {
			s.byID[t.ID] = t
		}
	}
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
	s.len--
	if s.byID != nil {
		delete(s.byID, t.ID)
		if s.len == 0 {
			s.byID = nil
		}
	}
}

// Find returns the tenure of an ID that is not over, nil if there is none.
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

// tokens are the fencing tokens that a tenure has reserved, so that hand-offs inside the process ask for none. Their zero
// value is a lock without tokens.
type tokens struct {
	reserved uint32 // how many a grant reserves
	left     uint32 // how many of them are for later holds
	current  uint64 // of the hold that goes on, 0 before the grant
}

// A tenure reserves moreTokens times as many tokens as the one before it has used. The count is per Lock, and so resets to one
// when the lock becomes idle; under load it grows 16-fold per tenure.
const (
	moreTokens = 16
	maxTokens  = 1 << 16
)

// take begins with the first of n tokens, which end with last.
func (t *tokens) take(last, n uint64) {
	if t.reserved > 0 && last > 0 && n > 0 && n <= maxTokens {
		*t = tokens{reserved: uint32(n), left: uint32(n - 1), current: last - n + 1}
	}
}

// heard notes the tokens that a message has named.
func (t *tokens) heard(m Message) {
	if m.Tokens <= m.Token {
		t.take(m.Token, m.Tokens)
	}
}

// missing reports whether the tenure has no tokens though its holds need some.
func (t *tokens) missing() bool { return t.reserved > 0 && t.current == 0 }

// spent reports whether there is no token for another hold.
func (t *tokens) spent() bool { return t.reserved > 0 && t.left == 0 }

// passOn goes on to the token of the next hold.
func (t *tokens) passOn() {
	if t.left > 0 {
		t.current, t.left = t.current+1, t.left-1
	}
}

// next returns how many tokens the tenure after this one should reserve.
func (t *tokens) next() uint32 {
	if t.current == 0 { // also of a lock without tokens
		return 1
	}
	return min(moreTokens*(t.reserved-t.left), maxTokens)
}

// How this client parts with a lock: Redis shows it until a lease ends, and no owner here holds it. It is left for the rest of a
// time (StayUntil), or to a client that presents the name of its tenure (Pass, and Resume there).
//
// A lock that is passed on goes to a client that presents the name of its tenure. Redis shows it as held by owner 0, for a
// fixed lease, and no other Mirror of its tenure changes that: so one that is late does not take the lock back. Nor does a
// guarded write of the tenure find it. A Resume puts a new tenure in its place.

// A PartResult is the outcome of Pass.
type PartResult uint8

const (
	HasParted   PartResult = iota // no owner here holds the lock any more, and Redis shows it until its lease ends
	NotAlone                      // there are other levels
	NothingHeld                   // there is no such level
)

// passedOn is the owner of a tenure that was passed on. No owner of a hold is 0.
const passedOn OwnerID = 0

// Pass ends the hold of the only level, and passes the lock on for so long. A call sends the command: see Release. Unless
// Redis has passed the lock on it is released.
func (l *Lock) Pass(o OwnerID, m Mode, handle any, within Span, now Now) (was Level, passes *Tenure, result PartResult) {
	l.lapse(now)
	t, i := l.owner, l.levelOf(o, m, handle)
	switch {
	case t == nil || i < 0:
		return was, nil, NothingHeld
	case len(l.levels.all) > 1:
		return was, nil, NotAlone
	}
	was = l.close(i)
	l.leaveToLease(within)
	l.Settle(now)
	return was, t, HasParted
}

// leaveToLease parts with the owner, which has no level, for that lease.
func (l *Lock) leaveToLease(within Span) {
	t := l.owner
	l.owner = nil
	t.parts(within)
	l.touch(t)
}

// StayUntil makes the lock stay until then, or later, when its last level is closed: for a hold that lasts for a time at least.
// A lost lock does not stay.
func (l *Lock) StayUntil(at Time) { l.stays = max(l.stays, at) }

// passing notes that the Mirror is about to be sent that passes the lock on, and returns its lease.
func (t *Tenure) passing() (lease Span) {
	lease, t.within = t.within, 0
	t.shown, t.old = oneLevel(passedOn, t.mode), false
	return lease
}

// Resume begins a call that takes a lock which was passed on. It does not wait in the line: Redis says at once whether the
// lock is its. Without an answer it asks again, with the same tenure, until the time of the waiter is up.
func (l *Lock) Resume(w *Call, now Now) Outcome {
	w.Began, w.Waits = now.Time, true
	l.begins(w, Locks, nil)
	if l.client.closed {
		w.Outcome = Closed
		return w.Outcome
	}
	t := l.asks(w, Resume)
	t.share.spent(l.client)
	if w.Inherits > 0 { // it has no tokens for other holds
		t.tokens = tokens{reserved: 1, current: w.Inherits}
	}
	l.Settle(now)
	return w.Outcome
}

// A tenure that this client has parted with is forgotten as soon as it needs no command any more, though Redis shows it until
// its lease ends: most locks that were passed on are resumed and released long before. Then only its number is known, so that
// a message which is late, doubled or forged does not give the lock back that another client may have by now.

// partings are the tenures of a client that were parted with and forgotten, in the order of their numbers.
type partings []parting

// A parting is a tenure that Redis may show until then.
type parting struct {
	n     uint64 // of its ID
	until Time
}

// fewPartings is for how many there is room at first.
const fewPartings = 8

// partsFrom notes that the tenure is about to be forgotten. Those whose leases have ended are dropped when there is no room,
// and so is the memory of many: a parting costs the same however many there are.
func (c *Client) partsFrom(t *Tenure, now Now) {
	until := t.endsItself()
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

// hasPartedFrom reports whether the tenure was parted with and forgotten, and its lease has not ended.
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
