package core

import "testing"

// The next ticket of this client joins with the release before it, if its waiter can wait in the queue.
func TestWhichTicketJoinsWithARelease(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock, *Tenure, *Waiter)
		joins  bool
	}{
		{"a call waits", func(*Lock, *Tenure, *Waiter) {}, true},
		{"it has a ticket", func(l *Lock, _ *Tenure, w *Waiter) { l.asks(w, Queued) }, false},
		{"it does not wait", func(_ *Lock, _ *Tenure, w *Waiter) { w.Waits = false }, false},
		{"its wait is too short", func(_ *Lock, _ *Tenure, w *Waiter) { w.Until = 54 }, false},
		{"a strict lock", func(l *Lock, _ *Tenure, w *Waiter) { l.Kind.Strict = true }, false},
		{"the client is not told", func(l *Lock, _ *Tenure, _ *Waiter) { l.hears = asking }, false},
		{"the client closes", func(l *Lock, _ *Tenure, _ *Waiter) { l.client.closed = true }, false},
		{"the keeper releases it", func(_ *Lock, n *Tenure, _ *Waiter) { n.releases = false }, false},
	} {
		l, w := waits()
		n := l.newTenure(ID{1, false, 1}, Alone)
		n.want, n.place, n.releases, n.gone, l.hears = Gone, Owner, true, 40, listening
		c.change(l, n, w)
		cmd, _ := l.poll(n, at(50))
		if joins := cmd.Joins.ID != (ID{}); cmd.Op != Leave || joins != c.joins {
			t.Errorf("%s: command %d, with a join: %v", c.name, cmd.Op, joins)
		}
	}
}

// A join that goes with a release has the answer to that, unless Redis says that it has failed.
func TestTheAnswerToAReleaseIsThatToItsJoin(t *testing.T) {
	for _, c := range []struct {
		fault, join, left Fault
		rest              bool
	}{{Answered, Answered, Answered, false}, {Answered, NotRun, NotRun, true}, {Unknown, Answered, Unknown, true}} {
		l, w := waits()
		n := l.newTenure(ID{1, false, 1}, Alone)
		n.want, n.place, n.releases, n.gone, l.hears = Gone, Owner, true, 40, listening
		cmd, _ := l.poll(n, at(50))
		ticket := w.ticket
		l.Answer(&cmd, Reply{Fault: c.fault, JoinFault: c.join, Left: true, Found: Waits, Holder: ID{2, false, 1}}, at(60))
		if queued := ticket.place == InQueue; queued == c.rest || (w.rest > 0) != c.rest {
			t.Errorf("%+v: the ticket is at %d, and its waiter rests until %d", c, ticket.place, w.rest)
		}
	}
}

// A message that this client was granted the lock, which any client may have sent, ends no hold that is valid.
func TestWhatAClientDoesThatHearsOfAGrant(t *testing.T) {
	for _, c := range []struct {
		name            string
		ticket          Mode
		levels          []Level
		change          func(l *Lock, n *Tenure)
		doubts, granted bool
	}{
		{"no owner holds the lock", Alone, nil, nil, false, true},
		{"an owner writes", Alone, []Level{writes(1, NeverSafe)}, nil, true, false},
		{"an owner writes, for a reader", Shared, []Level{writes(1, NeverSafe)}, nil, true, false},
		{"one reads, for a writer", Alone, []Level{reads(1, NeverSafe)}, nil, true, false},
		{"one reads, for a reader", Shared, []Level{reads(1, NeverSafe)}, nil, false, true},
		{"the ticket is given up", Alone, []Level{writes(1, NeverSafe)}, func(_ *Lock, n *Tenure) { n.want = Gone }, false, true},
	} {
		l := held(c.levels...)
		if c.levels == nil {
			l.owner = nil
		}
		o := l.owner
		n := l.newTenure(ID{1, false, 7}, c.ticket)
		w := &Waiter{Owner: 9, Mode: c.ticket, Waits: true, Until: Never}
		l.line.join(w)
		n.want, n.place, n.look, n.trust.seen, n.waiter, w.ticket = Queued, InQueue, Never, at(50), w, n
		if c.change != nil {
			c.change(l, n)
			n.waiter, w.ticket = nil, nil
		}
		if o != nil {
			o.shown = l.shape(at(50))
		}
		l.client.Effects()
		l.heardGrant(n, Message{}, at(50))
		asked := map[*Tenure]bool{}
		for _, e := range l.client.Effects() {
			asked[e.Tenure] = asked[e.Tenure] || e.Kind == Poll
		}
		doubts := o != nil && o.shown == shape{} && asked[o] && asked[n] && n.look == 50
		if granted := n.place == Owner; granted != c.granted || doubts != c.doubts {
			t.Errorf("%s: granted %v, doubts %v", c.name, granted, doubts)
		}
	}
}

