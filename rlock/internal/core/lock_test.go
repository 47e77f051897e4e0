package core

import (
	"slices"
	"testing"
)

// The next ticket of this client joins with the release before it, if its waiter can wait in the queue.
func TestWhichTicketJoinsWithARelease(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock, *Tenure, *Call)
		joins  bool
	}{
		{"a call waits", func(*Lock, *Tenure, *Call) {}, true},
		{"it has a ticket", func(l *Lock, _ *Tenure, w *Call) { l.asks(w, Join) }, false},
		{"it does not wait", func(_ *Lock, _ *Tenure, w *Call) { w.Waits = false }, false},
		{"its wait is too short", func(_ *Lock, _ *Tenure, w *Call) { w.Until = 54 }, false},
		{"a strict lock", func(l *Lock, _ *Tenure, w *Call) { l.Kind.Strict = true }, false},
		{"the client is not told", func(l *Lock, _ *Tenure, _ *Call) { l.hears = asking }, false},
		{"the client closes", func(l *Lock, _ *Tenure, _ *Call) { l.client.closed = true }, false},
		{"the keeper releases it", func(_ *Lock, n *Tenure, _ *Call) { n.Agent = nil }, false},
		{"it is passed on", func(_ *Lock, n *Tenure, _ *Call) { n.want, n.within = Parted, 10 }, false},
	} {
		l, w := waiter()
		l.Kind.Fenced, l.reserve = true, 16
		n := l.newTenure(ID{1, 1}, Alone)
		n.want, n.place, n.since, l.hears = Gone, Owner, 40, listening
		releasing(l, n)
		c.change(l, n, w)
		op, _ := n.next(at(50))
		cmd, _ := l.send(n, op, at(50))
		if joins := cmd.Joins.ID != (ID{}); (cmd.Op == Leave) != (n.want == Gone) || joins != c.joins {
			t.Errorf("%s: command %d, with a join: %v", c.name, cmd.Op, joins)
		}
		if c.joins && (cmd.Joins.ID != w.Tenure.ID || w.Tenure.entry != Join || cmd.Tokens != 16) {
			t.Errorf("%s: want %d, with %d tokens", c.name, w.Tenure.want, cmd.Tokens)
		}
	}
}

// A join that goes with a release has the answer to that, unless Redis says that it has failed.
func TestTheAnswerToAReleaseIsThatToItsJoin(t *testing.T) {
	for _, c := range []struct {
		fault, join, left Fault
		rest              bool
	}{{Answered, Answered, Answered, false}, {Answered, NotRun, NotRun, true}, {Unknown, Answered, Unknown, true}} {
		l, w := waiter()
		n := l.newTenure(ID{1, 1}, Alone)
		n.want, n.place, n.since, l.hears = Gone, Owner, 40, listening
		cmd := sendFor(t, l, releasing(l, n), at(50), Leave)
		ticket := w.Tenure
		l.Answer(&cmd, nil, Reply{Fault: c.fault, JoinFault: c.join, Left: true, Found: Waits, Holder: ID{2, 1}}, at(60))
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
		n := l.newTenure(ID{1, 7}, c.ticket)
		w := &Call{Owner: 9, Mode: c.ticket, Waits: true, Until: Never, asleep: true, alarm: Never}
		l.line.join(w)
		n.want, n.entry, n.place, n.look, n.trust.seen, n.Agent, w.Tenure = Asked, Join, InQueue, Never, at(50), w, n
		if c.change != nil {
			c.change(l, n)
			n.Agent, w.Tenure = nil, nil
		}
		if o != nil {
			o.shown = l.shape(at(50))
		}
		l.client.TakeEffects(at(0))
		l.heardGrant(n, Message{}, at(50))
		asked := map[*Tenure]bool{}
		for _, e := range l.client.TakeEffects(at(0)) {
			asked[e.Tenure] = asked[e.Tenure] || e.Kind == Poll
		}
		doubts := o != nil && o.old && asked[o] && asked[n] && n.look == 50
		if granted := n.place == Owner; granted != c.granted || doubts != c.doubts {
			t.Errorf("%s: granted %v, doubts %v", c.name, granted, doubts)
		}
	}
}

// A tenure that Redis shows and this client does not know is released; one of another client is not.
func TestATenureThatIsForgottenIsReleased(t *testing.T) {
	for id, released := range map[ID]bool{{1, 99}: true, {2, 99}: false} {
		l := held(writes(1, NeverSafe))
		l.Hear(Message{Kind: Shown, ID: id}, at(50))
		if n := l.Find(id); (n != nil) != released || released && (n.want != Gone || n.place != Owner) || l.owner.want != Held {
			t.Errorf("%v: %+v", id, n)
		}
	}
}

