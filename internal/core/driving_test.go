package core

import "testing"

func TestWhatADriverAsks(t *testing.T) {
	for _, c := range []struct {
		name                string
		lock                *Lock
		held, written, kept bool
	}{
		{"a hold", held(writes(1, NeverSafe)), true, true, true},
		{"a hold with a lease", held(writes(1, 500)), true, true, false},
		{"a reader", held(reads(1, NeverSafe)), true, false, true},
		{"a reader that writes", held(reads(1, NeverSafe), writes(1, 500)), true, true, true},
		{"a lock that lingers", held(), false, false, false},
	} {
		if l := c.lock; l.IsHeld() != c.held || l.IsWritten() != c.written || l.IsKept() != c.kept {
			t.Errorf("%s: held %v, written %v, kept %v", c.name, l.IsHeld(), l.IsWritten(), l.IsKept())
		}
	}
	l, other := held(writes(1, NeverSafe)), held()
	n := l.owner
	if !l.Has(n) || other.Has(n) || l.Has(other.owner) {
		t.Error("whose tenure is it?")
	}
	n.claim, n.called = true, true
	if !n.Claimed() || !n.Called() || other.owner.Claimed() || other.owner.Called() {
		t.Error("claimed or called")
	}
	if l.forget(n); l.Has(n) {
		t.Error("it is over")
	}
}

func TestLookEndsAnOldWait(t *testing.T) {
	l := held(writes(1, NeverSafe))
	if l.Look(at(49_999)); !l.IsHeld() {
		t.Error("it is not over")
	}
	if l.Look(at(50_000)); l.IsHeld() {
		t.Error("it is over")
	}
}

func TestConfirmAsksRedis(t *testing.T) {
	l := held(writes(1, NeverSafe))
	l.showing(l.owner, at(1))
	l.owner.trust.seen = at(1)
	l.client.TakeEffects()
	if l.Confirm(at(2)); !polled(l, l.owner) {
		t.Error("the owner is not polled")
	}
	if op, due := l.Peek(l.owner, at(2)); op != Mirror || due > 2 {
		t.Errorf("%d is due at %d", op, due)
	}
	if l.Confirm(at(60_000)); l.IsHeld() {
		t.Error("an old wait does not end")
	}
	l.Confirm(at(60_001)) // nothing is held
}

func TestASubscriptionThatHasEndedIsWaitedFor(t *testing.T) {
	for was, then := range map[hearing]hearing{listening: asking, refused: refused, deaf: deaf} {
		l := held()
		l.hears = was
		if l.Deafened(at(7)); l.hears != then || was == listening && l.patient != 257 {
			t.Errorf("%d: %d until %d", was, l.hears, l.patient)
		}
	}
}

func TestWhatADriverDecidesOfLingering(t *testing.T) {
	for _, c := range []struct {
		id      bool
		span    Span
		lingers bool
	}{{true, 1, true}, {true, 0, false}, {false, 1, false}} {
		l := held()
		l.owner.ID.Lingers, l.owner.linger = c.id, c.span
		if l.Lingers() != c.lingers {
			t.Errorf("%+v", c)
		}
		if l.NoLinger(); l.Lingers() {
			t.Error("it was not to linger")
		}
	}
	l := held(writes(1, NeverSafe))
	if l.EndLinger(at(1)); l.owner == nil {
		t.Error("a hold is no lingering lock")
	}
	l = held()
	n := l.owner
	n.linger = 500
	n.stays(at(0))
	w := &Waiter{Owner: 2, Waits: true, Until: Never}
	if l.EndLinger(at(1)); l.owner != nil || n.want != Gone {
		t.Error("it lingers")
	}
	l.EndLinger(at(1))
	if l.Lock(w, at(1)); l.Lingers() {
		t.Error("nothing is held")
	}
}
