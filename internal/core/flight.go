package core

// A flight is the command of a tenure that has no answer yet, the latest one if a Leave has overtaken another.
type flight struct {
	op    Op
	asks  bool   // of a Mirror: it asks for others
	opens bool   // of a Mirror: it takes the write lock away, and readers may enter
	last  bool   // of a Leave: the tenure is over by itself by now
	seq   uint32 // of the command, over all lives of the memory
	at    Now    // when it was sent
	lease Span   // that it asks for
}

// The flight of a tenure changes here, and only here.

// send notes that the command is about to be sent, and returns it.
func (t *Tenure) send(op Op, now Now) Command {
	l, c := t.lock, t.lock.client
	follows, opening := t.follows(now), false
	if t.flight.op != None { // a Leave overtakes it, or the Mirror that passes the lock on: it may run after that
		t.late, opening = now.Time.After(c.Lease), t.flight.opens
	}
	t.flight = flight{op: op, seq: t.flight.seq + 1, at: now}
	cmd := Command{Op: op, Tokens: uint64(t.tokens.reserved), Permits: l.Kind.Permits, Follows: follows, tenure: t, tenureSeq: t.flight.seq}
	switch op {
	case Acquire, Resume, Look:
		t.flight.lease = c.Lease
		if w := t.waiter; w != nil && w.Lease > 0 {
			t.flight.lease = w.Lease
		}
	case Join:
		t.flight.lease = c.Claim
		if c.breaks(JoinClaims) {
			t.flight.lease = c.Lease
		}
	case Mirror:
		wrote := t.shown.writes > 0
		if t.want == Parted {
			t.flight.lease = t.passing()
		} else {
			t.flight.lease = l.wanted(now)
			l.showing(t, now)
		}
		t.flight.opens = opening || wrote && t.shown.writes == 0
		t.flight.asks = t.flight.opens || t.want != Parted && l.asksOthers(t)
		t.told = t.shown.owner
		if t.flight.asks {
			t.turn.handed = false
		}
		cmd.Writes, cmd.Reads = int(t.shown.writes), t.shown.reads
		cmd.Asks = t.flight.asks
	case Leave:
		t.flight.last = now.Time >= t.ends()
	}
	if op.enters() {
		t.entering()
		t.told, t.shown = t.waiter.Owner, oneLevel(t.waiter.Owner, t.mode)
	}
	if op != Leave {
		t.asksFor(op, t.flight.lease, now)
	}
	cmd.Lease = t.flight.lease
	cmd.Ticket = Ticket{t.ID, t.mode, t.polls, t.told}
	if op == Resume {
		cmd.Passed = t.waiter.Passed
	}
	if op == Look || op == Leave {
		cmd.Heard = l.abroad.tell()
	}
	return cmd
}

// follows reports whether a command about the tenure may be executed yet.
func (t *Tenure) follows(now Now) bool {
	return t.flight.op != None || t.late > now.Time || t.trust.least > 0
}

// lands reports whether the answer is to the command of the tenure that is in flight, which it is not any more.
func (t *Tenure) lands(seq uint32) (f flight, ok bool) {
	if t.flight.op == None || t.flight.seq != seq {
		return f, false
	}
	f = t.flight
	t.flight.op = None
	return f, true
}
