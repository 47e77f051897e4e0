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
