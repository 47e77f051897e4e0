package core

import "testing"

// waits returns a lock with a waiter that may wait until 100.
func waiter() (*Lock, *Call) {
	c, _ := driven()
	l := c.NewLock(Kind{})
	w := &Call{Owner: 1, Waits: true, Until: 100, alarm: Never}
	l.line.join(w)
	return l, w
}

// isBusy puts the acquire of a caller that has left in flight.
func isBusy(l *Lock) { l.newTenure(ID{1, 9}, Alone).flight.op = Acquire }

// heldBack makes the waiter a reader beside readers that goes on at 50.
func heldBack(h hearing) func(*Lock, *Call) {
	return func(l *Lock, w *Call) {
		o := held(reads(2, NeverSafe)).owner
		l.owner, o.lock, o.share.contested = o, l, true
		l.add(reads(2, NeverSafe))
		l.client.ReadersTime, w.Mode, w.Began = 40, Shared, 10
		l.hears, l.patient = h, 70
	}
}

func TestWhenTheTimeOfAWaiterComes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock, *Call)
		now    Time
		due    Time
	}{
		{"its wait is over", func(*Lock, *Call) {}, 10, 100},
		{"its ticket is looked for a last time", func(l *Lock, w *Call) { l.asks(w, Join).place = InQueue }, 100, Never},
		{"its ticket has the time", func(l *Lock, w *Call) { l.asks(w, Join); w.rest = 50 }, 10, 100},
		{"it rests", func(_ *Lock, w *Call) { w.rest = 50 }, 10, 50},
		{"it rests for longer than it waits", func(_ *Lock, w *Call) { w.rest = 150 }, 10, 100},
		{"it has tried again", func(_ *Lock, w *Call) { w.attempt, w.rest = triedAgain, 150 }, 10, 100},
		{"it tried again, without an answer", func(_ *Lock, w *Call) { w.attempt, w.rest, w.fails = triesAgain, 150, 1 }, 10, 100},
		{"a subscription is under way", func(l *Lock, _ *Call) { l.hears, l.patient = asking, 70 }, 10, 70},
		{"it is late", func(l *Lock, _ *Call) { l.hears, l.patient = asking, 5 }, 10, 10},
		{"it hears", func(l *Lock, _ *Call) { l.hears, l.patient = listening, 70 }, 10, 100},
		{"another one is before it", func(l *Lock, w *Call) {
			l.line.leave(w)
			l.line.join(&Call{Owner: 2})
			l.line.join(w)
			l.hears, l.patient = asking, 70
		}, 10, 100},
		{"an answer decides", func(l *Lock, w *Call) { w.attempt, w.overdue = tries, true; isBusy(l) }, 100, 250}, // it was sent at 0
		{"a release decides", func(l *Lock, w *Call) {
			w.attempt, w.overdue = tries, true
			n := l.newTenure(ID{1, 9}, Alone)
			n.place, n.since = Owner, 50
		}, 100, 300},
		{"an answer decides, before its time is up", func(l *Lock, w *Call) { w.attempt = tries; isBusy(l) }, 99, 100},
		{"an answer decides nothing for it", func(l *Lock, w *Call) { isBusy(l) }, 100, 100},
		{"an answer decides that was asked for later", func(l *Lock, w *Call) {
			w.attempt, w.overdue = tries, true
			isBusy(l)
			l.tenures.first.flight.at = at(20)
		}, 100, 270},
		{"an answer comes no more", func(l *Lock, w *Call) {
			w.attempt, w.overdue = tries, true
			isBusy(l)
			l.tenures.first.flight.at = at(-200)
		}, 100, 100},
		{"a ticket decides nothing", func(l *Lock, w *Call) {
			w.attempt, w.overdue = tries, true
			l.newTenure(ID{1, 9}, Alone).want = Asked
		}, 100, 100},
		{"an answer decides for another one", func(l *Lock, w *Call) {
			l.line.leave(w)
			l.line.join(&Call{Owner: 2, waiting: waiting{attempt: tries}})
			w.attempt, w.overdue = tries, true
			l.line.join(w)
			isBusy(l)
		}, 100, Never},
		{"it has not noted that its time is up", func(l *Lock, w *Call) { w.attempt = tries; isBusy(l) }, 100, 100},
		{"it rests, and has not called", func(_ *Lock, w *Call) { w.attempt, w.rest = tries, 150 }, 10, 100},
		{"a subscription is under way, for each of a strict lock", func(l *Lock, w *Call) {
			l.Kind.Strict = true
			l.line.leave(w)
			l.line.join(&Call{Owner: 2})
			l.line.join(w)
			l.hears, l.patient = asking, 70
		}, 10, 70},
		{"a subscription may take longer than it waits", func(l *Lock, _ *Call) { l.hears, l.patient = asking, 170 }, 10, 100},
		{"it has lost the ticket that was looked for a last time", func(_ *Lock, w *Call) { w.rest = 60 }, 10, 60},
		{"it is held back for longer than it waits", func(l *Lock, w *Call) { heldBack(deaf)(l, w); w.Began = 90 }, 91, 100},
		{"it is held back, after its subscription", func(l *Lock, w *Call) { heldBack(listening)(l, w); w.Began = 40 }, 41, 80},
		{"it is held back", heldBack(deaf), 10, 50},
		{"it is held back, and its subscription is under way", heldBack(asking), 10, 70},
	} {
		l, w := waiter()
		c.change(l, w)
		if due := l.Wakes(w, at(c.now)); due != c.due {
			t.Errorf("%s: at %d", c.name, due)
		}
	}
}

