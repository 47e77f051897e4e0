package core

import "slices"

// A call that takes the lock over joins the queue before all tickets that do not. Each holder is
// told, has the grace of the call left, and ends its hold by its own clock; an ordinary release then
// grants the lock to the first ticket, which is that of the call. A holder that does not end its
// hold is taken out by a Look, in the step that grants the lock to the ticket:
//
//	the taker's client        Redis                     the holder's client
//	Join: it stands first     the holders: h
//	Look: h is told           "t" to h                  Mirror: does a ticket take over?
//	                          yes                       its hold ends when the grace is over
//	                          the lock is the ticket's  Leave
//	or, a claim after the grace:
//	Look: h is taken out      the lock is the ticket's, "f" to h
//
// An operator may let a ticket through that waits for its turn: a script puts it first, and its call
// goes on as one that takes the lock over:
//
//	an operator               Redis                     the ticket's client
//	lets the ticket through   it stands first: ">"      Look: does it stand first?
//	                          yes, the holders: h       Look: h is told

// A Holding is a holder, as the answer to a command of a ticket that takes the lock over names it.
type Holding struct {
	ID      ID
	More    int32 // the number of permits beside the first
	Foreign bool  // a foreign client's, which cannot be told
}

// A Telling tells a holder that its hold ends, and when.
type Telling struct {
	ID   ID
	Left Span // the rest of the grace
}

// A victim is a holder that has to give way to a call.
type victim struct {
	Holding
	since Time // the time at which its grace began, or would have begun for the next attempt to take it out
	tells Time // the time from which it is told again; 0 at first
}

// A taking is what a client knows of whether its ticket takes the lock over.
type taking uint8

const (
	takesNot  taking = iota
	letGo            // a message says so, which may be untrue: a Look asks
	takesOver        // the ticket does, by its call or as Redis says
)

// hearLetThrough deals with the message that an operator lets the ticket through. The message may be
// forged: only Redis says that the ticket stands first, but the grace the message alone says.
// Otherwise whoever may publish could end a hold (AsksIfLet):
//
//	a stranger          this client                      the holder
//	">" of its ticket   Look: takes the holder out       loses the lock
func (t *Tenure) hearLetThrough(m Message, now Now) {
	if t == nil || !t.queues() || t.mode != Alone || t.answerable || t.Agent == nil {
		return
	}
	switch w, grace := t.Agent, max(m.Left, 1); {
	case t.takes != takesOver:
		t.takes, w.letBy = letGo, grace
	case grace < w.Grace:
		w.Grace, w.victims = grace, nil // they are told again
	default:
		return
	}
	t.checkSoon(uncertain, now)
	t.lock.touch(t)
}

// noteLetThrough notes the answer to a Look of a ticket that may have been let through. The operator
// means the caller that Redis names. If that caller has left, w has its ticket, and takes another
// ticket (LetsTheNamed):
//
//	two callers of a client            Redis                          an operator
//	a waits, then b                    the ticket names a
//	a leaves: b has the ticket         the ticket names a             lets a through
//	b's Look: the ticket stands first  if b took the lock over, a holder would lose it to b
func (l *Lock) noteLetThrough(w *Call, t *Tenure, first bool, now Now) {
	switch {
	case t.takes != letGo:
	case !first:
		t.takes = takesNot
	case t.old: // Redis names another caller
		l.makeGone(t, now)
	default:
		t.takes, t.since, w.Grace = takesOver, now.Time, w.letBy
	}
}

// noteHolders notes the holders that have to give way to the call, and schedules the Look that
// tells them, or takes one out. The slice of victims is a new one each time.
func (l *Lock) noteHolders(w *Call, t *Tenure, holders []Holding, now Now) {
	before := w.victims
	w.victims = nil
	for _, h := range l.inTheWay(t, before, holders) {
		i := slices.IndexFunc(before, func(v victim) bool { return v.ID == h.ID })
		v := victim{Holding: h, since: now.Time}
		switch {
		case i >= 0:
			v = before[i]
		case h.Foreign: // its grace is that of the ticket: else foreign readers that come and go would keep a writer out
			v.since, v.tells = t.since, Never
		default:
			t.look = now.Time
		}
		w.victims = append(w.victims, v)
		t.look = min(t.look, l.endsByForce(w, &v))
	}
}

