package core

// The commands of a lock's tenures.

// A flight is the command of a tenure that has no answer yet, the latest one if a Leave has overtaken another.
type flight struct {
	op    Op
	asks  question // of a Mirror and a Resume: whether it asks for others
	exact bool     // of a Mirror: it may shorten the lease
	last  bool     // of a Leave: the tenure is over by itself by now
	seq   uint32   // of the command, over all lives of the memory
	at    Now      // when it was sent
	lease Span     // that it asks for
}

// A question is whether a command asks how many others wait.
type question uint8

const (
	asksNot question = iota
	asks
	opens // it does, since it takes the write lock away, and readers may enter
)

// The flight of a tenure changes here, and only here.

// send notes that the command is about to be sent, and returns it.
func (t *Tenure) send(op Op, now Now) Command {
	l, c := t.lock, t.lock.client
	follows, opening := t.follows(now), false
	if t.underWay() { // a Leave overtakes it, or the Mirror that passes the lock on: it may run after that
		t.late, opening = now.Time.After(c.Lease), t.flight.asks == opens
	}
	t.flight = flight{op: op, seq: t.flight.seq + 1, at: now}
	cmd := Command{Op: op, Tokens: uint64(t.tokens.reserved), Permits: int(l.Kind.Permits), Follows: follows, Tenure: t, tenureSeq: t.flight.seq}
	//exhaustive:ignore
	switch op {
	case Acquire, Resume, Look:
		t.flight.lease = c.Lease
		if w := t.Agent; w != nil && w.Lease > 0 && !w.Capped { // a look may go on without its call
			t.flight.lease = w.Lease
		}
	case Join:
		t.flight.lease = c.Claim
		l.bound(&cmd, t.Agent)
	case Mirror:
		t.mirror(&cmd, opening, now)
	case Leave:
		t.flight.last = now.Time >= t.Ends()
		cmd.Carries = t.Agent != nil && t.Agent.Carries
	case Step, Unmark: // which have no lease
	default:
		panic("core: a tenure sends a command " + op.String())
	}
	if op.enters() {
		t.entering()
		t.shown, t.old = oneLevel(t.Agent.Owner, t.mode), false
	}
	if op != Leave {
		t.asksFor(t.flight)
	}
	cmd.Lease = t.flight.lease
	cmd.Ticket = Ticket{t.ID, t.mode, t.polls > 0, t.takes, t.more, t.shown.owner}
	if op == Resume {
		cmd.Passed, t.flight.asks = t.Agent.Named, asks
	}
	cmd.Asks = t.flight.asks != asksNot
	if op == Look || op == Leave {
		cmd.Heard, l.abroad.told = l.abroad.told, false
	}
	return cmd
}

// mirror fills in the Mirror that is about to be sent: of the levels, or of a lock that is passed on. opening says that a Mirror
// which it overtakes takes the write lock away.
func (t *Tenure) mirror(cmd *Command, opening bool, now Now) {
	l, f, wrote := t.lock, &t.flight, t.shown.writes > 0
	if t.want == Parted {
		f.lease, f.exact = t.passing(), true
	} else {
		f.lease = l.wanted(now)
		f.exact = l.shortens(t, f.lease, now)
		l.showing(t, now)
	}
	switch {
	case opening || wrote && t.shown.writes == 0:
		f.asks = opens
	case f.exact, t.want != Parted && l.asksOthers(t):
		f.asks = asks
	}
	if f.asks != asksNot {
		t.share.handed = false
	}
	cmd.Writes, cmd.Reads, cmd.Exact = int(t.shown.writes), t.shown.reads, f.exact
}

// follows reports whether an earlier command of t may still run.
func (t *Tenure) follows(now Now) bool { return t.underWay() || t.late > now.Time }

// lands reports whether the answer is to the command of the tenure that is in flight, which it is not any more.
func (t *Tenure) lands(seq uint32) (f flight, ok bool) {
	if !t.underWay() || t.flight.seq != seq {
		return f, false
	}
	f = t.flight
	t.flight.op = None
	return f, true
}

// Poll returns the command that the keeper is to send for the tenure now, None for nothing, and when it is to ask again: a hold
// may end while a command is in flight. The keeper sends the command at once, and gives the result to Answer. A Poll too many
// is harmless, also of a tenure that is over or has another agent by now.
func (l *Lock) Poll(t *Tenure, now Now) (cmd Command, at Time) {
	if t.lock != l || t.Agent != nil {
		return cmd, Never
	}
	if t == l.owner {
		l.Settle(now)
	}
	if t.isOver(now) {
		l.forget(t, now)
		l.Settle(now)
		return cmd, Never
	}
	op, at := t.next(now)
	if op != None {
		cmd, at = l.send(t, op, now)
	}
	t.alarm = at
	return cmd, at
}

// Alarm returns when the keeper is to poll the tenure, as the last effect or Poll has said.
func (t *Tenure) Alarm() Time { return t.alarm }

// send returns the command that is about to be sent, with the ticket that joins by it, and when the tenure changes
// meanwhile by the clock.
func (l *Lock) send(t *Tenure, op Op, now Now) (cmd Command, at Time) {
	cmd, at = t.send(op, now), Never
	if w := l.line.first(); op == Leave && t.Agent != nil && w != nil && w.Tenure == nil && w.Waits && !l.hasOwnTicket(w) &&
		l.hears == listening && !l.client.closed && l.worthTicket(w, now) {
		next := l.asks(w, Join)
		joins := next.send(Join, now)
		cmd.joins, cmd.joinsSeq, cmd.Joins, cmd.Tokens = next, joins.tenureSeq, joins.Ticket, joins.Tokens
	}
	if t == l.owner {
		at = l.ends(now)
	}
	return cmd, at
}

// Peek returns the command that is due for the tenure now, None for none, and when it is to be looked at again. It changes
// nothing.
func (l *Lock) Peek(t *Tenure, now Now) (op Op, at Time) {
	if t.lock != l || t.isOver(now) {
		return None, Never
	}
	return t.next(now)
}
