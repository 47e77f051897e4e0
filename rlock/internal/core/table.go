package core

// A Want is what this client wants of a tenure.
type Want uint8

const (
	Gone   Want = iota // nothing: Redis must not show it
	Asked              // the lock: the tenure is a ticket, which enters by an Acquire, a Join or a Resume
	Held               // the lock, with the levels of its Lock
	Parted             // the lock until its lease ends, without a holder here: it was passed on, or has a least hold

	wants = iota // the number of wants
)

// A Place is where Redis has a tenure, as far as this client knows.
type Place uint8

const (
	Out     Place = iota // nowhere: a ticket that was not sent, or a tenure that is over
	Unsure               // anywhere; or nowhere, but the lock may be free, so that a Leave has to grant it to the first ticket
	InQueue              // the queue has the tenure, unless the tenure was granted the lock since
	Owner                // the lock has the tenure

	places = iota // the number of places
)

// table has the commands that bring the place of a tenure nearer to its want: the first that is due
// is sent, and nothing else sends. A tenure in an empty cell waits for an answer, a message or a
// call to change its place or its want.
var table = [wants][places][]Op{
	Gone:   {Unsure: {Leave}, InQueue: {Leave}, Owner: {Leave}},
	Asked:  {Out: {Acquire, Join, Resume}, Unsure: {Resume}, InQueue: {Look}},
	Held:   {Owner: {Step, Mirror}},
	Parted: {Owner: {Mirror, Step, Unmark}},
}

// nextCommand returns the command that is due for the tenure now, None for none, and when to ask
// again: when the next command is due, or the tenure changes by the clock.
//
// One command is in flight at a time, with two exceptions. A Leave overtakes a command that cannot
// bring the tenure in, since the tenure is gone in the end whichever runs first. And the Mirror
// that passes the lock on overtakes another Mirror or a Step, which changes nothing if it runs
// later.
func (t *Tenure) nextCommand(now Now) (op Op, at Time) {
	l, at := t.lock, Never
	sent := t.flight.op
	overtakes := t.within > 0 || t.want == Gone && sent != Leave && !sent.Enters()
	if sent == None || overtakes {
		for _, o := range table[t.want][t.place] {
			if due := t.due(o, now); due < at {
				op, at = o, due
			}
		}
	}
	if now.Time < at {
		op = None
	}
	switch {
	case t == l.held:
		at = min(at, now.At(l.FirstEnd()))
	case t.want == Parted && t.within == 0 && !t.underWay():
		at = min(at, t.leaseEndsAt())
	}
	return op, at
}

// due returns when a command that the table has for the tenure is due, Never if it is not.
func (t *Tenure) due(op Op, now Now) Time {
	isDue := false
	//exhaustive:ignore
	switch op {
	case Acquire, Join, Resume: // a Resume without an answer is sent again: one that has run finds its own tenure
		isDue = t.entry == op
	case Look:
		return t.lookDue()
	case Mirror:
		switch {
		case t.want == Held:
			return t.mirrorDue(now)
		case t.within > 0: // it passes the lock on
			return 0
		}
	case Leave:
		// The last one is sent when the tenure is over by the clock, since the command that brought
		// it in may have run after the Leave before, and its ticket may have been granted the lock
		// (LastLeave):
		//
		//	this client      Redis                       another client
		//	Join of t: lost  (still on its way)          has the lock
		//	Leave of t       t is not there
		//	                 Join of t: t waits
		//	                 t is granted the lock       Unlock: the lock is idle until the claim ends
		return min(t.again, t.GoneBy())
	case Step: // lets others in after a downgrade
		isDue = t.step
	case Unmark:
		// A mark says that its client was granted the lock and has not come back. If the lease ends
		// first, Redis takes the client for dead, and drops all its tickets. A client that parts
		// with the lock is alive, and takes its mark out (PartedUnmarks):
		//
		//	this client                       Redis                  another client
		//	granted the lock                  a mark of this client
		//	Unlock: the lock stays for 1 s    the lease is 1 s
		//	joins with another ticket         it waits               joins behind it
		//	                                  the lease ends         if the mark were left, it would pass that ticket
		isDue = t.marked
	default:
		panic("core: the table has a command " + op.String())
	}
	if isDue {
		return t.again
	}
	return Never
}

// Enters reports whether the command may bring a tenure to a place where it was not.
func (o Op) Enters() bool { return o == Acquire || o == Resume || o == Join }

// queues reports whether the tenure is a ticket that enters by the queue.
func (t *Tenure) queues() bool { return t.want == Asked && t.entry == Join }

// isOver reports whether nothing is left to do for the tenure: it is Gone and Out, or it is left to
// its lease and no command is due before the lease ends.
func (t *Tenure) isOver(now Now) bool {
	switch t.want {
	case Gone:
		return t.place == Out
	case Parted:
		return t.within == 0 && !t.underWay() && (!t.step && !t.marked || now.Time >= t.leaseEndsAt())
	case Asked, Held:
		return false
	default:
		panic(t.want)
	}
}

// underWay reports whether a command of the tenure is in flight.
func (t *Tenure) underWay() bool { return t.flight.op != None }

// GoneBy returns when a tenure that is Gone is over whatever Redis says.
func (t *Tenure) GoneBy() Time {
	c := t.lock.client
	if t.place == InQueue {
		return t.since.After(c.QueueTime)
	}
	return max(t.since, t.late).After(max(c.Lease, t.trust.most))
}

// lookDue returns when the next Look is due.
func (t *Tenure) lookDue() Time { return max(t.look, t.again) }

// scheduleLook schedules the next Look for a ticket that was just found in the queue.
func (t *Tenure) scheduleLook(a Reply, now Now) {
	l, c := t.lock, t.lock.client
	d := c.LookTime
	if (a.Holder != ID{} || a.Foreign) && a.TTL != NoTTL && a.TTL < d { // the holder may be dead, like the clients of earlier tickets
		d = min(d, a.TTL+c.Slack)
	}
	d = min(d, l.planForeignLook(a, now))
	if t.polls > 0 && l.grants != subscribed {
		d = min(d, c.pause(c.FirstPoll, c.LastPoll, int(t.polls)-1))
		t.polls = min(t.polls+1, doublings+1)
	}
	t.look = now.Time.After(d)
}

// mirrorDue returns when the next Mirror of a hold is due: at once if the last one showed other
// levels, else after a third of the lease.
func (t *Tenure) mirrorDue(now Now) Time {
	l, c := t.lock, t.lock.client
	if !l.isMirrored(t, now) || l.yielding == heardOf {
		return t.again
	}
	lease, seen := t.atMost(c.Lease), t.trust.seen.Time
	if t.claim { // most sections that began with a claim end within ShortSection, and need no renewal
		at := max(t.contention.since.After(c.ShortSection), t.again)
		if l.holdsBack() { // until the answer says whether others wait
			return at
		}
		return max(at, seen.After(min(lease, t.trust.lease)/3))
	}
	if l.yielding == confirmed { // the ticket may leave
		lease = min(lease, 3*c.LookTime)
	}
	return max(seen.After(max(lease/3, 1)), t.again) // the explorer's leases are few ticks
}

// leaseEndsAt returns when the lease of a Parted tenure ends.
func (t *Tenure) leaseEndsAt() Time { return t.trust.seen.Time.After(t.trust.most) }
