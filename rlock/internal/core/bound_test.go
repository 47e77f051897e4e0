package core

import "testing"

// heldByFirst returns a lock that owner 1 holds, with a client that is told of grants.
func heldByFirst(t *testing.T) *Lock {
	t.Helper()
	_, l := driven()
	l.Kind = Kind{}
	first := &Call{Owner: 1, Waits: true, Until: Never}
	l.Lock(first, at(0))
	cmd := sendFor(t, l, first, at(0), Acquire)
	l.Answer(&cmd, nil, Reply{Found: Holds}, at(0))
	l.Listening(true, at(0))
	return l
}

// A call with a bound is refused at once if this client knows that enough wait, and Redis need not be asked.
func TestABoundIsKeptWithoutACommand(t *testing.T) {
	for _, c := range []struct {
		name   string
		most   int32
		held   bool
		before int // calls that wait
		want   Outcome
		others int32
	}{
		{"no bound", 0, true, 3, Waiting, 0},
		{"it may be the third", 3, true, 2, Waiting, 0},
		{"it may be the second", 2, true, 2, Full, 2},
		{"none may wait, and the lock is held here", -1, true, 0, Full, 0},
		{"none may wait, and the lock may be free", -1, false, 0, Waiting, 0},
	} {
		_, l := driven()
		if l.Kind = (Kind{}); c.held {
			l = heldByFirst(t)
		}
		for i := range c.before {
			l.Lock(&Call{Owner: OwnerID(10 + i), Waits: true, Until: Never}, at(0))
		}
		w := &Call{Owner: 2, Waits: true, Until: Never, Most: c.most}
		if l.Lock(w, at(0)); w.Outcome != c.want || w.Others != c.others {
			t.Errorf("%s: %v, beside %d", c.name, w.Outcome, w.Others)
		}
	}
}

// An attempt is denied as ever: it does not wait, whatever its bound.
func TestAnAttemptHasNoBound(t *testing.T) {
	l := heldByFirst(t)
	if w := (&Call{Owner: 2, Until: Never, Most: -1}); l.Lock(w, at(0)) != Denied {
		t.Errorf("%v", w.Outcome)
	}
}

// Callers here that share no ticket take a place each, for all that Redis knows.
func TestCallersWithoutATicketTakeThePlacesOfABound(t *testing.T) {
	l := heldByFirst(t)
	for i := range 2 {
		l.Lock(&Call{Owner: OwnerID(10 + i), Waits: true, Until: Never}, at(0))
	}
	w := &Call{Owner: 2, Waits: true, Until: Never, Most: 5}
	l.Lock(w, at(0))
	l.Lock(&Call{Owner: 20, Waits: true, Until: Never}, at(0)) // behind it
	cmd := sendFor(t, l, w, at(0), Join)
	if !cmd.Bounded || cmd.Most != 3 {
		t.Fatalf("%+v", cmd)
	}
	l.Answer(&cmd, nil, Reply{Full: true, Tickets: 3, Holder: l.Owner().ID, TTL: 30_000}, at(0))
	if w.Outcome != Full || w.Others != 5 || w.Tenure != nil {
		t.Errorf("%v, beside %d", w.Outcome, w.Others)
	}
	l.client.TakeEffects(at(0))
	if l.Len() != 3 || l.tenures.len != 1 {
		t.Errorf("%d wait, and there are %d tenures", l.Len(), l.tenures.len)
	}
}

// A call asks for a place once: it keeps that when it needs another ticket.
func TestACallWithAPlaceHasNoBound(t *testing.T) {
	l := heldByFirst(t)
	w := &Call{Owner: 2, Waits: true, Until: Never, Most: 1}
	l.Lock(w, at(0))
	cmd := sendFor(t, l, w, at(0), Join)
	l.Answer(&cmd, nil, Reply{Found: First, Holder: l.Owner().ID, TTL: 30_000}, at(0))
	cmd = sendFor(t, l, w, at(2_000), Look)
	l.Answer(&cmd, nil, Reply{Holder: l.Owner().ID, TTL: 30_000}, at(2_000)) // Redis has lost it
	if cmd = sendFor(t, l, w, at(2_000), Join); cmd.Bounded {
		t.Error("it asks for a place again")
	}
}

// A join that is on its way when its caller leaves may be undone. The next call, for which the ticket would stand, asks for itself.
func TestTheBoundOfACallThatHasLeftIsNoOthers(t *testing.T) {
	_, l := driven()
	l.Kind = Kind{}
	l.Listening(true, at(0))
	bounded, next := &Call{Owner: 2, Waits: true, Until: Never, Most: 1}, &Call{Owner: 3, Waits: true, Until: Never}
	l.Lock(bounded, at(0))
	cmd := sendFor(t, l, bounded, at(0), Join)
	l.Lock(next, at(0))
	l.Leave(bounded, Cancelled, at(0))
	if next.Tenure == nil {
		t.Fatal("the ticket is not passed on")
	}
	l.Answer(&cmd, nil, Reply{Full: true, Tickets: 4, Holder: ID{2, 1}, TTL: 30_000}, at(0))
	if next.Outcome != Waiting {
		t.Fatalf("it is refused: %v", next.Outcome)
	}
	if cmd = sendFor(t, l, next, at(0), Join); cmd.Bounded {
		t.Error("it has a bound")
	}
}

// The ticket of a call with a bound does not join with a release: the release is not undone.
func TestNoTicketWithABoundJoinsWithARelease(t *testing.T) {
	l := heldByFirst(t)
	l.hears, l.patient = asking, 100
	w := &Call{Owner: 2, Waits: true, Until: Never, Most: 1}
	l.Lock(w, at(0))
	l.owner.share = share{contested: true, passes: 100}
	_, released, _ := l.Unlock(1, Alone, nil, at(0))
	c := releasing(l, released)
	l.hears = listening // while the command is on its way
	if cmd := sendFor(t, l, c, at(0), Leave); cmd.Joins != (Ticket{}) {
		t.Error("it joins")
	}
}
