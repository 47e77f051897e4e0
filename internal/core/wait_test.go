package core

import "testing"

// waits returns a lock with a waiter that may wait until 100.
func waits() (*Lock, *Waiter) {
	c, _ := driven()
	l := c.NewLock(Kind{})
	w := &Waiter{Owner: 1, Waits: true, Until: 100, alarm: Never}
	l.line.join(w)
	return l, w
}

// isBusy puts the acquire of a caller that has left in flight.
func isBusy(l *Lock) { l.newTenure(ID{1, false, 9}, Alone).flight.op = Acquire }

func TestWhenTheTimeOfAWaiterComes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock, *Waiter)
		now    Time
		due    Time
	}{
		{"its wait is over", func(*Lock, *Waiter) {}, 10, 100},
		{"its ticket is looked for a last time", func(l *Lock, w *Waiter) { l.asks(w, Queued); w.last = true }, 10, Never},
		{"its ticket has the time", func(l *Lock, w *Waiter) { l.asks(w, Queued); w.rest = 50 }, 10, 100},
		{"it rests", func(_ *Lock, w *Waiter) { w.rest = 50 }, 10, 50},
		{"it rests for longer than it waits", func(_ *Lock, w *Waiter) { w.rest = 150 }, 10, 100},
		{"it calls again", func(_ *Lock, w *Waiter) { w.retried, w.attempts, w.rest = true, 1, 150 }, 10, 150},
		{"it has called again", func(_ *Lock, w *Waiter) { w.retried, w.rest = true, 150 }, 10, 100},
		{"it called again, without an answer", func(_ *Lock, w *Waiter) { w.retried, w.attempts, w.rest, w.fails = true, 1, 150, 1 }, 10, 100},
		{"it may call again at once", func(_ *Lock, w *Waiter) { w.retried, w.attempts = true, 1 }, 10, 100},
		{"a subscription is under way", func(l *Lock, _ *Waiter) { l.hears, l.patient = asking, 70 }, 10, 70},
		{"it is late", func(l *Lock, _ *Waiter) { l.hears, l.patient = asking, 5 }, 10, 10},
		{"it hears", func(l *Lock, _ *Waiter) { l.hears, l.patient = listening, 70 }, 10, 100},
		{"another one is before it", func(l *Lock, w *Waiter) {
			l.line.leave(w)
			l.line.join(&Waiter{Owner: 2})
			l.line.join(w)
			l.hears, l.patient = asking, 70
		}, 10, 100},
		{"an answer decides", func(l *Lock, w *Waiter) { w.attempts = 1; isBusy(l) }, 100, 250}, // it was sent at 0
		{"a release decides", func(l *Lock, w *Waiter) {
			w.attempts = 1
			n := l.newTenure(ID{1, false, 9}, Alone)
			n.place, n.gone = Owner, 50
		}, 100, 300},
		{"an answer decides, before its time is up", func(l *Lock, w *Waiter) { w.attempts = 1; isBusy(l) }, 99, 100},
		{"an answer decides nothing for it", func(l *Lock, w *Waiter) { isBusy(l) }, 100, 100},
	} {
		l, w := waits()
		c.change(l, w)
		if due := l.Due(w, at(c.now)); due != c.due || w.alarm != c.due {
			t.Errorf("%s: at %d, and its goroutine was told %d", c.name, due, w.alarm)
		}
	}
}

func TestWhatBecomesOfAWaiterWhoseTimeIsUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Lock, *Waiter)
		now     Time
		outcome Outcome
		last    bool
	}{
		{"it has no ticket", func(*Lock, *Waiter) {}, 100, TimedOut, false},
		{"its time is not up", func(*Lock, *Waiter) {}, 99, Waiting, false},
		{"its join is in flight", func(l *Lock, w *Waiter) { l.asks(w, Queued).send(Join, at(1)) }, 100, Waiting, true},
		{"its ticket was not sent", func(l *Lock, w *Waiter) { l.asks(w, Queued) }, 100, Waiting, true},
		{"its ticket is in the queue", func(l *Lock, w *Waiter) { l.asks(w, Queued).place = InQueue }, 100, Waiting, true},
		{"Redis does not answer", func(l *Lock, w *Waiter) { n := l.asks(w, Queued); n.place, n.fails = InQueue, 1 }, 100, TimedOut, false},
		{"an answer decides", func(l *Lock, w *Waiter) { w.attempts = 1; isBusy(l) }, 249, Waiting, false},
		{"an answer does not come", func(l *Lock, w *Waiter) { w.attempts = 1; isBusy(l) }, 250, TimedOut, false},
		{"an answer is for another one", func(l *Lock, w *Waiter) {
			l.owner = held().owner
			l.owner.lock, l.owner.trust.until = l, 900
			w.attempts = 1
			isBusy(l)
		}, 101, TimedOut, false},
	} {
		l, w := waits()
		l.line.join(&Waiter{Owner: 2, Waits: true, Until: Never, rest: Never})
		c.change(l, w)
		n := w.Ticket()
		if n != nil {
			n.look = Never
		}
		l.Tick(w, at(c.now))
		if w.Outcome() != c.outcome || w.last != c.last {
			t.Errorf("%s: %d, last %v", c.name, w.Outcome(), w.last)
		}
		if c.last && n.place == InQueue && n.look != c.now {
			t.Errorf("%s: it is looked for at %d", c.name, n.look)
		}
	}
}

func TestWhatAWaiterDoesAfterACommandWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name     string
		want     Want
		change   func(*Waiter, *Tenure)
		fault    Fault
		outcome  Outcome
		rest     Time
		attempts int8
	}{
		{"an acquire", Tried, func(*Waiter, *Tenure) {}, Unknown, Waiting, 60, 1},
		{"a join", Queued, func(*Waiter, *Tenure) {}, Unknown, Waiting, 60, 0},
		{"the third", Tried, func(w *Waiter, _ *Tenure) { w.fails = 2 }, NotRun, Waiting, 90, 1},
		{"its tenure rests for longer", Queued, func(_ *Waiter, n *Tenure) { n.again = 95 }, Unknown, Waiting, 95, 0},
		{"Redis refuses for good", Tried, func(*Waiter, *Tenure) {}, Fatal, Failed, 60, 1},
		{"its time is up", Tried, func(w *Waiter, _ *Tenure) { w.Until = 50 }, Unknown, TimedOut, 60, 1},
		{"it does not wait", Tried, func(w *Waiter, _ *Tenure) { w.Waits = false }, Unknown, TimedOut, 60, 1},
	} {
		l, w := waits()
		n := l.asks(w, c.want)
		c.change(w, n)
		fails := w.fails
		l.unanswered(w, n, c.fault, at(50))
		if w.Outcome() != c.outcome || w.rest != c.rest || w.attempts != c.attempts || w.fails != fails+1 {
			t.Errorf("%s: %d, rests until %d, %d attempts", c.name, w.Outcome(), w.rest, w.attempts)
		}
	}
}

func TestWhenALockIsBusy(t *testing.T) {
	for _, c := range []struct {
		op    Op
		want  Want
		place Place
		fails int32
		busy  bool
	}{
		{Acquire, Tried, Unsure, 0, true}, {Join, Queued, Unsure, 0, true}, {Join, Gone, Unsure, 2, true},
		{Look, Queued, InQueue, 0, false}, {None, Queued, InQueue, 0, false},
		{None, Gone, Owner, 0, true}, {Leave, Gone, InQueue, 0, true}, {None, Gone, Owner, 1, false},
		{None, Gone, Unsent, 0, false}, {None, Gone, Over, 0, false},
	} {
		l, n := tenure()
		n.flight.op, n.want, n.place, n.fails = c.op, c.want, c.place, c.fails
		if l.busy() != c.busy {
			t.Errorf("%+v: %v", c, l.busy())
		}
	}
}

