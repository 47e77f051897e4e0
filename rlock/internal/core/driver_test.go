package core

import "testing"

// What the driver of package rlock has met, each as the shortest order of events.

func driven() (*Client, *Lock) {
	c := &Client{ID: 1, Config: Config{
		Lease: 30_000, Claim: 2_000, QueueTime: 60_000, Margin: 12, LookTime: 2_000, Slack: 1, Retry: 10, MaxRetry: 500,
		FirstPoll: 1, LastPoll: 128, Silence: 250, Patience: 250, LeastWait: 5, HandoffLimit: 100, HandoffTime: 10,
	}}
	return c, c.NewLock(Kind{Strict: true})
}

func at(t Time) Now { return Now{t, SafeTime(t)} }

// sendFor returns the command of the call, which must be this one.
func sendFor(t *testing.T, l *Lock, w *Call, now Now, want Op) Command {
	t.Helper()
	a := l.Next(w, true, now)
	if a.Do != Sends || a.Op != want {
		t.Fatalf("the call does %d, command %d, not %d", a.Do, a.Op, want)
	}
	return l.Command(w, a.Op, now)
}

// has reports whether the tenure is one of the lock that is not over.
func has(l *Lock, n *Tenure) bool { return n.lock == l }

// effects takes the effects, and returns those of the kind.
func effects(l *Lock, k EffectKind) []Effect { return effectsAt(l, k, at(0)) }

func effectsAt(l *Lock, k EffectKind, now Now) (all []Effect) {
	for _, e := range l.client.TakeEffects(now) {
		if e.Kind == k {
			all = append(all, e)
		}
	}
	return all
}

// releasing returns a call that is about to release the tenure.
func releasing(l *Lock, n *Tenure) *Call {
	c := &Call{Until: Never}
	l.Release(n, c)
	return c
}

// force is the answer to the release of a tenure by force, and wrote that to a guarded write.
func force(l *Lock, id ID, now Now) {
	l.Answer(&Command{Op: Leave, Ticket: Ticket{ID: id}}, nil, Reply{Left: true}, now)
}

func wrote(l *Lock, id ID, m Mode, a Reply, now Now) {
	l.Answer(&Command{Op: Write, Ticket: Ticket{ID: id, Mode: m}}, nil, a, now)
}

// Once this client is told of grants a call begins with a ticket; but not one whose wait is not worth a ticket.
func TestAShortWaitTriesToTakeTheLockAlthoughTheClientListens(t *testing.T) {
	_, l := driven()
	l.Listening(true, at(0))
	short := &Call{Owner: 1, Waits: true, Until: 3}
	l.Lock(short, at(0))
	sendFor(t, l, short, at(0), Acquire)
	long := &Call{Owner: 2, Waits: true, Until: Never}
	l.Lock(long, at(0))
	sendFor(t, l, long, at(0), Join)
}

// Each attempt is another tenure; the pauses between them grow all the same.
func TestThePausesBetweenAttemptsGrow(t *testing.T) {
	_, l := driven()
	w := &Call{Owner: 1, Waits: true, Until: Never}
	l.Lock(w, at(0))
	now := at(0)
	for _, pause := range []Time{10, 20, 40, 80, 160, 320, 500, 500} {
		cmd := sendFor(t, l, w, now, Acquire)
		l.Answer(&cmd, nil, Reply{Fault: NotRun}, now)
		if due := l.Wakes(w, now); due != now.Time+pause {
			t.Fatalf("the next attempt comes after %d, not %d", due-now.Time, pause)
		}
		now = at(now.Time + pause)
		l.tick(w, now)
	}
}

// The release of a tenure does not wait since another command about it had no answer.
func TestTheReleaseOfATenureIsAnotherCommand(t *testing.T) {
	_, l := driven()
	w := &Call{Owner: 1, Waits: true, Until: Never}
	l.Lock(w, at(0))
	cmd := sendFor(t, l, w, at(0), Acquire)
	tenure := w.Tenure
	l.Leave(w, Cancelled, at(1))
	l.Answer(&cmd, nil, Reply{Fault: Unknown}, at(2))
	if op, due := l.Peek(tenure, at(2)); op != Leave || due > 2 {
		t.Fatalf("%d is due at %d, and not the Leave at once", op, due)
	}
	if !l.Busy() {
		t.Fatal("its answer decides whose the lock is")
	}
}

// A message may be forged: it ends no hold that is valid by an answer of Redis.
func TestAGrantEndsNoHoldThatIsValid(t *testing.T) {
	c, l := driven()
	l.Listening(true, at(0))
	holder, waits := &Call{Owner: 1, Waits: true, Until: 3}, &Call{Owner: 2, Waits: true, Until: Never}
	l.Lock(holder, at(0))
	cmd := sendFor(t, l, holder, at(0), Acquire)
	l.Answer(&cmd, nil, Reply{Found: Holds}, at(0))
	l.Lock(waits, at(0))
	cmd = sendFor(t, l, waits, at(0), Join)
	l.Answer(&cmd, nil, Reply{Found: First, Holder: l.Owner().ID, TTL: 30_000}, at(0))
	c.TakeEffects(at(0))
	l.Hear(Message{Kind: Granted, ID: waits.Tenure.ID}, at(1))
	if !l.Holds(1, at(1)) || waits.Outcome != Waiting {
		t.Fatal("the hold has ended")
	}
	if op, due := l.Peek(l.Owner(), at(1)); op != Mirror || due > 1 {
		t.Fatal("Redis is not asked about the hold")
	}
	if op, due := l.Peek(waits.Tenure, at(1)); op != Look || due > 1 {
		t.Fatal("Redis is not asked about the ticket")
	}
}

