package core

// news is what messages have said of a tenure since its command in flight was sent: the answer to
// the command may be older than the messages.
type news uint8

const (
	noNews    news = iota
	uncertain      // something may have changed
	grant          // the tenure has the lock
	removal        // the tenure may have been taken out of Redis by force
)

// The place of a tenure changes here, and only here.

// setPlace changes the place.
func (t *Tenure) setPlace(to Place) {
	was, told := t.place, t.lock.client.Changed
	if t.place = to; was != to && told != nil {
		told(t, t.want, was)
	}
}

// noteTakenOut notes that a command that is not the tenure's own has taken it out of Redis.
func (t *Tenure) noteTakenOut() { t.setPlace(Out) }

// strayTenure returns a tenure of this client that was granted the lock although no waiter knows
// it.
func (l *Lock) strayTenure(m Message) *Tenure {
	t := l.newTenure(m.ID, Alone)
	t.more = m.More
	t.setPlace(Owner)
	return t
}

// noteAnswer notes what the answer to the flight says. The table of answers has the place.
func (t *Tenure) noteAnswer(f flight, a Reply, now Now) {
	v := t.verdict(f, a)
	if to := answers[f.op][v]; to != asItWas {
		t.setPlace(Place(to - toOut))
	}
	switch v {
	case notRun, unknown, fatal:
		t.noteFailure(f, v, a.Fault.isCallers(), now)
		return
	case hasLock:
		t.noteOwner(f, a, now)
	case inQueue:
		t.noteInQueue(f, a, now)
	case wasGranted:
		t.news = noNews
	case executed: // a Step, an Unmark, or an Acquire of a free lock with a queue
		t.step, t.marked = t.step && f.op != Step, t.marked && f.op != Unmark
	case nowhere:
		t.lock.shortTurn = t.lock.shortTurn && f.op != Look // Redis has dropped the ticket, since this client was late or was not heard
	case hasLeft, absent: // the place already records this
	default:
		panic(v)
	}
	t.fails, t.again = 0, 0
}

// noteOwner notes that Redis shows the tenure in the lock.
func (t *Tenure) noteOwner(f flight, a Reply, now Now) {
	t.believe(f, now)
	if t.news == removal && f.op != Mirror { // the answer may be older: a Mirror finds out
		t.old = true
	}
	t.news = noNews
	if a.Token > 0 {
		t.tokens.take(a.Token, uint64(t.tokens.reserved))
	}
	//exhaustive:ignore
	switch f.op {
	case Look:
		t.marked = true
		t.contention.noteOthers(1, now) // Redis has granted the lock by the queue, where others may wait
	case Join:
		t.marked = true
	case Resume:
		t.contention.noteOthers(a.Others, now)
	case Acquire, Mirror: // an Acquire found no queue; answerTenure takes the others from the answer to a Mirror
	default:
		panic("core: a tenure has the lock by a command " + f.op.String())
	}
	if t.want == Asked && (now.Safe >= t.trust.until || f.op == Join && !t.isClaimLongEnough(now)) {
		// The grant comes too late to be believed. It may be true nevertheless.
		t.look = now.Time
		if t.entry == Resume {
			t.setPlace(Unsure) // the next Resume finds that the tenure has the lock, with a lease of its own
		} else {
			t.setPlace(InQueue) // a Look finds that the tenure has the lock
		}
	}
}

// noteInQueue notes that the ticket stands in the queue.
func (t *Tenure) noteInQueue(f flight, a Reply, now Now) {
	t.noteSeenInQueue(f)
	t.scheduleLook(a, now)
	was := t.news
	t.news = noNews
	switch {
	case was == grant: // a ticket is granted once: the message is newer than the answer
		t.noteGrant(Message{}, now)
	case was != noNews:
		t.look = now.Time
	}
}

// noteFailure notes that the command has no answer, or was not executed. If behind, the caller has
// left it or it was skipped, and Redis has not failed.
func (t *Tenure) noteFailure(f flight, v verdict, behind bool, now Now) {
	c := t.lock.client
	if v == unknown && (f.op.Enters() || f.op == Look || f.op == Mirror) { // it may run late with an effect
		t.late = now.Time.After(c.Lease)
	}
	switch {
	case f.op == Leave && f.last:
		t.setPlace(Out)
	case f.op == Step:
		t.step = false // the others look by themselves
	case f.op == Mirror && v != fatal:
		t.doubtMirror()
	}
	if behind || t.want == Gone && f.op != Leave {
		return // Redis has not failed, or the next command is the release, which need not pause
	}
	t.again = now.Time.After(c.pause(c.Retry, c.MaxRetry, int(t.fails)))
	t.fails = min(t.fails+1, doublings)
}

// noteGrant deals with the message that the ticket has the lock.
//
// The message does not say when the lease began. But that was after a command found the ticket in
// the queue, and so after that command was sent: the claim is counted from then. This is sound
// since no ticket comes into the queue twice.
func (t *Tenure) noteGrant(m Message, now Now) {
	switch {
	case t.want == Gone:
		t.setPlace(Owner)
		t.since = now.Time
		t.again, t.fails = 0, 0 // the release decides again who gets the lock: see decides
		if t.underWay() {       // the Leave may have run already
			t.news = grant
		}
	case !t.queues():
	case t.underWay():
		t.news = max(t.news, grant)
		t.tokens.takeFrom(m)
	case t.place == InQueue:
		t.tokens.takeFrom(m)
		if !t.believeGrant(now) {
			t.look = now.Time
			return
		}
		t.setPlace(Owner)
		t.marked = true
		t.contention.noteOthers(1, now)
	}
}

// checkSoon schedules a check of the tenure for the news, after the answer if a command is in
// flight.
func (t *Tenure) checkSoon(n news, now Now) {
	switch {
	case t.want == Held:
		t.old = true
	case t.want != Asked:
	case t.underWay():
		t.news = max(t.news, n)
	case t.place == InQueue:
		t.look = now.Time
	}
}