// A release by force is believed of a tenure of this client only.
func TestWhatAMessageChanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		message MessageKind
		of      ID
		want    Want
		doubts  bool
	}{
		{"forced", Forced, ID{1, 1}, Held, true},
		{"another one", Forced, ID{1, 7}, Held, false},
		{"one that is unknown", Forced, ID{1, 99}, Held, false},
		{"one that has the lock", Shown, ID{1, 1}, Held, false},
		{"the first, unknown", AtFront, ID{1, 99}, Held, false},
	} {
		l := held(writes(1, NeverSafe))
		o := l.owner
		l.newTenure(ID{1, 7}, Alone).want = Gone
		o.shown = l.shape(at(50))
		l.Hear(Message{Kind: c.message, ID: c.of}, at(50))
		if o.want != c.want || o.old != c.doubts {
			t.Errorf("%s: want %d, doubts %v", c.name, o.want, o.old)
		}
	}
}

// A release by force is believed of the owner only, and of none if there is none.
func TestAReleaseByForceIsBelievedOfTheOwner(t *testing.T) {
	l, n := tenure()
	n.want, n.entry, n.place, n.look = Asked, Join, InQueue, Never
	l.Hear(Message{Kind: Forced, ID: n.ID}, at(50))
	l.Hear(Message{Kind: Forced, ID: ID{1, 99}}, at(50))
	if n.look != Never {
		t.Error("a ticket is looked for")
	}
}

// Only a tenure that this client has is ended by force.
func TestATenureThatIsReleasedByForce(t *testing.T) {
	l := held(writes(1, NeverSafe))
	force(l, ID{1, 2}, at(50))
	if !l.IsHeld() {
		t.Error("another tenure was released")
	}
	force(l, ID{1, 1}, at(50))
	if l.IsHeld() || l.owner != nil {
		t.Error("it is held")
	}
	force(l, ID{1, 1}, at(50))

	l = held(writes(1, NeverSafe))
	w := &Call{Owner: 2, Waits: true, Until: Never}
	l.Lock(w, at(50))
	n := l.owner
	force(l, n.ID, at(50))
	if w.Tenure == nil || n.place != Out {
		t.Error("the next one does not ask for the lock, or the tenure is to leave")
	}
}

func TestACallThatIsServedAtOnce(t *testing.T) {
	line := func(l *Lock) { l.line.join(&Call{Owner: 8, Waits: true, Until: Never}) }
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
		w := &Call{Owner: c.owner, Mode: c.mode, Waits: c.waits, Until: Never, Outcome: Failed}
		nests := l.Nest(w, at(50))
		if !nests {
			l.AtOnce(w, at(50))
		}
		if nests != c.nests || w.Outcome != c.outcome || w.Began != 50 {
			t.Errorf("%s: nests %v, outcome %d, began %d", c.name, nests, w.Outcome, w.Began)
		}
	}
}

// A poll of a tenure that is over, or of another lock, has no command. Its memory may be used again by then.
func TestATenureOfAnotherLockHasNothingToSend(t *testing.T) {
	nothing := func(l *Lock, n *Tenure) {
		t.Helper()
		cmd, due := l.Poll(n, at(20_000))
		op, peeked := l.Peek(n, at(20_000))
		if cmd.Op != None || due != Never || op != None || peeked != Never || has(l, n) {
			t.Errorf("%d at %d, %d at %d", cmd.Op, due, op, peeked)
		}
	}
	l := held(writes(1, NeverSafe))
	o := l.owner
	other := l.client.NewLock(Kind{})
	nothing(other, o)
	o.want, o.place, l.owner = Gone, Out, nil
	l.closeAll()
	if cmd, due := l.Poll(o, at(20_000)); cmd.Op != None || due != Never {
		t.Errorf("it is forgotten, and has %d at %d", cmd.Op, due)
	}
	nothing(l, o)
	other.newTenure(ID{1, 7}, Alone)
	l.client.TakeEffects(at(0))
	l.client.spare = o
	if n := other.newTenure(ID{1, 8}, Alone); n != o || !has(other, o) {
		t.Fatal("its memory is not used again")
	}
	if nothing(l, o); !has(other, o) || !l.Idle() {
		t.Error("the other lock has lost it")
	}
}