// A call that rests after a fault, and whose time is up, waits for the answer to an abandoned command and for nothing else.
func TestACallThatRestsIsNotDueAtOnce(t *testing.T) {
	_, l := driven()
	first := &Call{Owner: 1, Waits: true, Until: Never}
	l.Lock(first, at(0))
	cmd := sendFor(t, l, first, at(0), Acquire)
	second := &Call{Owner: 2, Waits: true, Until: 4}
	l.Lock(second, at(0))
	l.Leave(first, Cancelled, at(1))
	_ = cmd
	second.rest = 9
	for now := Time(4); now < 9; now++ {
		l.tick(second, at(now))
		if second.Outcome != Waiting {
			return
		}
		if due := l.Wakes(second, at(now)); due <= now {
			t.Fatalf("at %d it is due at %d", now, due)
		}
	}
}

// A lease longer than the client's is not sent again when its rest is shorter.
func TestALongLeaseThatGoesOnIsToldOnce(t *testing.T) {
	_, l := driven()
	w := &Call{Owner: 1, Waits: true, Until: 3}
	l.Lock(w, at(0))
	cmd := sendFor(t, l, w, at(0), Acquire)
	l.Answer(&cmd, nil, Reply{Found: Holds}, at(0))
	l.Lock(&Call{Owner: 1, Lease: 31_000, Until: 3}, at(0))
	mirror, _ := l.Poll(l.Owner(), at(0))
	if mirror.Op != Mirror || mirror.Lease != 31_000 {
		t.Fatalf("Redis is not told of the lease: %+v", mirror)
	}
	l.Answer(&mirror, nil, Reply{Found: Holds}, at(0))
	if op, due := l.Peek(l.Owner(), at(2_000)); op != None || due <= 2_000 {
		t.Fatalf("%d is due at %d", op, due)
	}
}

// The connection of the subscription has ended, and a call that needs no command says so. The goroutine of the first
// waiter has to know that it polls soon.
func TestADeafenedLockTellsItsFirstWaiterOfTheTime(t *testing.T) {
	c, l := driven()
	l.Kind = Kind{}
	holder, waits := &Call{Owner: 1, Waits: true, Until: Never}, &Call{Owner: 2, Waits: true, Until: Never}
	l.Lock(holder, at(0))
	cmd := sendFor(t, l, holder, at(0), Acquire)
	l.Answer(&cmd, nil, Reply{Found: Holds}, at(1))
	l.Lock(waits, at(1))
	l.Listening(true, at(1))
	if a := l.Next(waits, false, at(1)); a.Do != Sleeps || a.Until != Never {
		t.Fatalf("the waiter does %d, and is due at %d", a.Do, a.Until)
	}
	c.TakeEffects(at(1))
	l.Deafened(at(2))
	for _, e := range c.TakeEffects(at(2)) {
		if e.Kind == Poll && e.Call == waits {
			return
		}
	}
	t.Fatalf("the waiter sleeps, and is due at %d", l.Wakes(waits, at(2)))
}

// A reader that is held back is due when it may take a ticket, and not before: else its goroutine would spin until the
// subscription is confirmed, or until its time is up.
func TestAReaderThatIsHeldBackIsDueWhenItMayTakeATicket(t *testing.T) {
	held := func(waits *Call) *Lock {
		c, l := driven()
		c.ReadersTime = 1_000
		l.Kind = Kind{}
		holder := &Call{Owner: 1, Mode: Shared, Waits: true, Until: Never}
		l.Lock(holder, at(0))
		cmd := sendFor(t, l, holder, at(0), Acquire)
		l.Answer(&cmd, nil, Reply{Found: Holds}, at(1))
		l.owner.share = share{contested: true, passes: int32(c.HandoffLimit)}
		l.Lock(waits, at(1))
		return l
	}
	tick := func(l *Lock, w *Call, now Now, want Time) {
		t.Helper()
		l.tick(w, now)
		if due := l.Wakes(w, now); due != want {
			t.Errorf("at %d the waiter is due at %d, not %d", now.Time, due, want)
		}
	}
	w := &Call{Owner: 2, Mode: Shared, Waits: true, Until: Never}
	l := held(w)
	l.hears = deaf
	tick(l, w, at(1_001), 1_251) // it subscribes
	tick(l, w, at(1_100), 1_251)
	l.tick(w, at(1_251))
	sendFor(t, l, w, at(1_251), Join)

	short := &Call{Owner: 2, Mode: Shared, Waits: true, Until: 1_003}
	l = held(short)
	l.hears = listening
	tick(l, short, at(1_001), 1_003)
}
