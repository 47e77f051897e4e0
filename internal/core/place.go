package core

// News are the messages about a tenure since the command in flight was sent, whose answer may be
// older.
type news uint8

const (
	noNews news = iota
	doubt       // something may have changed
	grant       // it has the lock
)

// The place of a tenure changes here, and only here.

// entering notes that the command is sent that may bring the tenure in.
func (t *Tenure) entering() { t.place = Unsure }

// unneeded notes that a refused attempt needs no step of its own, since its waiter's ticket joins by one.
func (t *Tenure) unneeded() { t.place = Over }

// forcedOut notes that this client has taken the tenure out of Redis by force.
func (t *Tenure) forcedOut() { t.place = Over }

// stranger returns a tenure of this client that was granted the lock, and that no waiter knows of.
func (l *Lock) stranger(id ID) *Tenure {
	t := l.newTenure(id, Alone)
	t.place = Owner
	return t
}

// answered notes what the answer to the flight says.
func (t *Tenure) answered(f flight, a Reply, now Now) {
	c, fails := t.lock.client, t.fails
	t.fails, t.again = 0, 0
	switch {
	case f.op == Step:
		t.step = false
	case f.op == Unmark:
		t.marked = false
	case f.op == Leave && t.news == grant && !c.breaks(LeaveAgain): // it may be granted since, by a command that ran late
		t.news = noNews
		t.place = Owner
	case f.op == Leave && !a.Left && t.mayCome(f, a):
		t.fails = fails // it is tried again for a lease, and less and less often
		t.failed(f, Unknown, now)
	case f.op == Leave:
		t.place = Over
	case a.Found == Holds:
		t.place = Owner
		t.believe(f, now)
		if a.Token > 0 {
			t.tokens.take(a.Token, uint64(t.tokens.reserved))
		}
		t.marked = t.marked || f.op != Acquire && f.op != Resume && f.op != Mirror
		switch f.op {
		case Look:
			t.turn.heardOf(1, now) // it was freed for others
		case Resume:
			t.turn.heardOf(a.Others, now)
		}
		if t.isTicket() && !t.worthHolding(f, now) && !(c.breaks(KeepLate) && f.op != Join) {
			t.place = InQueue      // a Look finds that it has the lock, for longer
			if t.want == Resumed { // another Resume does
				t.place = Unsure
			}
			t.look = now.Time
		}
	case a.Found == Waits || a.Found == First:
		t.place = InQueue
		t.found(f, a, now)
	case f.op == Acquire && a.Holder == (ID{}) && !a.Foreign, f.op == Mirror:
		t.place = Refused // a step takes the mark of a tenure that is lost, and grants the lock to the next ticket
	default:
		t.place = Over
	}
}

// found notes that the ticket stands in the queue.
func (t *Tenure) found(f flight, a Reply, now Now) {
	c := t.lock.client
	t.sawInQueue(f)
	t.looksNext(a, now)
	was := t.news
	t.news = noNews
	switch {
	case was == grant: // a ticket is granted once, so that was after the command found it in the queue
		t.granted(Message{}, now)
	case was == doubt && !c.breaks(Remember):
		t.look = now.Time
	}
}

// failed notes that the command has no answer, or was not executed.
func (t *Tenure) failed(f flight, fault Fault, now Now) {
	c, behind := t.lock.client, fault == Behind
	if behind {
		fault = Unknown
	}
	if fault == Unknown && f.op.asksLease() {
		t.late = now.Time.After(c.Lease)
	}
	switch {
	case f.op == Leave && (f.last || fault == Fatal):
		t.place = Over
	case f.op == Step:
		t.step = false // those that wait look by themselves
	case f.op == Resume && fault != Unknown: // it is sent again, and one that was sent before may run yet
	case f.op.enters() && fault != Unknown:
		t.place = Over
	case f.op == Join && c.breaks(JoinOnce):
		t.place = Unsent
	case f.op.enters():
	case f.op == Mirror && fault == Fatal:
		t.place = Over // another key is in its place
	case f.op == Mirror:
		t.unsure()
	}
	if behind || t.want == Gone && f.op != Leave {
		return // Redis has not failed, or its release does not wait: it is another command
	}
	t.rests(now)
}

// granted notes that a message has come: the ticket has the lock.
//
// The message does not say when the lease began. But it began after the ticket was last found in the queue, and that was
// after the command was sent that found it: so the claim is counted from then. For this to be sound no ticket may come
// into the queue twice.
func (t *Tenure) granted(m Message, now Now) {
	switch {
	case t.want == Gone:
		t.place, t.since = Owner, now.Time
		t.again, t.fails = 0, 0 // its release decides again whose the lock is
		if t.underWay() {       // the Leave may have run already
			t.news = grant
		}
	case t.want != Queued:
	case t.underWay():
		if !t.lock.client.breaks(Remember) {
			t.news = grant
			t.tokens.heard(m)
		}
	case t.place == InQueue:
		t.tokens.heard(m)
		if !t.believeGrant(now) {
			t.look = now.Time
			return
		}
		t.place, t.marked = Owner, true
		t.turn.heardOf(1, now)
	}
}

// doubted schedules a check of the tenure, another one if a command is in flight.
func (t *Tenure) doubted(now Now) {
	switch t.want {
	case Queued:
		if t.underWay() {
			t.news = max(t.news, doubt)
		} else {
			t.look = now.Time
		}
	case Held, Kept:
		t.unshown()
	}
}
