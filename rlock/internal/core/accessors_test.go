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
	} {
		if l := c.lock; l.IsHeld() != c.held || l.IsWritten() != c.written || l.IsKept() != c.kept {
			t.Errorf("%s: held %v, written %v, kept %v", c.name, l.IsHeld(), l.IsWritten(), l.IsKept())
		}
	}
	l, other := held(writes(1, NeverSafe)), held()
	n := l.owner
	if !has(l, n) || has(other, n) || has(l, other.owner) {
		t.Error("whose tenure is it?")
	}
	if n.claim = true; !n.Claimed() || other.owner.Claimed() {
		t.Error("claimed")
	}
	if l.forget(n, Now{}); has(l, n) {
		t.Error("it is over")
	}
}

func TestLookEndsAnOldWait(t *testing.T) {
	l := held(writes(1, NeverSafe))
	if l.Settle(at(49_999)); !l.IsHeld() {
		t.Error("it is not over")
	}
	if l.Settle(at(50_000)); l.IsHeld() {
		t.Error("it is over")
	}
}

func TestConfirmAsksRedis(t *testing.T) {
	l := held(writes(1, NeverSafe))
	l.showing(l.owner, at(1))
	l.owner.trust.seen = at(1)
	l.client.TakeEffects(at(0))
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

// An owner holds the lock with a level of its own, by a tenure that is valid.
func TestWhoHoldsTheLock(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []Level
		change func(*Lock)
		holds  bool
		until  SafeTime
	}{
		{"an owner", []Level{writes(1, NeverSafe)}, nil, true, 50_000},
		{"with a lease", []Level{writes(1, 101)}, nil, true, 101},
		{"which is over", []Level{writes(1, 100)}, nil, false, 100},
		{"which is over beside a reader", []Level{reads(1, 100), reads(2, NeverSafe)}, nil, false, 100},
		{"which is not, by a tenure that is", []Level{writes(1, 900)}, func(l *Lock) { l.owner.trust.until = 100 }, false, 100},
		{"almost", []Level{writes(1, 900)}, func(l *Lock) { l.owner.trust.until = 101 }, true, 101},
		{"another owner", []Level{writes(2, NeverSafe)}, nil, false, 0},
	} {
		l := held(c.levels...)
		if c.change != nil {
			c.change(l)
		}
		if holds, until := l.Holds(1, at(100)), l.ValidUntil(1); holds != c.holds || until != c.until {
			t.Errorf("%s: %v, until %d", c.name, holds, until)
		}
	}
	l := held()
	if l.owner = nil; l.Holds(1, at(100)) {
		t.Error("it is free")
	}
}

// The explorer asks whether a reader is kept out for no reason.
func TestWhenAReaderIsKeptOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock)
		out    bool
	}{
		{"readers have the lock", func(*Lock) {}, true},
		{"no call waits", func(l *Lock) { l.line = line{} }, false},
		{"a writer waits", func(l *Lock) { l.line.first().Mode = Alone }, false},
		{"a writer has it", func(l *Lock) { l.closeAll(); l.add(writes(1, NeverSafe)) }, false},
		{"others wait", func(l *Lock) { l.owner.share.contested = true }, false},
		{"a guarded write may run", func(l *Lock) { l.owner.wrote = true }, false},
		{"the client closes", func(l *Lock) { l.client.closed = true }, false},
		{"the lease is nearly over", func(l *Lock) { l.owner.trust.lease, l.owner.trust.until = 30_000, 1_000 }, false},
		{"it is over", func(l *Lock) { l.closeAll(); l.add(reads(1, 100)) }, false},
		{"it is free", func(l *Lock) { l.owner = nil }, false},
	} {
		l := held(reads(1, NeverSafe))
		l.line.join(&Call{Owner: 2, Mode: Shared, Waits: true, Until: Never})
		c.change(l)
		if out := l.KeepsOut(at(100)); out != c.out {
			t.Errorf("%s: %v", c.name, out)
		}
	}
}

func TestWhatElseADriverMayLookAt(t *testing.T) {
	l, w := waiter()
	second := &Call{Owner: 2}
	l.line.join(second)
	var seen []*Call
	for r := range l.Waiters { // which may leave meanwhile
		seen = append(seen, r)
		l.line.leave(r)
	}
	if len(seen) != 2 || seen[0] != w || seen[1] != second {
		t.Errorf("%d waiters", len(seen))
	}
	l.line.join(w)
	l.line.join(second)
	for range l.Waiters {
		seen = nil
		break
	}
	if seen != nil {
		t.Error("it goes on")
	}
	for h, subscribes := range map[hearing]bool{deaf: false, asking: true, listening: true, refused: false} {
		if l.hears = h; l.Subscribes() != subscribes {
			t.Errorf("%d: %v", h, !subscribes)
		}
	}
	n := l.asks(w, Join)
	if n.Want() != Asked {
		t.Error("it is a ticket")
	}
	if n.holds(); n.Want() != Held {
		t.Error("it holds the lock")
	}
	l.owner = n
	l.add(writes(1, NeverSafe))
	if l.Client().Closed() {
		t.Error("it has not closed")
	}
	if l.Close(at(1)); !l.Client().Closed() {
		t.Error("it has closed")
	}
}

func TestWhenRedisShowsTheLevels(t *testing.T) {
	for _, c := range []struct {
		change func(*Lock)
		shown  bool
	}{
		{func(*Lock) {}, true},
		{func(l *Lock) { l.owner.flight.op = Mirror }, false},
		{func(l *Lock) { l.owner.flight.op = Step }, true},
		{func(l *Lock) { l.owner.unshown() }, false},
		{func(l *Lock) { l.owner = nil }, false},
	} {
		l := held(writes(1, NeverSafe))
		l.showing(l.owner, at(50))
		c.change(l)
		if l.IsShown(at(60)) != c.shown {
			t.Errorf("%v", !c.shown)
		}
	}
}
