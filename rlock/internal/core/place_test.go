package core

import "testing"

// asked returns a tenure whose command was sent at 100 and is answered, and the flight of it.
// A wanted is a want, and of a ticket the command by which it enters.
type wanted struct {
	Want
	entry Op
}

var byAcquire, byJoin, byResume = wanted{Asked, Acquire}, wanted{Asked, Join}, wanted{Asked, Resume}

func asked(op Op, want wanted, place Place) (*Lock, *Tenure, flight) {
	l, n := tenure()
	n.want, n.entry, n.place, n.fails, n.again, n.step, n.shown = want.Want, want.entry, place, 3, 900, true, oneLevel(1, Alone)
	lease := Span(30_000)
	if op == Join {
		lease = 2_000
	}
	return l, n, flight{op: op, at: at(100), lease: lease}
}

func TestWhatAnAnswerSaysOfTheTenure(t *testing.T) {
	other := ID{2, 1}
	for _, c := range []struct {
		name   string
		op     Op
		want   wanted
		place  Place
		reply  Reply
		now    Time
		then   Place
		marked bool
	}{
		{"an acquire has the lock", Acquire, byAcquire, Unsure, Reply{Found: Holds}, 200, Owner, false},
		{"a join has it", Join, byJoin, Unsure, Reply{Found: Holds}, 200, Owner, true},
		{"a look has it", Look, byJoin, InQueue, Reply{Found: Holds}, 200, Owner, true},
		{"a resume has it", Resume, byResume, Unsure, Reply{Found: Holds}, 200, Owner, false},
		{"a resume's answer comes after its lease", Resume, byResume, Unsure, Reply{Found: Holds}, 30_100, Unsure, false},
		{"a resume is late", Resume, byResume, Unsure, Reply{Holder: other}, 200, Out, false},
		{"a mirror has it", Mirror, wanted{Want: Held}, Owner, Reply{Found: Holds}, 200, Owner, false},
		{"a join's answer leaves too little of the claim", Join, byJoin, Unsure, Reply{Found: Holds}, 1_200, InQueue, true},
		{"a look's answer comes after its lease", Look, byJoin, InQueue, Reply{Found: Holds}, 30_100, InQueue, true},
		{"a mirror's answer does", Mirror, wanted{Want: Held}, Owner, Reply{Found: Holds}, 30_100, Owner, false},
		{"an acquire finds a free lock, and tickets", Acquire, byAcquire, Unsure, Reply{}, 200, Unsure, false},
		{"an acquire finds a holder", Acquire, byAcquire, Unsure, Reply{Holder: other}, 200, Out, false},
		{"an acquire finds a foreign holder", Acquire, byAcquire, Unsure, Reply{Foreign: true}, 200, Out, false},
		{"a look does not find the ticket", Look, byJoin, InQueue, Reply{}, 200, Out, false},
		{"a mirror does not find the tenure", Mirror, wanted{Want: Held}, Owner, Reply{}, 200, Unsure, false},
		{"a mirror finds another one", Mirror, wanted{Want: Held}, Owner, Reply{Holder: other}, 200, Unsure, false},
		{"a ticket waits", Join, byJoin, Unsure, Reply{Found: Waits, Holder: other, TTL: 9}, 200, InQueue, false},
		{"a ticket is the first", Look, byJoin, InQueue, Reply{Found: First, Holder: other, TTL: 9}, 200, InQueue, false},
		{"a step", Step, wanted{Want: Held}, Owner, Reply{}, 200, Owner, false},
		{"a leave", Leave, wanted{Want: Gone}, Owner, Reply{Left: true}, 200, Out, false},
	} {
		_, n, f := asked(c.op, c.want, c.place)
		if n.late = 900; c.op == Leave || c.op == Acquire { // else a command that was sent before may run yet
			n.late = 0
		}
		n.answered(f, c.reply, at(c.now))
		if n.place != c.then || n.marked != c.marked || n.fails != 0 || n.again != 0 || n.step != (c.op != Step) {
			t.Errorf("%s: place %d, marked %v, fails %d until %d, step %v", c.name, n.place, n.marked, n.fails, n.again, n.step)
		}
		if late := c.then == InQueue && c.reply.Found == Holds; late && n.look != c.now {
			t.Errorf("%s: it is looked for at %d", c.name, n.look)
		}
	}
}

// A free lock that tickets wait for needs a step: the Join of the call that was refused it, or else a Leave.
func TestARefusedAttemptIsFollowedByAStep(t *testing.T) {
	for waits, next := range map[bool]Place{true: Out, false: Unsure} {
		l, w := waiter()
		w.Waits = waits
		n := l.asks(w, Acquire)
		l.Answer(ptr(n.send(Acquire, at(1))), nil, Reply{}, at(2))
		if op, _ := l.Peek(n, at(2)); n.want != Gone || n.place != next || (op == Leave) == waits {
			t.Errorf("a call that waits (%v) leaves want %d, place %d, and %d is due", waits, n.want, n.place, op)
		}
	}
}

func ptr(c Command) *Command { return &c }