func TestWhatBecomesOfAWaiterWhoseTimeIsUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Lock, *Call)
		now     Time
		outcome Outcome
		last    bool
	}{
		{"it has no ticket", func(*Lock, *Call) {}, 100, TimedOut, false},
		{"its time is not up", func(*Lock, *Call) {}, 99, Waiting, false},
		{"its join is in flight", func(l *Lock, w *Call) { l.asks(w, Join).send(Join, at(1)) }, 100, Waiting, true},
		{"its ticket was not sent", func(l *Lock, w *Call) { l.asks(w, Join) }, 100, Waiting, true},
		{"its ticket is in the queue", func(l *Lock, w *Call) { l.asks(w, Join).place = InQueue }, 100, Waiting, true},
		{"Redis does not answer", func(l *Lock, w *Call) { n := l.asks(w, Join); n.place, n.fails = InQueue, 1 }, 100, TimedOut, false},
		{"an answer decides", func(l *Lock, w *Call) { w.attempt = tries; isBusy(l) }, 249, Waiting, false},
		{"an answer does not come", func(l *Lock, w *Call) { w.attempt = tries; isBusy(l) }, 250, Unanswered, false},
		{"an answer decides, but it has a ticket", func(l *Lock, w *Call) {
			w.attempt = tries
			isBusy(l)
			l.asks(w, Join).place = InQueue
		}, 100, Waiting, true},
		{"an answer is for another one", func(l *Lock, w *Call) {
			l.owner = held().owner
			l.owner.lock, l.owner.trust.until = l, 900
			w.attempt = tries
			isBusy(l)
		}, 101, TimedOut, false},
	} {
		l, w := waiter()
		l.line.join(&Call{Owner: 2, Waits: true, Until: Never, waiting: waiting{rest: Never}})
		c.change(l, w)
		n := w.Tenure
		if n != nil {
			n.look = Never
		}
		l.client.TakeEffects(at(0))
		l.tick(w, at(c.now))
		if c.last && (n.look != Never) != (n.place == InQueue && n.flight.op == None) {
			t.Errorf("%s: it is looked for at %d", c.name, n.look)
		}
		if c.last && n.place == InQueue && (len(l.client.Effects) == 0 || l.client.Effects[0].Tenure != n) {
			t.Errorf("%s: its goroutine is not told", c.name)
		}
		if w.Outcome != c.outcome || c.last && l.Wakes(w, at(c.now)) != Never {
			t.Errorf("%s: %d, wakes at %d", c.name, w.Outcome, l.Wakes(w, at(c.now)))
		}
		if c.last && n.place == InQueue && n.look != c.now {
			t.Errorf("%s: it is looked for at %d", c.name, n.look)
		}
	}
}

func TestWhatAWaiterDoesAfterACommandWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		entry   Op
		change  func(*Call, *Tenure)
		fault   Fault
		outcome Outcome
		rest    Time
		attempt attempt
	}{
		{"an acquire", Acquire, func(*Call, *Tenure) {}, Unknown, Waiting, 60, tries},
		{"a join", Join, func(*Call, *Tenure) {}, Unknown, Waiting, 60, tried},
		{"the third", Acquire, func(w *Call, _ *Tenure) { w.fails, w.attempt = 2, triedAgain }, NotRun, Waiting, 90, triesAgain},
		{"its tenure rests for longer", Join, func(_ *Call, n *Tenure) { n.again = 95 }, Unknown, Waiting, 95, tried},
		{"Redis refuses for good", Acquire, func(*Call, *Tenure) {}, Fatal, Failed, 60, tries},
		{"its time is up", Acquire, func(w *Call, _ *Tenure) { w.Until = 50 }, Unknown, TimedOut, 60, tries},
		{"it does not wait", Acquire, func(w *Call, _ *Tenure) { w.Waits = false }, Unknown, TimedOut, 60, tries},
	} {
		l, w := waiter()
		n := l.asks(w, c.entry)
		c.change(w, n)
		fails := w.fails
		l.unanswered(w, n, c.fault, at(50))
		if gone := n.want == Gone; gone != (n.fails == 1) || gone != (c.outcome != Waiting) {
			t.Errorf("%s: gone %v after %d faults", c.name, gone, n.fails)
		}
		if w.Outcome != c.outcome || w.rest != c.rest || w.attempt != c.attempt || w.fails != fails+1 {
			t.Errorf("%s: %d, rests until %d, attempt %d", c.name, w.Outcome, w.rest, w.attempt)
		}
	}
}

func TestWhenALockIsBusy(t *testing.T) {
	for _, c := range []struct {
		op    Op
		want  wanted
		place Place
		fails uint8
		busy  bool
	}{
		{Acquire, byAcquire, Unsure, 0, true}, {Join, byJoin, Unsure, 0, true}, {Join, wanted{Want: Gone}, Unsure, 2, true},
		{Look, byJoin, InQueue, 0, false}, {None, byJoin, InQueue, 0, false},
		{None, wanted{Want: Gone}, Owner, 0, true}, {Leave, wanted{Want: Gone}, InQueue, 0, true}, {None, wanted{Want: Gone}, Owner, 1, false},
		{None, wanted{Want: Gone}, Out, 0, false}, {None, wanted{Want: Gone}, Out, 0, false},
	} {
		l, n := tenure()
		n.flight.op, n.want, n.entry, n.place, n.fails = c.op, c.want.Want, c.want.entry, c.place, c.fails
		if l.Busy() != c.busy {
			t.Errorf("%+v: %v", c, l.Busy())
		}
	}
}

func TestWhichWaitsAreWorthATicket(t *testing.T) {
	l, w := waiter()
	for until, worth := range map[Time]bool{Never: true, 55: true, 54: false, 10: false} {
		if w.Until = until; l.worthTicket(w, at(50)) != worth {
			t.Errorf("until %d", until)
		}
	}
}

// The ticket of a waiter that is gone goes to the next one, which must be able to stand for it.
func TestWhoseTheTicketOfAWaiterIsThatIsGone(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock, *Tenure, *Call)
		passed bool
	}{
		{"the next one waits", func(*Lock, *Tenure, *Call) {}, true},
		{"it has one", func(l *Lock, _ *Tenure, next *Call) { l.asks(next, Join) }, false},
		{"it does not wait", func(_ *Lock, _ *Tenure, next *Call) { next.Waits = false }, false},
		{"it reads", func(_ *Lock, _ *Tenure, next *Call) { next.Mode = Shared }, false},
		{"its wait is too short", func(_ *Lock, _ *Tenure, next *Call) { next.Until = 54 }, false},
		{"each of a strict lock has its own", func(l *Lock, _ *Tenure, _ *Call) { l.Kind.Strict = true }, false},
		{"the client closes", func(l *Lock, _ *Tenure, _ *Call) { l.client.closed = true }, false},
		{"it was passed to its caller", func(_ *Lock, n *Tenure, _ *Call) { n.entry = Resume }, false},
	} {
		l, w := waiter()
		next := &Call{Owner: 2, Waits: true, Until: Never, asleep: true, alarm: Never}
		l.line.join(next)
		n := l.asks(w, Join)
		n.place, n.shown, n.alarm = InQueue, oneLevel(1, Alone), Never
		c.change(l, n, next)
		had := next.Tenure
		l.client.TakeEffects(at(0))
		l.leave(w, Cancelled, at(50))
		asked := l.client.TakeEffects(at(0))
		switch {
		case w.Tenure != nil || w.Outcome != Cancelled:
			t.Errorf("%s: the waiter has a ticket: %v, and its outcome is %d", c.name, w.Tenure != nil, w.Outcome)
		case c.passed && (next.Tenure != n || n.Agent != next || n.want != Asked || !n.old || asked[0].Tenure != n || asked[0].Call != next):
			t.Errorf("%s: it is not passed on: %+v", c.name, asked)
		case !c.passed && (next.Tenure != had || n.Agent != nil || n.want != Gone || asked[0].Tenure != n || asked[0].Call != nil):
			t.Errorf("%s: it does not leave: %+v", c.name, asked)
		}
	}
}