// endsByForce returns when the hold of a victim is ended by force: a claim after the grace, in which
// the victim's release may arrive.
func (l *Lock) endsByForce(w *Call, v *victim) Time {
	return v.since.After(w.Grace).After(l.client.Claim)
}

// inTheWay returns the holders that keep the ticket from the lock: all, but of a semaphore only as
// many as have the permits that are missing, those first that were chosen before.
func (l *Lock) inTheWay(t *Tenure, before []victim, holders []Holding) []Holding {
	missing := 1 + t.more - l.Kind.Permits
	if l.Kind.Permits == 0 {
		return holders
	}
	rank := func(h Holding) int {
		i := slices.IndexFunc(before, func(v victim) bool { return v.ID == h.ID })
		if i < 0 {
			return len(before)
		}
		return i
	}
	holders = slices.Clone(holders)
	slices.SortStableFunc(holders, func(a, b Holding) int { return rank(a) - rank(b) })
	for _, h := range holders {
		missing += 1 + h.More
	}
	for i, h := range holders {
		if missing <= 0 {
			return holders[:i]
		}
		missing -= 1 + h.More
	}
	return holders
}

// fillTakeover fills in what a Look of a call that takes the lock over does beside looking: it tells
// holders how much of their grace is left, and takes out one whose time is up. That one is tried
// again with a later Look if it is still there.
func (t *Tenure) fillTakeover(cmd *Command, now Now) {
	w, l := t.Agent, t.lock
	victims := slices.Clone(w.victims)
	for i := range victims {
		v := &victims[i]
		switch {
		case cmd.Ends == (Holding{}) && l.endsByForce(w, v) <= now.Time:
			cmd.Ends = v.Holding
			v.since = now.Time.After(l.client.LookTime) - Time(w.Grace) - Time(l.client.Claim)
		case now.Time >= v.tells:
			v.tells = now.Time.After(l.client.LookTime)
			cmd.Tells = append(cmd.Tells, Telling{v.ID, max(v.since.After(w.Grace).Since(now.Time), 0)})
		}
	}
	w.victims = victims
}

// A yielding is what a holder knows of a ticket that takes the lock over.
type yielding uint8

const (
	yieldsNot yielding = iota
	heardOf            // a message says so, which may be untrue: a Mirror asks
	confirmed          // Redis says so: the hold ends at yields
)

// hearTakeover deals with the message that a ticket takes the lock over. The message may be forged:
// only Redis says that there is such a ticket, but how much time is left the message alone says.
func (l *Lock) hearTakeover(t *Tenure, m Message, now Now) {
	if t == nil || t != l.held {
		return
	}
	until := now.Safe.After(max(m.Left, 0))
	switch {
	case l.yielding == yieldsNot || until < l.yields:
		l.yields = until
	case l.yielding == confirmed: // it is told again, and asks anyway
		return
	}
	l.yielding = max(l.yielding, heardOf)
	t.old = true
	l.touch(t)
}

// noteTakeover notes the answer to a Mirror that asks whether a ticket takes the lock over.
func (l *Lock) noteTakeover(takes bool) {
	if l.yielding = yieldsNot; takes {
		l.yielding = confirmed
	}
	l.noteWanted(takes)
	l.touch(l.held)
}

// Yields reports whether the holders have heard that a ticket takes the lock over.
func (l *Lock) Yields() bool { return l.yielding != yieldsNot }

// yieldsAt returns the end of the holds that a takeover sets; NeverSafe for none.
func (l *Lock) yieldsAt() SafeTime {
	if l.yielding != confirmed {
		return NeverSafe
	}
	return l.yields
}
