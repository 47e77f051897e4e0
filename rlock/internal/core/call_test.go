package core

import "testing"

// The answer to a renewal is not that to the release, which waits for its slot.
func TestTheAnswerToAnotherCommandIsNotThatOfACall(t *testing.T) {
	l := held(writes(1, NeverSafe))
	n := l.owner
	mirror, _ := l.Poll(n, at(1))
	_, n, _ = l.Unlock(1, Alone, nil, at(2))
	c := releasing(l, n)
	if a := l.Next(c, false, at(2)); a.Do != Queues || a.Until != Never {
		t.Fatalf("it does %d until %d", a.Do, a.Until)
	}
	l.Answer(&mirror, nil, Reply{Found: Holds}, at(3))
	cmd := sendFor(t, l, c, at(3), Leave)
	if a := l.Next(c, false, at(4)); a.Do != Sleeps || a.Until != Never {
		t.Errorf("it does %d until %d", a.Do, a.Until)
	}
	l.Answer(&cmd, c, Reply{Left: true}, at(5))
	l.client.TakeEffects(at(5))
	if a := l.Next(c, false, at(5)); a.Do != Returns || c.Outcome != Done || c.Cause != ByUnlock || !l.Idle() {
		t.Errorf("it does %d, outcome %d, cause %d", a.Do, c.Outcome, c.Cause)
	}
}

// While a release or a pass waits for its slot Redis may say that it does not have the tenure. Then nothing is sent.
func TestAReleaseThatHasNothingToSend(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   Want
		mirror Reply
		sends  Op
		then   Want
	}{
		{"the key is there", Gone, Reply{Found: Holds}, Leave, Gone},
		{"the key is gone, and a step is due", Gone, Reply{}, Leave, Gone},
		{"another key is in its place", Gone, Reply{Fault: Fatal}, None, Gone},
		{"a pass", Parted, Reply{Found: Holds}, Mirror, Parted},
		{"a pass of a key that is gone", Parted, Reply{}, None, Gone},
		{"a pass of a key that is another one now", Parted, Reply{Fault: Fatal}, None, Gone},
	} {
		l := held()
		n := l.owner
		l.client.spare = nil
		n.flight = flight{op: Mirror, seq: 7}
		mirror := Command{Op: Mirror, Tenure: n, tenureSeq: 7}
		l.owner, n.want = nil, c.want
		if c.want == Parted {
			n.within = 10
		}
		call := releasing(l, n)
		l.Next(call, false, at(50))
		l.Answer(&mirror, nil, c.mirror, at(51))
		l.client.TakeEffects(at(51))
		a := l.Next(call, true, at(52))
		if a.Op != c.sends || n.want != c.then || (a.Do == Returns) != (c.sends == None) || a.Do == Returns && call.Cause != KeyGone {
			t.Errorf("%s: it does %d, command %d, want %d, cause %d", c.name, a.Do, a.Op, n.want, call.Cause)
		}
	}
}

// A late answer to a call that has returned does not reach the call that reuses its memory.
func TestAnAnswerToAFormerCall(t *testing.T) {
	l := held(writes(1, NeverSafe))
	c := &Call{Owner: 1, Until: Never}
	l.Write(c)
	cmd := sendFor(t, l, c, at(1), Write)
	l.Leave(c, Cancelled, at(2))
	if a := l.Next(c, false, at(2)); a.Do != Returns || c.Fault != Unknown || c.Found {
		t.Errorf("it does %d, fault %d", a.Do, c.Fault)
	}
	*c = Call{Owner: 1, Until: Never}
	l.Write(c)
	if l.Answer(&cmd, nil, Reply{Found: Holds}, at(3)); c.Outcome != Waiting {
		t.Error("it has the answer of another one")
	}
	cmd = sendFor(t, l, c, at(4), Write)
	if l.Answer(&cmd, c, Reply{Found: Holds}, at(5)); c.Outcome != Done || !c.Found {
		t.Errorf("outcome %d, found %v", c.Outcome, c.Found)
	}
}