func TestWhatACommandWithoutAnAnswerLeaves(t *testing.T) {
	for _, c := range []struct {
		op    Op
		want  wanted
		place Place
		fault Fault
		then  Place
		late  Time
		shown bool
	}{
		{Acquire, byAcquire, Unsure, Unknown, Unsure, 30_200, true},
		{Acquire, byAcquire, Unsure, NotRun, Out, 0, true},
		{Join, byJoin, Unsure, Unknown, Unsure, 30_200, true},
		{Join, byJoin, Unsure, Fatal, Out, 0, true},
		{Resume, byResume, Unsure, Unknown, Unsure, 30_200, true},
		{Resume, byResume, Unsure, NotRun, Unsure, 0, true}, // it is sent again
		{Look, byJoin, InQueue, Unknown, InQueue, 30_200, true},
		{Look, byJoin, InQueue, NotRun, InQueue, 0, true},
		{Look, byJoin, InQueue, Fatal, InQueue, 0, true},
		{Mirror, wanted{Want: Held}, Owner, Unknown, Owner, 30_200, false},
		{Mirror, wanted{Want: Held}, Owner, NotRun, Owner, 0, false},
		{Mirror, wanted{Want: Held}, Owner, Fatal, Out, 0, true}, // another key is in its place
		{Step, wanted{Want: Held}, Owner, Unknown, Owner, 0, true},
		{Leave, wanted{Want: Gone}, Owner, Unknown, Owner, 0, true},
		{Leave, wanted{Want: Gone}, Owner, Fatal, Out, 0, true},
	} {
		_, n, f := asked(c.op, c.want, c.place)
		n.answered(f, Reply{Fault: c.fault}, at(200))
		if n.place != c.then || n.late != c.late || n.old == c.shown || n.step != (c.op != Step) {
			t.Errorf("%+v: place %d, late %d, shown %v, step %v", c, n.place, n.late, n.shown, n.step)
		}
		if n.again != 200+80 || n.fails != 4 {
			t.Errorf("%+v: it rests until %d", c, n.again)
		}
	}
}

func TestAGrantToATenureThatIsGone(t *testing.T) {
	for _, op := range []Op{None, Leave} {
		_, n, f := asked(op, wanted{Want: Gone}, Unsure)
		n.flight, n.since = f, 50
		if n.granted(Message{}, at(200)); n.place != Owner || n.since != 200 || n.again != 0 || n.fails != 0 || (n.news == grant) != (op == Leave) {
			t.Errorf("%d: place %d, gone since %d, news %d", op, n.place, n.since, n.news)
		}
		if op == Leave { // whose answer may be older than the grant
			if n.answered(f, Reply{Left: true}, at(201)); n.place != Owner || n.news != noNews {
				t.Errorf("place %d, news %d", n.place, n.news)
			}
		}
	}
}

func TestADoubtDoesNotOutdoAGrant(t *testing.T) {
	_, n, f := asked(Join, byJoin, Unsure)
	n.flight = f
	n.granted(Message{}, at(150))
	if n.doubted(at(160)); n.news != grant {
		t.Errorf("news %d", n.news)
	}
	_, n, f = asked(Look, byJoin, InQueue)
	n.flight = f
	if n.doubted(at(150)); n.news != doubt {
		t.Errorf("news %d", n.news)
	}
	if n.answered(f, Reply{Found: Waits}, at(160)); n.look != 160 || n.news != noNews {
		t.Errorf("it is looked for at %d, news %d", n.look, n.news)
	}
}

// A message is believed of a ticket in the queue, for a claim that began after the ticket was last found there, and while
// a command is in flight when that is answered.
func TestWhatAGrantChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   wanted
		place  Place
		op     Op // in flight
		then   Place
		news   news
		tokens uint64
		marked bool
	}{
		{"a ticket in the queue", byJoin, InQueue, None, Owner, noNews, 7, true},
		{"it is looked for", byJoin, InQueue, Look, InQueue, grant, 7, false},
		{"it joins", byJoin, Unsure, Join, Unsure, grant, 7, false},
		{"its join had no answer", byJoin, Unsure, None, Unsure, noNews, 0, false},
		{"an attempt", byAcquire, InQueue, Look, InQueue, noNews, 0, false},
		{"a hold", wanted{Want: Held}, Owner, Mirror, Owner, noNews, 0, false},
		{"a lock that is passed on", wanted{Want: Parted}, Owner, Mirror, Owner, noNews, 0, false},
	} {
		_, n := tenure()
		n.want, n.entry, n.place, n.flight.op, n.tokens.reserved, n.trust.seen = c.want.Want, c.want.entry, c.place, c.op, 1, at(50)
		n.granted(Message{Token: 7, Tokens: 1}, at(60))
		if n.place != c.then || n.news != c.news || n.tokens.current != c.tokens || n.marked != c.marked {
			t.Errorf("%s: place %d, news %d, token %d, marked %v", c.name, n.place, n.news, n.tokens.current, n.marked)
		}
	}
}

// A guarded write that Redis refuses says that the lock is free, or another's: a step is due.
func TestATenureThatIsFencedMayHaveLeftAMark(t *testing.T) {
	l := held(writes(1, NeverSafe))
	n := l.owner
	wrote(l, n.ID, Alone, Reply{Found: Nowhere}, at(50))
	if op, _ := l.Peek(n, at(50)); n.place != Owner || op != Leave || l.IsHeld() {
		t.Errorf("place %d, and %d is due", n.place, op)
	}
}
