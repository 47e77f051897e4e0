package core

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
	call   *Call   // its agent, which sends its commands: the one for which a ticket stands, or that releases it; nil: the keeper
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

// Agent returns the call that sends the tenure's commands, nil for the keeper.
func (t *Tenure) Agent() *Call { return t.call }

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
	if c := t.call; c != nil { // it was about to release it
		t.call = nil
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

// find returns the tenure of an ID, nil if there is none.
func (s *tenures) find(id ID) *Tenure {
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
