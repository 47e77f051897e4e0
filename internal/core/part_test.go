package core

import "testing"

func TestWhenAHoldIsDetached(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []Level
		change func(*Lock)
		result PartResult
		asks   bool // Redis is to be told
	}{
		{"Redis shows its lease", []Level{writes(1, 900)}, func(l *Lock) {}, HasParted, false},
		{"Redis does not show it", []Level{writes(1, 900)}, func(l *Lock) { l.owner.unshown() }, NotYet, true},
		{"Redis may show a longer lease", []Level{writes(1, 900)}, func(l *Lock) { l.owner.trust.seen, l.owner.trust.most = at(50), 851 }, NotYet, true},
		{"Redis shows no longer one", []Level{writes(1, 900)}, func(l *Lock) { l.owner.trust.seen, l.owner.trust.most = at(50), 850 }, HasParted, false},
		{"Redis shows a claim", []Level{writes(1, 900)}, func(l *Lock) { l.owner.claim = true }, NotYet, true},
		{"a mirror is in flight", []Level{writes(1, 900)}, func(l *Lock) { l.owner.flight.op = Mirror }, NotYet, false},
		{"it is renewed", []Level{writes(1, NeverSafe)}, func(l *Lock) {}, WouldRenew, false},
		{"it is nested", []Level{writes(1, 900), writes(1, 800)}, func(l *Lock) {}, NotAlone, false},
		{"another holds it", []Level{writes(2, 900)}, func(l *Lock) {}, NothingHeld, false},
		{"none holds it", nil, func(l *Lock) {}, NothingHeld, false},
		{"it is lost", []Level{writes(1, 90)}, func(l *Lock) {}, NothingHeld, true},
	} {
		l := held(c.levels...)
		n := l.owner
		l.showing(n, at(100))
		c.change(l)
		l.client.TakeEffects(at(0))
		was, parted, result := l.Detach(1, Alone, nil, at(100))
		asks := false
		for _, e := range l.client.TakeEffects(at(0)) {
			asks = asks || e.Kind == Poll && e.Tenure == n && n.want != Parted
		}
		if result != c.result || asks != c.asks {
			t.Errorf("%s: %d, asks %v", c.name, result, asks)
		}
		if result == HasParted && (was != c.levels[0] || parted != n || n.want != Parted || l.owner != nil || l.IsHeld()) {
			t.Errorf("%s: %+v", c.name, was)
		}
		if result == NotYet && c.asks && (l.isMirrored(n, at(100)) || !l.shortens(n, 1, at(100))) {
			t.Errorf("%s: Redis is not to be told", c.name)
		}
	}
}

// A waiter gets a ticket once the lock is detached.
func TestAWaiterGoesOnWhenAHoldIsDetached(t *testing.T) {
	l := held(writes(1, 900))
	w := &Call{Owner: 2, Waits: true, Until: Never}
	l.Lock(w, at(100))
	l.Next(w, false, at(100))
	l.showing(l.owner, at(100))
	l.owner.trust.most = 900
	l.client.TakeEffects(at(0))
	_, n, _ := l.Detach(1, Alone, nil, at(100))
	ticket, over := false, false
	for range 2 { // the end comes once the time of the tenure was looked at
		for _, e := range l.client.TakeEffects(at(100)) {
			ticket, over = ticket || e.Kind == Poll && e.Call == w, over || e.Kind == Ended && e.Tenure == n
		}
	}
	if w.Tenure == nil || !ticket || !over {
		t.Error("the waiter has no ticket, or the detached tenure is not forgotten")
	}
}
