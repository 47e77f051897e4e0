package core

import "testing"

func TestWhenATenureThatIsGoneIsOver(t *testing.T) {
	for _, c := range []struct {
		place       Place
		late        Time
		most        Span
		again       Time
		ends, leave Time
	}{
		{Owner, 0, 0, 0, 30_100, 0},
		{Owner, 0, 0, 40_000, 30_100, 30_100}, // the last one
		{Owner, 0, 60_000, 500, 60_100, 500},
		{Unsure, 500, 0, 600, 30_500, 600}, // a command may run late
		{Unsure, 50, 0, 600, 30_100, 600},
		{InQueue, 500, 90_000, 600, 60_100, 600}, // for as long as Redis keeps the queue
	} {
		_, n := tenure()
		n.place, n.since, n.late, n.trust.most, n.again = c.place, 100, c.late, c.most, c.again
		if n.Ends() != c.ends || n.leaves(at(0)) != c.leave {
			t.Errorf("%+v: over at %d, leaves at %d", c, n.Ends(), n.leaves(at(0)))
		}
	}
}

func TestWhenATenureMayComeAfterItsLeave(t *testing.T) {
	for _, c := range []struct {
		place   Place
		settled bool
		at      Time
		may     bool
	}{{Unsure, false, 499, true}, {Unsure, false, 500, false}, {Unsure, true, 499, false}, {InQueue, false, 499, false}} {
		_, n := tenure()
		n.place, n.late = c.place, 500
		if may := n.mayCome(flight{at: at(c.at)}, Reply{Settled: c.settled}); may != c.may {
			t.Errorf("%+v: %v", c, may)
		}
	}
}

func TestWhenATicketIsLookedForNext(t *testing.T) {
	ours := ID{2, 1}
	for _, c := range []struct {
		name  string
		polls uint8
		reply Reply
		in    Span
	}{
		{"once a claim", 0, Reply{Found: Waits, TTL: 500}, 2_000},
		{"when the holder's lease is over", 0, Reply{Found: Waits, Holder: ours, TTL: 500}, 505},
		{"or that of a foreign holder", 0, Reply{Found: Waits, Foreign: true, TTL: 500}, 505},
		{"a little later, but once a claim", 0, Reply{Found: Waits, Holder: ours, TTL: 1_998}, 2_000},
		{"a long lease", 0, Reply{Found: Waits, Holder: ours, TTL: 5_000}, 2_000},
		{"a lease without an end", 0, Reply{Found: Waits, Holder: ours, TTL: NoTTL}, 2_000},
		{"polling", 1, Reply{Found: Waits, Holder: ours, TTL: 500}, 1},
		{"polling more slowly", 4, Reply{Found: Waits, Holder: ours, TTL: 500}, 8},
		{"polling at last", doublings + 1, Reply{Found: Waits, Holder: ours, TTL: 500}, 128},
		{"polling at the end of a lease", doublings + 1, Reply{Found: Waits, Holder: ours, TTL: 100}, 105},
	} {
		l, n := tenure()
		l.client.Slack = 5
		n.polls = c.polls
		n.looksNext(c.reply, at(1_000))
		if n.look != 1_000+Time(c.in) || n.looks(at(0)) != n.look {
			t.Errorf("%s: in %d", c.name, n.look-1_000)
		}
		if c.polls > 0 && n.polls != min(c.polls+1, doublings+1) {
			t.Errorf("%s: polled %d times", c.name, n.polls-1)
		}
		if n.again = n.look + 5; n.looks(at(0)) != n.again {
			t.Errorf("%s: it does not rest", c.name)
		}
	}
}

func TestWhenALeaseIsRenewed(t *testing.T) {
	for _, c := range []struct {
		name        string
		trust       trust
		claim       bool
		began       Time // the hold
		again, want Time
	}{
		{"after a third of it", trust{}, false, 0, 0, 10_100},
		{"of the shortest that a command without an answer asked for", trust{least: 3_000}, false, 0, 0, 1_100},
		{"of a claim", trust{lease: 2_000}, true, 0, 0, 766},
		{"but most sections are over soon", trust{lease: 2_000}, true, 900, 0, 950},
		{"a fixed lease that began with a claim", trust{lease: 60_000}, true, 0, 0, 10_100},
		{"it rests", trust{}, false, 0, 10_200, 10_200},
	} {
		l := held(writes(1, NeverSafe))
		l.client.ShortSection = 50
		n := l.owner
		n.trust, n.claim = c.trust, c.claim
		n.trust.seen, n.trust.until, n.again, n.share.since = at(100), 50_000, c.again, c.began
		l.showing(n, at(100))
		if due := n.mirrors(at(200)); due != c.want {
			t.Errorf("%s: at %d", c.name, due)
		}
		if n.unshown(); n.mirrors(at(200)) != c.again {
			t.Errorf("%s: what Redis does not show is told at %d", c.name, n.mirrors(at(200)))
		}
	}
}