// An attempt that a free lock refuses, or one that is about to be, has one more.
func TestWhatAWaiterDoesThatIsDenied(t *testing.T) {
	type did struct {
		outcome Outcome
		attempt attempt
		rest    Time
		hurries bool
	}
	free := func(l *Lock, n *Tenure) Reply { n.place = Unsure; return Reply{} }
	mine := func(want Want) func(l *Lock, n *Tenure) Reply {
		return func(l *Lock, n *Tenure) Reply {
			h := l.newTenure(ID{1, 99}, Alone)
			h.want, h.place, h.fails, h.again = want, Owner, 3, 900
			return Reply{Holder: h.ID}
		}
	}
	for _, c := range []struct {
		name    string
		waits   bool
		change  func(*Call, *Tenure)
		setting func(l *Lock, n *Tenure) Reply
		did     did
	}{
		{"a try at a free lock", false, nil, free, did{Waiting, triesAgain, 0, false}},
		{"a Lock at a free lock", true, nil, free, did{Waiting, tried, 0, false}},
		{"a second time", false, func(w *Call, _ *Tenure) { w.attempt = triedAgain }, free, did{Waiting, triedAgain, 0, false}},
		{"a foreign client has it", false, nil, func(*Lock, *Tenure) Reply { return Reply{Foreign: true} }, did{Waiting, tried, 0, false}},
		{"another client has it", false, nil, func(*Lock, *Tenure) Reply { return Reply{Holder: ID{2, 1}} }, did{Waiting, tried, 0, false}},
		{"this client releases it", false, nil, mine(Gone), did{Waiting, triesAgain, 0, true}},
		{"this client has it", false, nil, mine(Held), did{Waiting, tried, 0, false}},
		{"its time is up", true, func(w *Call, n *Tenure) { w.Until, n.entry, n.place = 50, Join, InQueue }, mine(Held), did{TimedOut, tried, 0, false}},
		{"its time is up, and its ticket is nowhere", true, func(w *Call, n *Tenure) { w.Until, n.entry, n.place = 50, Join, Out }, mine(Held), did{Waiting, tried, 0, false}},
	} {
		l, w := waiter()
		w.Waits, w.fails = c.waits, 4
		n := l.asks(w, Acquire)
		n.place = Out
		if c.change != nil {
			c.change(w, n)
		}
		a := c.setting(l, n)
		l.denied(w, n, a, at(50))
		h := l.Find(a.Holder)
		got := did{w.Outcome, w.attempt, w.rest, h != nil && h.again == 0}
		if got != c.did || w.fails != 0 {
			t.Errorf("%s: %+v after %d faults", c.name, got, w.fails)
		}
		if subscribes := l.hears == asking; subscribes != (c.waits && w.Outcome == Waiting) {
			t.Errorf("%s: it subscribes: %v", c.name, subscribes)
		}
	}
}

func TestWhatAWaiterAsksFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Lock, *Call)
		entry   Op // of its ticket
		hears   hearing
		outcome Outcome
	}{
		{"the first attempt", func(_ *Lock, w *Call) { w.attempt = tries }, Acquire, deaf, Waiting},
		{"of a client that is told of grants", func(l *Lock, w *Call) { w.attempt, l.hears = tries, listening }, Join, listening, Waiting},
		{"and one that is all", func(l *Lock, w *Call) { w.attempt, l.hears, w.Waits = tries, listening, false }, Acquire, listening, Waiting},
		{"and one that waits for a moment", func(l *Lock, w *Call) { w.attempt, l.hears, w.Until = tries, listening, 52 }, Acquire, listening, Waiting},
		{"the next one", func(*Lock, *Call) {}, None, asking, Waiting},
		{"while it subscribes", func(l *Lock, _ *Call) { l.hears, l.patient = asking, 51 }, None, asking, Waiting},
		{"which takes too long", func(l *Lock, _ *Call) { l.hears, l.patient = asking, 50 }, Join, asking, Waiting},
		{"without pub/sub", func(l *Lock, _ *Call) { l.hears = refused }, Join, refused, Waiting},
		{"a short wait", func(_ *Lock, w *Call) { w.Until = 52 }, None, deaf, Waiting},
		{"one that is over", func(_ *Lock, w *Call) { w.Until = 50 }, None, deaf, TimedOut},
		{"one that is over, with an attempt left", func(_ *Lock, w *Call) { w.Until, w.attempt = 50, tries }, Acquire, deaf, Waiting},
		{"one attempt, that was made", func(_ *Lock, w *Call) { w.Waits = false }, None, deaf, Denied},
		{"one attempt, that was made while another decides", func(l *Lock, w *Call) { w.Waits = false; isBusy(l) }, None, deaf, Denied},
		{"one attempt, while another decides", func(l *Lock, w *Call) { w.Waits, w.attempt = false, tries; isBusy(l) }, None, deaf, Waiting},
		{"another decides", func(l *Lock, w *Call) { w.attempt = tries; isBusy(l) }, None, deaf, Waiting},
	} {
		l, w := waiter()
		w.rest = 40
		c.change(l, w)
		l.seekFor(w, at(50))
		got := None
		if w.Tenure != nil {
			got = w.Tenure.entry
		}
		if got != c.entry || l.hears != c.hears || w.Outcome != c.outcome || w.rest != 0 {
			t.Errorf("%s: it enters by %d, hears %d, outcome %d, rests until %d", c.name, got, l.hears, w.Outcome, w.rest)
		}
	}
}

// The goroutine of a waiter is told of a time that is sooner than the one it knows, unless it polls a ticket.
func TestWhenAWaiterIsToldOfItsTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock, *Call)
		told   bool
	}{
		{"it knows of a later one", func(_ *Lock, w *Call) { w.alarm = 101 }, true},
		{"it is awake", func(_ *Lock, w *Call) { w.alarm, w.asleep = 101, false }, false},
		{"it knows of it", func(_ *Lock, w *Call) { w.alarm = 100 }, false},
		{"it has a ticket", func(l *Lock, w *Call) { w.alarm = 101; l.asks(w, Join) }, false},
		{"it has left", func(l *Lock, w *Call) { w.alarm = 101; l.line.leave(w) }, false},
	} {
		l, w := waiter()
		w.rest, w.asleep = 200, true
		c.change(l, w)
		l.client.TakeEffects(at(0))
		l.seekFor(w, at(50))
		if told := len(l.client.Effects) == 1 && l.client.Effects[0].Tenure == nil && l.client.Effects[0].Call == w; told != c.told {
			t.Errorf("%s: %v", c.name, told)
		}
	}
}

func TestASubscriptionThatTakesTooLongIsGivenUp(t *testing.T) {
	for now, want := range map[Time]hearing{69: asking, 70: refused} {
		l, w := waiter()
		l.hears, l.patient, w.rest = asking, 70, 90
		l.tick(w, at(now))
		if l.hears != want {
			t.Errorf("at %d: %d", now, l.hears)
		}
	}
}

// Each waiter of a strict lock has a ticket, and another one after its rest.
func TestAnyWaiterOfAStrictLockTakesAnotherTicket(t *testing.T) {
	l, _ := waiter()
	l.Kind.Strict, l.hears = true, listening
	second := &Call{Owner: 2, Waits: true, Until: Never, waiting: waiting{rest: 50}}
	l.line.join(second)
	if l.tick(second, at(49)); second.Tenure != nil {
		t.Error("it rests")
	}
	if l.tick(second, at(50)); second.Tenure == nil || second.Tenure.entry != Join {
		t.Error("it has no ticket")
	}
}

// A call that has ended returns, whatever timer was late.
func TestACallThatHasEndedStaysSo(t *testing.T) {
	l, w := waiter()
	l.leave(w, Cancelled, at(50))
	l.client.TakeEffects(at(0))
	if a := l.Next(w, false, at(100)); a.Do != Returns || w.Outcome != Cancelled || len(l.client.TakeEffects(at(0))) > 0 {
		t.Errorf("outcome %d", w.Outcome)
	}
}