// In every case a hold whose time is over is lost, and told.
func TestEachEventEndsWhatIsOver(t *testing.T) {
	for name, happens := range map[string]func(*Lock, Now){
		"Leave":           func(l *Lock, now Now) { l.line.first().Outcome = Waiting; l.Leave(l.line.first(), Cancelled, now) },
		"SetLease":        func(l *Lock, now Now) { l.SetLease(1, Alone, nil, 900, now) },
		"Hear":            func(l *Lock, now Now) { l.Hear(Message{Kind: ForeignNews}, now) },
		"Listening":       func(l *Lock, now Now) { l.Listening(true, now) },
		"ListeningAbroad": func(l *Lock, now Now) { l.ListeningAbroad(now) },
		"Doubt":           func(l *Lock, now Now) { l.Doubt(now) },
		"Confirm":         func(l *Lock, now Now) { l.Confirm(now) },
		"Tick":            func(l *Lock, now Now) { l.tick(l.line.first(), now) },
		"Write": func(l *Lock, now Now) {
			c := &Call{Owner: 1, Until: Never}
			l.Write(c)
			l.Next(c, true, now)
		},
		"Resume": func(l *Lock, now Now) { l.Resume(&Call{Owner: 3, Until: Never}, now) },
		"Poll":   func(l *Lock, now Now) { l.Poll(l.owner, now) },
		"Answer": func(l *Lock, now Now) { l.Answer(&Command{Tenure: l.owner}, nil, Reply{}, now) },
	} {
		l := held(writes(1, NeverSafe))
		l.line.join(&Call{Owner: 2, Waits: true, Until: Never})
		l.client.TakeEffects(at(0))
		n := l.owner
		happens(l, at(50_000))
		lost := false
		for _, e := range l.client.TakeEffects(at(0)) {
			lost = lost || e.Kind == Lose && e.Tenure == n && e.Lock == l && e.Cause == Unrenewed && len(e.Lost) == 1
		}
		if l.IsHeld() || !lost {
			t.Errorf("%s: it is held: %v, and its loss is told: %v", name, l.IsHeld(), lost)
		}
	}
}

func TestWhyAHoldEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		until  SafeTime // of the level
		change func(*Lock)
		cause  Cause
	}{
		{"its lease is over", 500, func(*Lock) {}, LeaseEnded},
		{"its lease is renewed", NeverSafe, func(l *Lock) { l.owner.trust.until = 500 }, Unrenewed},
		{"Redis has not answered", 500, func(l *Lock) { l.owner.fails = 1 }, Unrenewed},
		{"Redis was not told of the lease", 500, func(l *Lock) { l.owner.unshown() }, Unrenewed},
		{"Redis does not have it", 500, func(l *Lock) { l.owner.place = Unsure }, KeyGone},
	} {
		l := held(writes(1, c.until))
		l.showing(l.owner, at(100))
		c.change(l)
		l.client.TakeEffects(at(0))
		l.Settle(at(500))
		if e := l.client.TakeEffects(at(0)); len(e) == 0 || e[0].Kind != Lose || e[0].Cause != c.cause {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

// The call that has ended the last hold learns the result of the command for that.
func TestTheResultOfARelease(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  Want
		reply Reply
		cause Cause
		then  Want
	}{
		{"a release", Gone, Reply{Left: true}, ByUnlock, Gone},
		{"it finds nothing", Gone, Reply{}, KeyGone, Gone},
		{"it has no answer", Gone, Reply{Fault: Unknown}, Unconfirmed, Gone},
		{"it was left behind", Gone, Reply{Fault: Behind}, Unconfirmed, Gone},
		{"it was not executed", Gone, Reply{Fault: NotRun}, Unconfirmed, Gone},
		{"another key is in its place", Gone, Reply{Fault: Fatal}, KeyGone, Gone},
		{"a pass", Parted, Reply{Found: Holds}, ByUnlock, Parted},
		{"a pass that finds nothing", Parted, Reply{Left: true}, KeyGone, Gone},
		{"a pass without an answer", Parted, Reply{Fault: Unknown}, Unconfirmed, Gone},
		{"a pass at another key", Parted, Reply{Fault: Fatal}, KeyGone, Gone},
	} {
		l := held()
		n := l.owner
		l.owner, n.want = nil, c.want
		op := Leave
		if c.want == Parted {
			n.within, op = 10, Mirror
		}
		call := releasing(l, n)
		cmd := sendFor(t, l, call, at(50), op)
		l.Answer(&cmd, call, c.reply, at(60))
		if call.Outcome != Done || call.Cause != c.cause || n.want != c.then || n.Agent != nil || c.then == Parted && (n.trust.most != 10 || n.trust.seen != at(60)) {
			t.Errorf("%s: outcome %d, cause %d, want %d", c.name, call.Outcome, call.Cause, n.want)
		}
	}
}

// After a downgrade a step lets in others, if there are some.
func TestWhatAMirrorSaysOfOthers(t *testing.T) {
	for _, c := range []struct {
		name      string
		levels    []Level // when it is answered
		shown     shape   // before it
		want      Want
		others    int
		step      bool
		contested bool
		then      Want
	}{
		{"a downgrade", []Level{reads(1, NeverSafe)}, shape{owner: 1, writes: 1, reads: true}, Held, 1, true, true, Held},
		{"a downgrade that none waits for", []Level{reads(1, NeverSafe)}, shape{owner: 1, writes: 1, reads: true}, Held, 0, false, false, Held},
		{"readers as before", []Level{reads(1, NeverSafe)}, shape{owner: 1, reads: true}, Held, 1, false, true, Held},
		{"a writer that goes on", []Level{writes(1, NeverSafe), reads(1, NeverSafe)}, shape{owner: 1, writes: 2}, Held, 1, false, true, Held},
	} {
		l := held(c.levels...)
		n := l.owner
		l.line.join(&Call{Owner: 9, Waits: true, Until: Never}) // so that it asks
		n.shown = c.shown
		cmd := n.send(Mirror, at(50))
		l.line = line{}
		l.Answer(&cmd, nil, Reply{Found: Holds, Others: c.others}, at(60))
		if n.step != c.step || n.share.contested != c.contested || n.want != c.then {
			t.Errorf("%s: step %v, contested %v, want %d", c.name, n.step, n.share.contested, n.want)
		}
	}
}

// While foreign readers keep the writers out, readers of ours go before the writers.
func TestWhenAWriterGivesWay(t *testing.T) {
	for _, c := range []struct {
		name    string
		reads   bool // a reader waits behind the writers
		mode    Mode // of the ticket
		heldFor Span
		change  func(*Tenure)
		gives   bool
	}{
		{"a writer", true, Alone, 0, nil, true},
		{"no reader waits here", false, Alone, 0, nil, false},
		{"readers may not begin yet", true, Alone, 1, nil, false},
		{"a reader", true, Shared, 0, nil, false},
		{"one that has left", true, Alone, 0, func(n *Tenure) { n.want = Gone }, false},
	} {
		l, w := waiter()
		second, r := &Call{Owner: 2, Waits: true, Until: Never}, &Call{Owner: 3, Waits: true, Until: Never, Mode: Shared}
		last := &Call{Owner: 4, Waits: true, Until: Never}
		l.line.join(second)
		if l.line.join(r); !c.reads {
			r.Mode = Alone
		}
		l.line.join(last)
		n := l.asks(w, Join)
		n.mode, n.place, l.hears, r.attempt = c.mode, InQueue, listening, tries
		if c.change != nil {
			n.Agent, w.Tenure = nil, nil
			c.change(n)
		}
		l.answered(n, flight{op: Look, at: at(40)}, Reply{Found: Waits, HeldBack: true, HeldFor: c.heldFor}, at(50))
		var order []*Call
		for w := range l.Waiters {
			order = append(order, w)
		}
		if gives := slices.Equal(order, []*Call{r, last, w, second}); gives != c.gives || !gives && l.line.first() != w {
			t.Errorf("%s: %v", c.name, gives)
		}
		if asks := r.Tenure != nil; asks != c.gives {
			t.Errorf("%s: the reader asks for the lock: %v", c.name, asks)
		}
	}
}

// A client that is refused its subscription polls; and one that closes ignores foreign clients.
func TestWhatAClientHears(t *testing.T) {
	l, w := waiter()
	l.hears, l.patient = asking, Never
	if l.Listening(false, at(50)); l.hears != refused || w.Tenure == nil || w.Tenure.polls == 0 {
		t.Errorf("it hears: %d", l.hears)
	}
	if l.listenAbroad(); l.abroad.hears != asking {
		t.Errorf("it hears foreign clients: %d", l.abroad.hears)
	}
	l.ListeningAbroad(at(50))
	l.client.TakeEffects(at(0))
	l.Close(at(50))
	for _, e := range l.client.TakeEffects(at(0)) {
		if e.Kind == IgnoreAbroad {
			return
		}
	}
	t.Error("it listens to foreign clients, though it has closed")
}

// The memory of a lock that is idle is used again, with what the driver has there.
func TestALockThatIsResetKeepsItsTag(t *testing.T) {
	l := held()
	c := l.client
	l.Tag, l.hears = 7, listening
	if l.Reset(c, Kind{Fenced: true}); l.Tag != 7 || l.hears != deaf || !l.Idle() || !l.Kind.Fenced || l.client != c {
		t.Errorf("%+v", l)
	}
}