func TestWhatElseIsDue(t *testing.T) {
	l, n := tenure()
	n.again, n.trust.seen, n.trust.most = 7, at(100), 900
	if n.opens(at(0)) != Never || n.unmarks(at(0)) != Never || n.endsItself() != 1_000 {
		t.Error("nothing is to be opened, or unmarked")
	}
	if n.step, n.marked = true, true; n.opens(at(0)) != 7 || n.unmarks(at(0)) != 7 {
		t.Error("a step, or an unmark, rests as any command")
	}
	n.want, n.place, n.fails = Gone, Owner, 3
	l.client.TakeEffects(at(0))
	if l.hurries(n); n.again != 0 || n.fails != 0 || !polled(l, n) {
		t.Error("it does not hurry")
	}
	for _, pause := range []Time{10, 20, 40, 80, 160, 320, 500, 500, 500, 500, 500, 500, 500} {
		if n.rests(at(50)); n.again != 50+pause {
			t.Errorf("it rests for %d, not %d", n.again-50, pause)
		}
	}
	n.fails = 70
	if n.rests(at(50)); n.again != 550 {
		t.Errorf("it rests for %d", n.again-50)
	}
}

// polled reports whether the effects have the tenure polled.
func polled(l *Lock, n *Tenure) bool {
	for _, e := range l.client.TakeEffects(at(0)) {
		if e.Kind == Poll && e.Tenure == n {
			return e.Lock == l && e.Call == n.Agent
		}
	}
	return false
}

// Clients that have failed together do not come back together.
func TestPausesHaveJitter(t *testing.T) {
	l, n := besideForeign()
	l.client.Jitter = func(d Span) Span { return d / 2 }
	if n.rests(at(0)); n.again != 5 {
		t.Errorf("a tenure rests for %d", n.again)
	}
	w := &Call{Waits: true, Until: Never}
	if l.unanswered(w, n, Unknown, at(100)); w.rest != 105 {
		t.Errorf("a waiter rests for %d", w.rest-100)
	}
	n.polls = 4
	if n.looksNext(Reply{Found: Waits}, at(0)); n.look != 4 {
		t.Errorf("a ticket that polls looks after %d", n.look)
	}
	l.hears = listening
	if n.looksNext(Reply{Found: Waits}, at(0)); n.look != 2_000 {
		t.Errorf("a ticket that polled until its client had subscribed looks after %d", n.look)
	}
	l.hears = deaf
	if d := l.follow(n, Reply{Found: First, Window: 50}, at(0)); d != 2 {
		t.Errorf("the first ticket looks after %d in a window", d)
	}
	if d := l.follow(n, Reply{Found: First, Foreign: true, TTL: 20}, at(0)); d != 2 {
		t.Errorf("the first ticket looks after %d at a foreign holder", d)
	}
}

// The command that brought a tenure in may run after the Leave that has not found it. So one more is sent when the lease
// is over that the command may have begun, whatever the pause; whatever becomes of that, the tenure is over.
func TestTheLastLeaveComesWhenTheLeaseIsOver(t *testing.T) {
	for _, fault := range []Fault{Answered, Unknown, NotRun, Fatal} {
		l, n := tenure()
		n.place, n.late = Unsure, 100
		l.give(n, at(50))
		for now := Time(50); now < 30_100; {
			cmd, _ := l.Poll(n, at(now))
			if cmd.Op != Leave {
				t.Fatalf("at %d no Leave is sent", now)
			}
			l.Answer(&cmd, nil, Reply{Fault: Unknown}, at(now))
			n.again = now + 40_000 // a long pause
			if _, due := l.Peek(n, at(now)); due > 30_100 {
				t.Fatalf("the last Leave is sent at %d", due)
			}
			now = 30_100
		}
		cmd, _ := l.Poll(n, at(30_100))
		if cmd.Op != Leave {
			t.Fatal("no last Leave is sent")
		}
		l.Answer(&cmd, nil, Reply{Fault: fault}, at(30_101))
		if l.Poll(n, at(30_101)); !l.Idle() {
			t.Errorf("fault %d: it is not over", fault)
		}
	}
}

// A Leave that Redis refuses for good is the last one.
func TestALeaveThatIsRefusedForGoodIsTheLast(t *testing.T) {
	l, n := tenure()
	n.place = Owner
	l.give(n, at(50))
	cmd, _ := l.Poll(n, at(50))
	l.Answer(&cmd, nil, Reply{Fault: Fatal}, at(51))
	if l.Poll(n, at(51)); !l.Idle() {
		t.Error("it is not over")
	}
}

// The command that brings the tenure in may run yet, for as long as its lease.
func TestALeaveThatIsNotSettledIsTriedLessAndLessOften(t *testing.T) {
	_, n := tenure()
	c := n.lock.client
	n.want, n.place, n.late = Gone, Unsure, Never
	now := Time(0)
	for i := range 10 {
		n.answered(flight{op: Leave, at: at(now)}, Reply{}, at(now))
		if pause := n.again.Since(now); pause != min(c.Retry<<i, c.MaxRetry) {
			t.Errorf("the pause %d is %d", i, pause)
		}
		now = n.again
	}
}
