package core

import "testing"

// tenure returns a tenure of a lock, with the times of a real client.
func tenure() (*Lock, *Tenure) {
	_, l := driven()
	return l, l.newTenure(ID{1, 1}, Alone)
}

func TestALeaseIsBelievedForLessThanItIs(t *testing.T) {
	l, _ := tenure()
	if d := l.client.trusted(30_000); d != 30_000-300-12 {
		t.Errorf("%d", d)
	}
}

func TestALeaseIsTrustedForTheShortestThatAnExactMirrorAskedFor(t *testing.T) {
	for _, c := range []struct{ least, lease, want, then Span }{{0, 8, 8, 6}, {5, 8, 5, 5}, {8, 5, 5, 6}} {
		_, n := tenure()
		n.trust.least = c.least
		if d := n.atMost(c.lease); d != c.want {
			t.Errorf("a lease of %d beside %d: %d", c.lease, c.least, d)
		}
		if n.asksFor(flight{op: Mirror, lease: 4, at: at(1)}); n.trust.least != c.least {
			t.Errorf("the least is %d after a mirror that only lengthens, and was %d", n.trust.least, c.least)
		}
		if n.asksFor(flight{op: Mirror, exact: true, lease: 6, at: at(1)}); n.trust.least != c.then {
			t.Errorf("the least of %d and 6 is %d", c.least, n.trust.least)
		}
	}
}

// An exact Mirror may shorten the lease, whatever becomes of its answer. None lengthens it before that.
func TestWhatAMirrorChangesWhenItIsSent(t *testing.T) {
	for _, c := range []struct {
		op         Op
		exact      bool
		was, until SafeTime
		claim      bool
		seen       Time
	}{
		{Mirror, true, 10_000, 10_000, false, 7}, {Mirror, true, 90_000, 7 + 29_688, false, 7},
		{Mirror, false, 10_000, 10_000, false, 7}, {Mirror, false, 90_000, 90_000, false, 7}, {Look, false, 90_000, 90_000, true, 0},
	} {
		_, n := tenure()
		n.trust, n.claim = trust{until: c.was, most: 2_000}, true
		n.asksFor(flight{op: c.op, exact: c.exact, lease: 30_000, at: at(7)})
		if k := n.trust; k.until != c.until || n.claim != c.claim || k.seen.Time != c.seen || k.most != 30_000 {
			t.Errorf("%+v: %+v", c, k)
		}
		f := flight{op: c.op, exact: c.exact, lease: 20_000, at: at(7)}
		if n.asksFor(f); n.trust.most != 30_000 {
			t.Errorf("the longest lease is %d", n.trust.most)
		}
		if n.believe(f, at(9)); n.trust.most == 20_000 != c.exact {
			t.Errorf("%+v: the longest lease is %d after the answer", c, n.trust.most)
		}
	}
}

// A lease that Redis shows is not shorter because of a later answer about a shorter one.
func TestAnAnswerShortensNoTrust(t *testing.T) {
	_, n := tenure()
	n.believe(flight{op: Acquire, at: at(100), lease: 30_000}, at(900))
	n.believe(flight{op: Mirror, at: at(200), lease: 5_000}, at(900))
	if n.trust.until != 100+29_688 {
		t.Errorf("%+v", n.trust)
	}
}

func TestTrustIsCountedFromBeforeTheSend(t *testing.T) {
	_, n := tenure()
	n.believe(flight{op: Join, at: at(100), lease: 2_000}, at(900))
	if k := n.trust; k.until != 100+2_000-20-12 || k.lease != 2_000 || !n.claim || k.seen != at(100) {
		t.Errorf("%+v", k)
	}
	n.believe(flight{op: Look, at: at(200), lease: 30_000}, at(900))
	if k := n.trust; k.until != 200+29_688 || !n.claim {
		t.Errorf("%+v", k)
	}
	n.trust, n.claim = trust{seen: at(400)}, false
	if !n.believeGrant(at(900)) || n.trust.until != 400+1_968 || n.trust.lease != 2_000 || !n.claim {
		t.Errorf("%+v", n.trust)
	}
}

func TestWhenAHoldMayBegin(t *testing.T) {
	l, n := tenure()
	for _, c := range []struct {
		left           Span // of the trust
		lease          Span // that was last confirmed
		enough, worthy bool
		answer         [2]bool // to a Join, and to a Look
		replicas       bool
	}{
		{1_001, 2_000, true, true, [2]bool{true, true}, false},
		{1_000, 2_000, false, true, [2]bool{false, true}, false},
		{201, 2_000, false, true, [2]bool{false, true}, false},
		{200, 2_000, false, false, [2]bool{false, true}, false},
		{1, 2_000, false, false, [2]bool{false, true}, false},
		{0, 2_000, false, false, [2]bool{false, false}, false},
		{3_001, 60_000, true, true, [2]bool{true, true}, false},
		{3_000, 60_000, true, false, [2]bool{true, true}, false},
		{29_000, 30_000, false, true, [2]bool{false, true}, true}, // only a Look says that replicas have the grant
	} {
		l.client.Replicas = c.replicas
		n.trust = trust{until: SafeTime(c.left) + 5, lease: c.lease}
		got := [2]bool{n.worthHolding(flight{op: Join}, at(5)), n.worthHolding(flight{op: Look}, at(5))}
		if n.enough(at(5)) != c.enough || n.worth(at(5)) != c.worthy || got != c.answer {
			t.Errorf("%d left of %d: enough %v, worth it %v, after an answer %v", c.left, c.lease, n.enough(at(5)), n.worth(at(5)), got)
		}
	}
}
