package core

import "testing"

// An agent is told once, the one that there is when the effects are taken; but not a call that is awake, or that asks sooner
// by itself.
func TestWhoIsToldWhenATenureIsDue(t *testing.T) {
	asleep := func(until Time) *Call { return &Call{Owner: 1, asleep: true, alarm: until} }
	for _, c := range []struct {
		name  string
		agent *Call
		told  bool
	}{
		{"the keeper", nil, true},
		{"a call that sleeps", asleep(Never), true},
		{"a call that asks then by itself", asleep(10_050), false},
		{"a call that is awake", &Call{Owner: 1, alarm: Never}, false},
	} {
		l := held(writes(1, NeverSafe))
		n := l.owner
		l.showing(n, at(50))
		n.trust.seen = at(50)
		for _, agent := range []*Call{{Owner: 2, asleep: true}, c.agent} {
			n.Agent = agent
			l.touch(n)
		}
		told := effects(l, Poll)
		if c.told != (len(told) == 1) || c.told && (told[0].Call != c.agent || told[0].Tenure != n || told[0].At != 10_050 || told[0].Lock != l) {
			t.Errorf("%s: %+v", c.name, told)
		}
		if len(effects(l, Poll)) > 0 {
			t.Errorf("%s: it is told again", c.name)
		}
	}
}

// A tenure that is over when the effects are taken is forgotten then. Its call, which had nothing to send yet, returns.
func TestATenureThatIsOverIsForgotten(t *testing.T) {
	l := held()
	n := l.owner
	l.give(n, at(1))
	c := releasing(l, n)
	if effects(l, Ended) != nil || !has(l, n) {
		t.Fatal("it is not over yet")
	}
	n.forcedOut()
	l.touch(n)
	woken, ended := false, false
	for range 2 {
		for _, e := range l.client.TakeEffects(at(2)) {
			woken = woken || e.Kind == Wake && e.Call == c
			ended = ended || e.Kind == Ended && e.Tenure == n
		}
	}
	if !woken || !ended || has(l, n) || c.Outcome != Done || c.Cause != KeyGone || l.Idle() {
		t.Errorf("woken %v, ended %v, outcome %d, cause %d", woken, ended, c.Outcome, c.Cause)
	}
	if a := l.Next(c, false, at(3)); a.Do != Returns || !l.Idle() {
		t.Errorf("it does %d", a.Do)
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
		{"it is told already", func(n *Tenure) { n.unshown(); n.touched = true }, 101, false},
	} {
		l := held(writes(1, NeverSafe))
		n := l.owner
		l.showing(n, at(50))
		n.trust.seen = at(50)
		c.change(n)
		n.alarm = c.alarm
		l.client.TakeEffects(at(0))
		l.changed(at(100))
		if told := len(l.client.Effects) > 0; told != c.told {
			t.Errorf("%s: %v", c.name, told)
		}
	}
}

func TestALossIsToldToHoldersOnly(t *testing.T) {
	l := held()
	l.client.TakeEffects(at(0))
	if l.loses(nil, KeyGone); len(l.client.Effects) > 0 {
		t.Error("there is no holder")
	}
	l.loses([]Level{writes(1, NeverSafe)}, KeyGone)
	if e := l.client.TakeEffects(at(0)); len(e) != 1 || e[0].Tenure != l.owner || e[0].Lost[0].Owner != 1 || e[0].Cause != KeyGone {
		t.Errorf("%+v", e)
	}
}