// A release whose time is up before it has a slot is the keeper's, and a lock that was not passed on is released.
func TestAReleaseThatWaitsForASlotForTooLong(t *testing.T) {
	for _, want := range []Want{Gone, Parted} {
		l := held()
		n := l.owner
		l.owner, n.want = nil, want
		if want == Parted {
			n.within = 10
		}
		c := releasing(l, n)
		c.Until = 50
		if a := l.Next(c, false, at(49)); a.Do != Queues || a.Until != 50 || n.Agent != c {
			t.Fatalf("it does %d until %d", a.Do, a.Until)
		}
		l.client.TakeEffects(at(49))
		if a := l.Next(c, false, at(50)); a.Do != Returns || c.Cause != Unconfirmed || n.Agent != nil || n.want != Gone || !polled(l, n) {
			t.Errorf("it does %d, cause %d, want %d", a.Do, c.Cause, n.want)
		}
	}
}

// A guarded write and a release by force need no tenure. Their lock exists until they return.
func TestACallWithoutATenureKeepsItsLock(t *testing.T) {
	l := held(writes(1, NeverSafe))
	l.Kind.Fenced = true
	c := &Call{Named: ID{2, 9}, Until: Never}
	l.Force(c)
	cmd := sendFor(t, l, c, at(1), Leave)
	if cmd.ID != c.Named || cmd.Tokens != 1 || cmd.Tenure != nil {
		t.Errorf("%+v", cmd)
	}
	force(l, l.owner.ID, at(2))
	l.client.TakeEffects(at(2))
	l.client.TakeEffects(at(2))
	if l.tenures.len > 0 || l.Idle() {
		t.Errorf("%d tenures, idle %v", l.tenures.len, l.Idle())
	}
	l.Answer(&cmd, c, Reply{Left: true}, at(3))
	if l.Next(c, false, at(3)); !l.Idle() || !c.Found {
		t.Errorf("idle %v, found %v", l.Idle(), c.Found)
	}
}

// A guarded write whose hold is over when it has its slot is not sent.
func TestAWriteThatComesTooLate(t *testing.T) {
	l := held(writes(1, NeverSafe))
	c := &Call{Owner: 1, Until: Never}
	l.Write(c)
	if a := l.Next(c, false, at(1)); a.Do != Queues {
		t.Fatalf("it does %d", a.Do)
	}
	l.Unlock(1, Alone, nil, at(2))
	if a := l.Next(c, true, at(3)); a.Do != Returns || c.Cause != KeyGone {
		t.Errorf("it does %d, cause %d", a.Do, c.Cause)
	}
}

// A tender sends the step of its own tenure, whose memory may be another one's by now.
func TestWhatIsTended(t *testing.T) {
	for name, change := range map[string]func(*Lock, *Tenure){
		"":                         func(*Lock, *Tenure) {},
		"it is another tenure":     func(_ *Lock, n *Tenure) { n.ID.N = 99 },
		"it is over":               func(_ *Lock, n *Tenure) { n.lock = nil },
		"it is of another lock":    func(l *Lock, n *Tenure) { n.lock = l.client.NewLock(Kind{}) },
		"the step was sent":        func(_ *Lock, n *Tenure) { n.step = false },
		"a call is its agent":      func(_ *Lock, n *Tenure) { n.Agent = &Call{} },
		"another one is in flight": func(_ *Lock, n *Tenure) { n.flight.op = Mirror },
	} {
		l := held(reads(1, NeverSafe))
		n := l.owner
		n.mode, n.step = Shared, true
		l.showing(n, at(1))
		n.trust.seen = at(1)
		c := &Call{Until: Never}
		l.Tend(n, c)
		change(l, n)
		a := l.Next(c, true, at(2))
		if tends := a.Do == Sends && a.Op == Step; tends != (name == "") || !tends && a.Do != Returns {
			t.Errorf("%q: it does %d, command %d", name, a.Do, a.Op)
		}
	}
}

// A caller that leaves its command behind is no failure of Redis: neither its release nor the next waiter pauses.
func TestACommandThatWasLeftBehindIsNoFailure(t *testing.T) {
	for fault, pauses := range map[Fault]bool{Behind: false, Unknown: true} {
		l, w := waiter()
		next := &Call{Owner: 2, Waits: true, Until: Never}
		l.line.join(next)
		l.asks(w, Acquire)
		cmd := sendFor(t, l, w, at(1), Acquire)
		n := w.Tenure
		l.Leave(w, Cancelled, at(2))
		if next.Tenure != n {
			t.Fatal("the ticket does not pass on")
		}
		l.Answer(&cmd, nil, Reply{Fault: fault}, at(2))
		if rests := next.rest > 2; rests != pauses || n.want != Gone || (n.again > 2) != false {
			t.Errorf("fault %d: the next waiter rests until %d, and the release until %d", fault, next.rest, n.again)
		}
	}
}
