package core

// A hearing is whether this client hears the messages of a channel.
type hearing uint8

const (
	deaf      hearing = iota // it does not listen
	asking                   // it subscribes
	listening                // it hears them
	refused                  // it cannot hear them
)

// A Lock is one lock as one client knows it: its owners here, its waiters here, and the tenures.
// Its methods are the events of the lock, and the caller serializes those of one [Client]. After
// each it takes [Client.Effects].
type Lock struct {
	Kind Kind
	Tag  any // the driver's

	client  *Client
	levels  levels
	line    line
	owner   *Tenure // that is Held or Kept, nil for none
	tenures tenures // all that are not over, with the owner

	hears   hearing // whether this client is told of grants
	patient Time    // asking: until when to wait for the answer
	abroad  abroad  // the state of foreign clients
	reserve uint64  // how many fencing tokens the next tenure reserves; 0: one
}

// NewLock returns a lock without holder and waiter.
func (c *Client) NewLock(k Kind) *Lock {
	l := &Lock{}
	l.Reset(c, k)
	return l
}

// Reset makes a lock without holder and waiter in the memory of one that is idle.
func (l *Lock) Reset(c *Client, k Kind) {
	*l = Lock{Kind: k, Tag: l.Tag, client: c, levels: noLevels(l.levels.all)}
}

// Idle reports whether nothing is left of the lock, so that the client may forget it.
func (l *Lock) Idle() bool { return l.tenures.len == 0 && l.line.len == 0 }

// Lock begins a call. Unless its outcome is known at once the call waits: its goroutine polls its ticket and calls Tick,
// until it is woken or calls Cancel.
func (l *Lock) Lock(w *Waiter, now Now) Outcome {
	if !l.Nest(w, now) && l.AtOnce(w, now) == Waiting {
		l.Wait(w, now)
	}
	return w.outcome
}

// Nest, AtOnce and Wait are the parts of Lock, for a driver: only Wait keeps the waiter, so that a call that is served at
// once needs no memory.

// Nest gives the call a level if its owner holds the lock already, and reports whether it does.
func (l *Lock) Nest(w *Waiter, now Now) bool {
	w.began = now.Time
	if l.current(now) == nil || !l.heldBy(w.Owner) || l.isRead() && w.Mode == Alone {
		return false
	}
	l.nest(w, ByNesting, now)
	return true
}

// AtOnce serves a call that did not nest a moment ago, and need not wait, or is not to. It returns Waiting for another one.
func (l *Lock) AtOnce(w *Waiter, now Now) Outcome {
	w.outcome = Waiting
	switch {
	case l.heldBy(w.Owner):
		w.outcome = Upgrades
	case l.client.closed:
		w.outcome = Closed
	case l.mayReuse(w, now):
		l.begin(l.owner, w, ByLinger, now)
	case l.mayJoin(w, now):
		l.nest(w, ByJoining, now)
	case !w.Waits && (l.isHeld() || l.line.len > 0):
		w.outcome = Denied
	}
	return w.outcome
}

// Wait puts a call into the line that was not served at once.
func (l *Lock) Wait(w *Waiter, now Now) {
	if o := l.owner; o != nil && o.want == Kept {
		l.give(o, now)
	}
	w.attempts = 1
	l.line.join(w)
	if l.Kind.Strict {
		l.seekFor(w, now)
	}
	l.settle(now)
}

// nest gives the call a level beside those that there are.
func (l *Lock) nest(w *Waiter, way Way, now Now) {
	l.open(w, way, now)
	l.changed(now)
}

// Cancel ends a call whose caller has left, with Cancelled or Closed. If it was granted the lock meanwhile its level is
// given back as by Unlock, so that a caller that has left never holds it: see there.
func (l *Lock) Cancel(w *Waiter, o Outcome, now Now) (releases *Tenure) {
	switch w.outcome {
	case Waiting:
		l.leave(w, o, now)
		l.settle(now)
	case Acquired:
		w.outcome = o
		_, releases, _ = l.Unlock(w.Owner, w.Mode, w.Handle, now)
	}
	return releases
}

// Unlock closes the level of a handle, or the owner's innermost level of the mode, and returns it. If that takes a command
// it returns the tenure: the caller polls it, sends the command, and waits for the effect Released.
func (l *Lock) Unlock(o OwnerID, m Mode, handle any, now Now) (was Level, releases *Tenure, ok bool) {
	t := l.current(now)
	i := -1
	if t != nil {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		return was, nil, false
	}
	was = l.close(i)
	switch {
	case l.isHeld():
		if l.isRead() && was.Mode == Alone {
			t.mode = Shared
			l.admitReaders(t.isOpen(), now)
		}
		l.changed(now)
	case l.vacated(now):
	default:
		t.releases = true
		l.give(t, now)
		releases = t
	}
	l.settle(now)
	return was, releases, true
}

