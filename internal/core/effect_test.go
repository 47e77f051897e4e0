package core

import "testing"

// An agent is told once, and so is another one that comes after it.
func TestWhoIsToldToPoll(t *testing.T) {
	l, n := tenure()
	first, second := &Waiter{Owner: 1}, &Waiter{Owner: 2}
	l.client.TakeEffects()
	for _, w := range []*Waiter{nil, nil, first, first, second, nil} {
		n.waiter = w
		l.touch(n)
	}
	var told []*Waiter
	for _, e := range l.client.TakeEffects() {
		if e.Kind == Poll && e.Tenure == n && e.Lock == l {
			told = append(told, e.Waiter)
		}
	}
	if len(told) != 3 || told[0] != nil || told[1] != first || told[2] != second {
		t.Errorf("%d are told", len(told))
	}
	n.waiter, n.releases = nil, true
	if l.touch(n); len(l.client.Effects) > 0 {
		t.Error("the call that releases it is told")
	}
	n.releases = false
	if l.touch(n); len(l.client.Effects) == 0 {
		t.Error("the keeper is not told")
	}
}

// The keeper is told of a change only if that is due sooner than it knows.
func TestTheKeeperIsToldOfASoonerTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Tenure)
		alarm  Time
		told   bool
	}{
		{"it polls now", func(n *Tenure) { n.unshown() }, 100, false},
		{"it polls later", func(n *Tenure) { n.unshown() }, 101, true},
		{"nothing has changed", func(*Tenure) {}, 10_050, false}, // the renewal
		{"it polls later than the renewal", func(*Tenure) {}, 50_001, true},
		{"it rests", func(n *Tenure) { n.unshown(); n.again = 200 }, 200, false},
		{"it rests for less", func(n *Tenure) { n.unshown(); n.again = 200 }, 201, true},
	} {
		l := held(writes(1, NeverSafe))
		n := l.owner
		l.showing(n, at(50))
		n.trust.seen = at(50)
		c.change(n)
		n.alarm = c.alarm
		l.client.TakeEffects()
		l.changed(at(100))
		if told := len(l.client.Effects) > 0; told != c.told || told && n.alarm != 0 {
			t.Errorf("%s: %v", c.name, told)
		}
	}
}

func TestALossIsToldToHoldersOnly(t *testing.T) {
	l := held()
	l.client.TakeEffects()
	if l.loses(nil, KeyGone); len(l.client.Effects) > 0 {
		t.Error("a lock that lingered has no holder")
	}
	l.loses([]Level{writes(1, NeverSafe)}, KeyGone)
	if e := l.client.TakeEffects(); len(e) != 1 || e[0].Tenure != l.owner || e[0].Lost[0].Owner != 1 || e[0].Cause != KeyGone {
		t.Errorf("%+v", e)
	}
}