// A call or a release by force is believed of a tenure of this client only.
func TestWhatAMessageChanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		message MessageKind
		of      ID
		want    Want
		doubts  bool
	}{
		{"forced", Forced, ID{1, false, 1}, Held, true},
		{"another one", Forced, ID{1, false, 7}, Held, false},
		{"one that is unknown", Forced, ID{1, false, 99}, Held, false},
		{"a call of one that does not linger", Called, ID{1, false, 1}, Held, false},
		{"a call of one that is unknown", Called, ID{1, true, 99}, Held, false},
		{"the first, unknown", AtFront, ID{1, false, 99}, Held, false},
	} {
		l := held(writes(1, NeverSafe))
		o := l.owner
		l.newTenure(ID{1, false, 7}, Alone).want = Gone
		o.shown = l.shape(at(50))
		was := o.shown
		l.Hear(Message{Kind: c.message, ID: c.of}, at(50))
		if o.want != c.want || (o.shown != was) != c.doubts {
			t.Errorf("%s: want %d, doubts %v", c.name, o.want, o.shown != was)
		}
	}
}

// Only a tenure that this client has is ended by force.
func TestWhatIsReleasedByForce(t *testing.T) {
	l := held(writes(1, NeverSafe))
	l.ForcedOut(ID{1, false, 2}, at(50))
	if !l.isHeld() {
		t.Error("another tenure was released")
	}
	l.ForcedOut(ID{1, false, 1}, at(50))
	if l.isHeld() || l.owner != nil {
		t.Error("it is held")
	}
	l.ForcedOut(ID{1, false, 1}, at(50))
}

func TestWhatIsServedAtOnce(t *testing.T) {
	line := func(l *Lock) { l.line.join(&Waiter{Owner: 8, Waits: true, Until: Never}) }
	for _, c := range []struct {
		name    string
		levels  []Level
		owner   OwnerID
		mode    Mode
		waits   bool
		change  func(*Lock)
		nests   bool
		outcome Outcome
	}{
		{"a free lock", nil, 1, Alone, false, nil, false, Waiting},
		{"calls wait", nil, 1, Alone, false, line, false, Denied},
		{"calls wait, and it may", nil, 1, Alone, true, line, false, Waiting},
		{"another one holds it", []Level{writes(2, NeverSafe)}, 1, Alone, false, nil, false, Denied},
		{"it holds it", []Level{writes(1, NeverSafe)}, 1, Alone, false, nil, true, Acquired},
		{"it holds it, to read", []Level{writes(1, NeverSafe)}, 1, Shared, false, nil, true, Acquired},
		{"it reads", []Level{reads(1, NeverSafe)}, 1, Shared, false, nil, true, Acquired},
		{"it reads, and is to write", []Level{reads(1, NeverSafe)}, 1, Alone, true, nil, false, Upgrades},
		{"it has lost it", []Level{writes(1, NeverSafe)}, 1, Alone, true, func(l *Lock) { l.owner.trust.until = 10 }, false, Waiting},
		{"the client is closed", nil, 1, Alone, true, func(l *Lock) { l.client.closed = true }, false, Closed},
	} {
		l := held(c.levels...)
		if c.levels == nil {
			l.tenures, l.owner = tenures{}, nil
		}
		if c.change != nil {
			c.change(l)
		}
		w := &Waiter{Owner: c.owner, Mode: c.mode, Waits: c.waits, Until: Never, outcome: Failed}
		nests := l.Nest(w, at(50))
		if !nests {
			l.AtOnce(w, at(50))
		}
		if nests != c.nests || w.outcome != c.outcome || w.began != 50 {
			t.Errorf("%s: nests %v, outcome %d, began %d", c.name, nests, w.outcome, w.began)
		}
	}
}

// A poll of a tenure that is over, or of another lock, has no command.
func TestATenureOfAnotherLockHasNothingToSend(t *testing.T) {
	l := held(writes(1, NeverSafe))
	o := l.owner
	other := l.client.NewLock(Kind{})
	if cmd, at := other.Poll(o, at(20_000)); cmd.Op != None || at != Never {
		t.Errorf("%d at %d", cmd.Op, at)
	}
	o.want, o.place, l.owner = Gone, Owner, nil
	l.closeAll()
	l.forget(o)
	if cmd, at := l.Poll(o, at(20_000)); cmd.Op != None || at != Never {
		t.Errorf("%d at %d", cmd.Op, at)
	}
}