// SetLease gives a level a lease from now on, 0 for one that is renewed until its Unlock.
func (l *Lock) SetLease(o OwnerID, m Mode, handle any, lease Span, now Now) bool {
	t, i := l.current(now), l.levelOf(o, m, handle)
	if t == nil || i < 0 {
		return false
	}
	l.let(i, lease, now)
	l.changed(now)
	l.settle(now)
	return true
}

// Poll returns the command that is to be sent for the tenure now, None for nothing, and when it is to be called again: a
// hold may end while a command is in flight. The caller sends the command at once, and gives what becomes of it to Answer.
// A Poll too many is harmless, also for a tenure that is over.
func (l *Lock) Poll(t *Tenure, now Now) (cmd Command, at Time) {
	if t.lock != l || !l.tenures.has(t) {
		return cmd, Never
	}
	cmd, at = l.poll(t, now)
	t.alarm = at
	return cmd, at
}

func (l *Lock) poll(t *Tenure, now Now) (cmd Command, at Time) {
	if t == l.owner {
		l.settle(now)
	}
	op, at := t.next(now)
	switch {
	case op == None || now.Time < at:
		return cmd, min(at, l.ends(t, now))
	case op == Leave && now.Time >= t.ends() && l.client.breaks(LastLeave):
		t.endsBy()
		fallthrough
	case op == Forget:
		l.forget(t)
		l.settle(now)
		return cmd, Never
	}
	cmd = t.send(op, now)
	if w := l.line.first; op == Leave && t.releases && w != nil && w.ticket == nil && w.Waits && !l.Kind.Strict &&
		l.hears == listening && !l.client.closed && l.worthTicket(w, now) {
		next := l.asks(w, Queued)
		joins := next.send(Join, now)
		cmd.joins, cmd.joinsSeq, cmd.Joins, cmd.Tokens = next, joins.tenureSeq, joins.Ticket, joins.Tokens
	}
	return cmd, l.ends(t, now)
}

// ends returns when a tenure changes by the clock.
func (l *Lock) ends(t *Tenure, now Now) Time {
	if t != l.owner {
		return Never
	}
	at := now.At(l.nextEnd())
	if t.want == Kept {
		at = min(at, t.linger.until)
	}
	return at
}

// Peek returns what Poll would do: the command that it would send now, None for none, and when the tenure is to be polled.
// It changes nothing.
func (l *Lock) Peek(t *Tenure, now Now) (op Op, at Time) {
	if t.lock != l || !l.tenures.has(t) {
		return None, Never
	}
	if op, at = t.next(now); now.Time < at {
		op = None
	}
	return op, min(at, l.ends(t, now))
}

// Alarm is Peek for the agent of the tenure, which is about to poll it then. If that becomes sooner an effect Poll says so.
func (l *Lock) Alarm(t *Tenure, now Now) (op Op, at Time) {
	op, t.alarm = l.Peek(t, now)
	return op, t.alarm
}

// Answer says what became of a command. Each command has one answer.
func (l *Lock) Answer(cmd *Command, a Reply, now Now) {
	if t := cmd.tenure; t.lock == l && l.tenures.has(t) {
		if f, ok := t.lands(cmd.tenureSeq); ok {
			l.answered(t, f, a, now)
		}
		l.touch(t) // its agent may be another now
	}
	if t := cmd.joins; t != nil && t.lock == l && l.tenures.has(t) {
		if f, ok := t.lands(cmd.joinsSeq); ok {
			if a.Fault == Answered {
				a.Fault = a.JoinFault
			}
			l.answered(t, f, a, now)
		}
		l.touch(t)
	}
	l.settle(now)
}

// answered deals with the answer to the tenure's command.
func (l *Lock) answered(t *Tenure, f flight, a Reply, now Now) {
	if a.Fault != Answered {
		t.failed(f, a.Fault, now)
	} else {
		t.answered(f, a, now)
	}
	switch w := t.waiter; {
	case w == nil:
	case a.Fault != Answered:
		l.unanswered(w, t, a.Fault, now)
	case a.Unreplicated && t.want == Resumed:
		l.leave(w, Failed, now)
	case a.Unreplicated:
		l.give(t, now)
		w.rest = now.Time.After(l.client.pause(l.client.Retry, l.client.MaxRetry, w.fails))
		w.fails++
	case a.Found != Holds:
		l.denied(w, t, a, now)
	}
	switch {
	case t.releases:
		l.released(t, f, a, now)
	case f.op == Mirror && a.Fault == Answered && a.Found == Holds:
		l.mirrored(t, f, a, now)
	}
	if a.Fault == Answered && a.HeldBack && a.HeldFor <= 0 && t.mode == Alone && t.isTicket() {
		l.giveWay(now)
	}
	l.ticketMoved(t, now)
}

// released tells the call that has ended the last hold of a tenure what became of the release, or of the pass. The keeper
// goes on with it, and releases a lock that was not passed on.
func (l *Lock) released(t *Tenure, f flight, a Reply, now Now) {
	t.releases = false
	done := a.Left
	if f.op == Mirror {
		done = a.Found == Holds
	}
	cause := ByUnlock
	switch {
	case a.Fault == Fatal, a.Fault == Answered && !done:
		cause = KeyGone
	case a.Fault != Answered:
		cause = Unconfirmed
	}
	switch {
	case t.want == Parted && cause != ByUnlock && !l.client.breaks(PassReleases):
		l.give(t, now)
	case t.want == Parted:
		t.showsFor(f.lease, now)
	}
	l.tell(Effect{Kind: Released, Tenure: t, Cause: cause})
}