func TestWhichWaitsAreWorthATicket(t *testing.T) {
	l, w := waits()
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
		change func(*Lock, *Tenure, *Waiter)
		passed bool
	}{
		{"the next one waits", func(*Lock, *Tenure, *Waiter) {}, true},
		{"it has one", func(l *Lock, _ *Tenure, next *Waiter) { l.asks(next, Queued) }, false},
		{"it does not wait", func(_ *Lock, _ *Tenure, next *Waiter) { next.Waits = false }, false},
		{"it reads", func(_ *Lock, _ *Tenure, next *Waiter) { next.Mode = Shared }, false},
		{"its wait is too short", func(_ *Lock, _ *Tenure, next *Waiter) { next.Until = 54 }, false},
		{"each of a strict lock has its own", func(l *Lock, _ *Tenure, _ *Waiter) { l.Kind.Strict = true }, false},
		{"the client closes", func(l *Lock, _ *Tenure, _ *Waiter) { l.client.closed = true }, false},
		{"it was passed to its caller", func(_ *Lock, n *Tenure, _ *Waiter) { n.want = Resumed }, false},
	} {
		l, w := waits()
		next := &Waiter{Owner: 2, Waits: true, Until: Never}
		l.line.join(next)
		n := l.asks(w, Queued)
		n.place, n.shown, n.alarm = InQueue, oneLevel(1, Alone), Never
		c.change(l, n, next)
		had := next.ticket
		l.client.Effects()
		l.leave(w, Cancelled, at(50))
		asked := l.client.Effects()
		switch {
		case w.ticket != nil || w.outcome != Cancelled:
			t.Errorf("%s: the waiter has a ticket: %v, and its outcome is %d", c.name, w.ticket != nil, w.outcome)
		case c.passed && (next.ticket != n || n.waiter != next || n.want != Queued || n.shown != shape{} || asked[0].Tenure != n || asked[0].Waiter != next):
			t.Errorf("%s: it is not passed on: %+v", c.name, asked)
		case !c.passed && (next.ticket != had || n.waiter != nil || n.want != Gone || asked[0].Tenure != n || asked[0].Waiter != nil):
			t.Errorf("%s: it does not leave: %+v", c.name, asked)
		}
	}
}

// An attempt that a free lock refuses, or one that is about to be, has one more.
func TestWhatAWaiterDoesThatIsDenied(t *testing.T) {
	type did struct {
		outcome  Outcome
		attempts int8
		rest     Time
		hurries  bool
	}
	free := func(l *Lock, n *Tenure) Reply { n.place = Refused; return Reply{} }
	mine := func(want Want) func(l *Lock, n *Tenure) Reply {
		return func(l *Lock, n *Tenure) Reply {
			h := l.newTenure(ID{1, false, 99}, Alone)
			h.want, h.place, h.fails, h.again = want, Owner, 3, 900
			return Reply{Holder: h.ID}
		}
	}
	for _, c := range []struct {
		name    string
		waits   bool
		change  func(*Waiter, *Tenure)
		setting func(l *Lock, n *Tenure) Reply
		did     did
	}{
		{"a try at a free lock", false, nil, free, did{Waiting, 1, 0, false}},
		{"a Lock at a free lock", true, nil, free, did{Waiting, 0, 0, false}},
		{"a second time", false, func(w *Waiter, _ *Tenure) { w.retried = true }, free, did{Waiting, 0, 0, false}},
		{"a foreign client has it", false, nil, func(*Lock, *Tenure) Reply { return Reply{Foreign: true} }, did{Waiting, 0, 0, false}},
		{"another client has it", false, nil, func(*Lock, *Tenure) Reply { return Reply{Holder: ID{2, false, 1}} }, did{Waiting, 0, 0, false}},
		{"this client releases it", false, nil, mine(Gone), did{Waiting, 1, 0, true}},
		{"this client has it", false, nil, mine(Held), did{Waiting, 0, 0, false}},
		{"it lingers", true, nil, func(*Lock, *Tenure) Reply { return Reply{Holder: ID{2, true, 1}} }, did{Waiting, 1, 57, false}},
		{"it lingers, for a ticket", true, func(_ *Waiter, n *Tenure) { n.want, n.place = Queued, InQueue }, func(*Lock, *Tenure) Reply { return Reply{Holder: ID{2, true, 1}} }, did{Waiting, 0, 0, false}},
		{"the last look", true, func(w *Waiter, n *Tenure) { w.last, n.want, n.place = true, Queued, InQueue }, mine(Held), did{TimedOut, 0, 0, false}},
		{"the last look found it nowhere", true, func(w *Waiter, n *Tenure) { w.last, n.want, n.place = true, Queued, Over }, mine(Held), did{Waiting, 0, 0, false}},
	} {
		l, w := waits()
		w.Waits, w.CallTime, w.fails = c.waits, 7, 4
		n := l.asks(w, Tried)
		n.place = Over
		if c.change != nil {
			c.change(w, n)
		}
		a := c.setting(l, n)
		l.denied(w, n, a, at(50))
		h := l.tenures.find(a.Holder)
		got := did{w.outcome, w.attempts, w.rest, h != nil && h.again == 0}
		if got != c.did || w.fails != 0 {
			t.Errorf("%s: %+v after %d faults", c.name, got, w.fails)
		}
		if subscribes := l.hears == asking; subscribes != (c.waits && w.outcome == Waiting) {
			t.Errorf("%s: it subscribes: %v", c.name, subscribes)
		}
	}
}
