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
	InQueue              // in the queue, unless it was granted the lock since
	Owner                // in the lock

	places = iota // the number of places
)

// A cell has the moves for one want and place. The first move that is due is sent.
type cell []move

// A move is a command with the time at which it is due, Never if it is not.
type move struct {
	op  Op
	due func(*Tenure, Now) Time
}

// table has the commands that bring the place of a tenure nearer to its want. Nothing else sends. A
// tenure in an empty cell waits for an answer, a message or a call to change its place or its want.
var table [wants][places]cell

func init() { // not a composite literal, since the times refer to the table
	leave := cell{{Leave, (*Tenure).leaves}}
	resume := move{Resume, entersBy(Resume)}
	table = [wants][places]cell{
		Gone: {
			Unsure:  leave,
			InQueue: leave,
			Owner:   leave,
		},
		Asked: {
			Out:     {{Acquire, entersBy(Acquire)}, {Join, entersBy(Join)}, resume},
			Unsure:  {resume},
			InQueue: {{Look, (*Tenure).looks}},
		},
		Held:   {Owner: {{Step, (*Tenure).opens}, {Mirror, (*Tenure).mirrors}}},
		Parted: {Owner: {{Mirror, (*Tenure).passes}, {Step, (*Tenure).opens}, {Unmark, (*Tenure).unmarks}}},
	}
}

// next returns the command that is due for the tenure now, None for none, and when to ask again:
// when the next command is due, or the tenure changes by the clock.
//
// One command is in flight at a time, with two exceptions. A Leave overtakes a command that cannot
// bring the tenure in, since the tenure is gone in the end whichever runs first. And the Mirror
// that passes the lock on overtakes another Mirror, which changes nothing if it runs later.
func (t *Tenure) next(now Now) (op Op, at Time) {
	l, at := t.lock, Never
	sent := t.flight.op
	waits := sent != None && (t.want != Gone || sent == Leave || sent.enters()) && t.within == 0
	if !waits {
		for _, m := range table[t.want][t.place] {
			if due := m.due(t, now); due < at {
				op, at = m.op, due
			}
		}
	}
	if now.Time < at {
		op = None
	}
	switch {
	case t == l.owner:
		at = min(at, l.ends(now))
	case t.want == Parted && t.within == 0 && !t.underWay():
		at = min(at, t.endsItself())
	}
	return op, at
}

// enters reports whether the command may bring a tenure to a place where it was not.
func (o Op) enters() bool { return o == Acquire || o == Resume || o == Join }

// asksLease reports whether the command asks for a lease, and so may be executed late with an
// effect.
func (o Op) asksLease() bool { return o.enters() || o == Look || o == Mirror }

// queues reports whether the tenure is a ticket that enters by the queue.
func (t *Tenure) queues() bool { return t.want == Asked && t.entry == Join }

// isOver reports whether nothing is left to do for the tenure: it is Gone and Redis does not have
// it, or it is left to its lease and no command is due before that ends.
func (t *Tenure) isOver(now Now) bool {
	switch t.want {
	case Gone:
		return t.place == Out
	case Parted:
		return t.within == 0 && !t.underWay() && (!t.step && !t.marked || now.Time >= t.endsItself())
	case Asked, Held:
		return false
	default:
		panic(t.want)
	}
}

// underWay reports whether a command of the tenure is in flight.
func (t *Tenure) underWay() bool { return t.flight.op != None }

// isMissing reports whether the ticket cannot get the lock any more.
func (t *Tenure) isMissing() bool {
	return t.place == Out || t.place == Unsure && t.entry != Resume && !t.underWay()
}

// The times at which the table's moves are due.

// leaves returns when the next Leave of a tenure that is Gone is due. The last one is sent when the
// tenure is over by the clock, since the command that brought it in may have run after the Leave
// before, and its ticket may have been granted the lock.
func (t *Tenure) leaves(Now) Time { return min(t.again, t.Ends()) }

// Ends returns when a tenure that is Gone is over whatever Redis says.
func (t *Tenure) Ends() Time {
	c := t.lock.client
	if t.place == InQueue {
		return t.since.After(c.QueueTime)
	}
	return max(t.since, t.late).After(max(c.Lease, t.trust.most))
}

// mayCome reports whether the command that brings the tenure in may run after a Leave that has not
// found the tenure.
func (t *Tenure) mayCome(f flight, a Reply) bool {
	return t.place == Unsure && !a.Settled && f.at.Time < t.late
}

// looks returns when the next Look is due.
func (t *Tenure) looks(Now) Time { return max(t.look, t.again) }

// looksNext schedules the next Look for a ticket that was just found in the queue.
func (t *Tenure) looksNext(a Reply, now Now) {
	l, c := t.lock, t.lock.client
	d := c.LookTime
	if (a.Holder != ID{} || a.Foreign) && a.TTL != NoTTL && a.TTL < d { // the holder may be dead, as the clients of earlier tickets
		d = min(d, a.TTL+c.Slack)
	}
	d = min(d, l.follow(t, a, now))
	if t.polls > 0 && l.hears != listening {
		d = min(d, c.pause(c.FirstPoll, c.LastPoll, int(t.polls)-1))
		t.polls = min(t.polls+1, doublings+1)
	}
	t.look = now.Time.After(d)
}

// mirrors returns when the next Mirror is due: at once if the last one showed other levels, else
// after a third of the lease.
func (t *Tenure) mirrors(now Now) Time {
	l, c := t.lock, t.lock.client
	if !l.isMirrored(t, now) {
		return t.again
	}
	lease, seen := t.atMost(c.Lease), t.trust.seen.Time
	if t.claim { // most sections that began with a claim are over by the end of a short one
		return max(seen.After(min(lease, t.trust.lease)/3), t.share.since.After(c.ShortSection), t.again)
	}
	return max(seen.After(max(lease/3, 1)), t.again) // the explorer's leases are few ticks
}

// opens returns when the Step is due that lets others in after a downgrade.
func (t *Tenure) opens(Now) Time {
	if t.step {
		return t.again
	}
	return Never
}

// passes returns when the Mirror is due that passes the lock on.
func (t *Tenure) passes(Now) Time {
	if t.within > 0 {
		return 0
	}
	return Never
}

// entersBy returns the time of the command by which a ticket enters. A Resume that has no answer is
// sent again, since one that has run finds its own tenure.
func entersBy(op Op) func(*Tenure, Now) Time {
	return func(t *Tenure, _ Now) Time {
		if t.entry != op {
			return Never
		}
		return t.again
	}
}

// unmarks returns when the Unmark of a Parted tenure is due.
func (t *Tenure) unmarks(Now) Time {
	if t.marked {
		return t.again
	}
	return Never
}

// endsItself returns when the lease of a Parted tenure ends.
func (t *Tenure) endsItself() Time { return t.trust.seen.Time.After(t.trust.most) }

// rests begins a pause, since a command has no answer. The pauses double.
func (t *Tenure) rests(now Now) {
	c := t.lock.client
	t.again = now.Time.After(c.pause(c.Retry, c.MaxRetry, int(t.fails)))
	t.fails = min(t.fails+1, doublings)
}

// ends returns when the hold changes by the clock.
func (l *Lock) ends(now Now) Time { return now.At(l.Ends()) }