// mirrored notes what the answer to a mirror says of the others.
func (l *Lock) mirrored(t *Tenure, f flight, a Reply, now Now) {
	if !f.asks {
		return
	}
	t.turn.heardOf(a.Others, now)
	switch {
	case t.want == Kept && a.Others > 0 && !l.client.breaks(ReleaseAtCall):
		l.give(t, now)
	case t == l.owner && l.isRead():
		t.step = t.step || f.opens && a.Others > 0 && !l.client.breaks(Downgrades)
	}
}

// Hear deals with a message, of which none is believed: it may be late, doubled or forged.
func (l *Lock) Hear(m Message, now Now) {
	t := l.tenures.find(m.ID)
	switch m.Kind {
	case Granted:
		l.heardGrant(t, m, now)
	case AtFront:
		if t != nil && t.want == Queued && !l.client.breaks(FrontListens) {
			if l.Kind.Permits == 0 { // else another client may know of fewer permits
				l.listenAbroad()
			}
			t.doubted(now)
			l.touch(t)
		}
	case Called: // perhaps before the answer that makes the tenure the owner
		if t != nil && (t == l.owner || !l.client.breaks(EarlyCall)) {
			l.called(t, now)
		}
	case Forced:
		if t != nil && t == l.owner {
			t.doubted(now)
			l.touch(t)
		}
	case ForeignNews:
		if !m.Ours {
			l.abroad.hear()
		}
		l.doubtTickets(now)
	}
	l.settle(now)
}

// heardGrant deals with the message that a ticket has the lock.
func (l *Lock) heardGrant(t *Tenure, m Message, now Now) {
	if t == nil {
		if l.client.closed || m.ID.Client != l.client.ID || l.client.breaks(GiveBack) {
			return // all that there is leaves
		}
		t = l.stranger(m.ID) // no waiter wants it, and the next in the queue must not wait for that
		l.give(t, now)
		return
	}
	if t.want == Parted && l.client.breaks(KnowsDetached) {
		l.give(t, now)
	}
	if o := l.current(now); o != nil && o != t && t.isTicket() && !(t.mode == Shared && l.isRead()) {
		// The message may be forged. So it ends no hold that is valid by an answer of Redis, which is asked about both.
		o.unshown()
		l.touch(o)
		t.doubted(now)
		l.touch(t)
		return
	}
	t.granted(m, now)
	l.ticketMoved(t, now)
	l.touch(t)
}

// Listening says whether this client is told of grants. A message may have been lost before.
func (l *Lock) Listening(yes bool, now Now) {
	l.hears = refused
	if yes {
		l.hears = listening
	}
	if !l.client.breaks(LooksAgain) {
		l.doubtTickets(now)
	}
	l.seekAll(now)
	l.settle(now)
}

// subscribe subscribes this client to its grants.
func (l *Lock) subscribe(now Now) {
	if l.hears == deaf {
		l.hears, l.patient = asking, now.Time.After(l.client.Patience)
		l.tell(Effect{Kind: Subscribe})
	}
}

// quiet ends the subscriptions when nothing is left that needs them.
func (l *Lock) quiet() {
	if l.Idle() && l.hears != deaf {
		l.hears = deaf
		l.tell(Effect{Kind: Unsubscribe})
	}
}

// Doubt says that Redis may not show the lock any more, or that a message may have been lost: a connection has ended,
// Redis has told of a change of the key, or a stranger says so. Redis is asked.
func (l *Lock) Doubt(now Now) {
	if l.owner != nil {
		l.owner.doubted(now)
		l.touch(l.owner)
	}
	l.doubtTickets(now)
	l.settle(now)
}

// doubtTickets schedules a look for each ticket.
func (l *Lock) doubtTickets(now Now) {
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.isTicket() {
			t.doubted(now)
			l.touch(t)
		}
	}
}

// ForcedOut says that this client has taken the tenure of that ID out of Redis by force.
func (l *Lock) ForcedOut(id ID, now Now) {
	t := l.owner
	if t == nil || t.ID != id {
		return
	}
	t.forcedOut()
	l.lose(ByForce, now)
	l.settle(now)
}

// Close ends everything: calls return, also those whose command is in flight, and what Redis shows yet is released. A
// detached tenure is left to its lease.
func (l *Lock) Close(now Now) {
	l.client.closed = true
	for l.line.first != nil {
		l.leave(l.line.first, Closed, now)
	}
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.waiter != nil { // that of a Resume does not wait in the line
			l.leave(t.waiter, Closed, now)
		}
	}
	if l.owner != nil {
		l.lose(ByClose, now)
	}
	l.settle(now)
}
