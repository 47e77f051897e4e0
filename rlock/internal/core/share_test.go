package core

import "testing"

// A mirror may be built between two hand-offs, when no caller waits here. It asks for others all the same: else a client
// that hands off again and again would never hear of them, and pass them for ever.
func TestAMirrorBetweenTwoHandOffsAsksForOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*Lock)
		asks bool
	}{
		{"no caller waits", func(*Lock) {}, false},
		{"a caller waits", func(l *Lock) { l.line.join(&Call{Owner: 3, Waits: true, Until: Never}) }, true},
		{"it was handed off", func(l *Lock) {
			w := &Call{Owner: 3, Waits: true, Until: Never}
			l.Lock(w, at(1))
			l.Unlock(1, Alone, nil, at(2))
			if w.Outcome != Acquired || w.Way != ByHandoff {
				t.Fatal("it was not handed off")
			}
		}, true},
		{"readers share it", func(l *Lock) { l.closeAll(); l.add(reads(1, NeverSafe)) }, true},
	} {
		l := held(writes(1, NeverSafe))
		l.client.HandoffLimit, l.client.HandoffTime = 100, 1_000
		c.do(l)
		l.owner.unshown()
		cmd, _ := l.Poll(l.owner, at(3))
		if cmd.Op != Mirror || cmd.Asks != c.asks {
			t.Errorf("%s: it asks: %v", c.name, cmd.Asks)
		}
		l.Answer(&cmd, nil, Reply{Found: Holds}, at(4))
		l.line = line{}
		l.owner.unshown()
		if cmd, _ = l.Poll(l.owner, at(5)); cmd.Asks != (c.name == "readers share it") {
			t.Errorf("%s: the next one asks, too", c.name)
		}
	}
}

func TestHowLongALockIsHandedOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Lock)
		may    bool
		passes int
	}{
		{"no other client waits", func(*Lock) {}, true, 5},
		{"others wait", func(l *Lock) { l.owner.share.contested = true }, true, 6},
		{"they have been passed often enough", func(l *Lock) { l.owner.share.contested, l.owner.share.passes = true, 10 }, false, 10},
		{"they have waited for long enough", func(l *Lock) { l.owner.share.contested, l.owner.share.since = true, 50 }, false, 5},
		{"almost", func(l *Lock) { l.owner.share.contested, l.owner.share.since = true, 51 }, true, 6},
		{"the lock is strict", func(l *Lock) { l.Kind.Strict = true }, false, 5},
		{"the client has closed", func(l *Lock) { l.client.closed = true }, false, 5},
		{"the lease is nearly over", func(l *Lock) { l.owner.trust.until = 150 }, false, 5},
		{"there is no token", func(l *Lock) { l.owner.tokens = tokens{1, 0, 7} }, false, 5},
	} {
		l := held(writes(1, NeverSafe))
		l.client.HandoffLimit, l.client.HandoffTime, l.hears = 10, 50, listening
		l.owner.trust.lease, l.owner.share.passes, l.owner.share.since = 2_000, 5, 90
		c.change(l)
		if may := l.mayPass(at(100)); may != c.may || int(l.owner.share.passes) != c.passes {
			t.Errorf("%s: %v, passed %d times", c.name, may, l.owner.share.passes)
		}
	}
}

func TestATurnBeginsWhenOthersAreHeardOf(t *testing.T) {
	k := share{handed: true}
	if k.heardOf(2, at(7)); k != (share{contested: true, since: 7, handed: true}) {
		t.Errorf("%+v", k)
	}
	k.passes = 3
	if k.heardOf(1, at(9)); k != (share{contested: true, since: 7, passes: 3, handed: true}) {
		t.Errorf("%+v", k)
	}
	if k.heardOf(0, at(9)); k != (share{handed: true}) {
		t.Errorf("%+v", k)
	}
}

func TestATenureThatWasResumedHasNoHandoffsWhileOthersWait(t *testing.T) {
	for others, may := range []bool{true, false, false} {
		c, _ := driven()
		l := c.NewLock(Kind{})
		c.HandoffLimit, c.HandoffTime = 10, 50
		w := &Call{Owner: 3, Until: Never, Named: ID{Client: 1, N: 7}}
		l.Resume(w, at(50))
		cmd := sendFor(t, l, w, at(50), Resume)
		if !cmd.Asks {
			t.Error("a resume does not ask for others")
		}
		l.Answer(&cmd, nil, Reply{Found: Holds, Others: others}, at(60))
		l.hears = listening
		if l.owner == nil || l.mayPass(at(60)) != may {
			t.Errorf("%d wait: %+v", others, l.owner)
		}
		l.owner.share.heardOf(0, at(61)) // the others have left: those that come have a turn before them as always
		if l.owner.share.heardOf(1, at(62)); !l.mayPass(at(62)) {
			t.Errorf("%d waited: %+v", others, l.owner.share)
		}
	}
}

func TestWhatBecomesOfATenureWhoseLastLevelIsClosed(t *testing.T) {
	for _, c := range []struct {
		name   string
		waits  []Mode
		change func(*Lock)
		want   Want
		held   bool
	}{
		{"no caller waits", nil, func(*Lock) {}, Gone, false},
		{"a caller waits", []Mode{Alone}, func(*Lock) {}, Held, true},
		{"a reader waits for the lock of a writer", []Mode{Shared}, func(*Lock) {}, Held, true},
		{"a writer waits for that of readers", []Mode{Alone}, func(l *Lock) { l.owner.mode = Shared }, Gone, false},
		{"a reader waits for that of readers", []Mode{Shared}, func(l *Lock) { l.owner.mode = Shared }, Held, true},
	} {
		l := held(writes(1, NeverSafe))
		n := l.owner
		n.trust.lease = 2_000
		for i, m := range c.waits {
			l.Lock(&Call{Owner: OwnerID(i + 2), Mode: m, Waits: true, Until: Never}, at(50))
		}
		c.change(l)
		_, releases, _ := l.Unlock(1, Alone, nil, at(100))
		if (releases == n) != (c.want == Gone) {
			t.Errorf("%s: the call releases it: %v", c.name, releases == n)
		}
		if n.want != c.want || l.IsHeld() != c.held {
			t.Errorf("%s: want %d, held %v", c.name, n.want, l.IsHeld())
		}
	}
}

func TestWhenAReaderJoinsTheReadersHere(t *testing.T) {
	for _, c := range []struct {
		name          string
		change        func(*Lock)
		mode          Mode
		joins, shows  bool
		heldBackUntil Time // 0: it is not held back
	}{
		{"readers have the lock", func(*Lock) {}, Shared, true, true, 0},
		{"they have not asked for others for long", func(l *Lock) { l.owner.trust.seen = at(50) }, Shared, true, false, 0},
		{"a writer", func(*Lock) {}, Alone, false, true, 0},
		{"a writer has it", func(l *Lock) { l.closeAll(); l.add(writes(1, NeverSafe)); l.showing(l.owner, at(90)) }, Shared, false, true, 0},
		{"a caller waits", func(l *Lock) { l.line.join(&Call{Owner: 9, Mode: Alone, Until: Never}) }, Shared, false, true, 0},
		{"others have waited for long", func(l *Lock) { l.owner.share.contested = true }, Shared, false, true, 1_100},
		{"others waited long ago", func(l *Lock) { l.owner.share.contested = true; l.owner.trust.seen = Now{-900, -900} }, Shared, false, false, 1_100},
		{"others have waited for long, for a writer", func(l *Lock) { l.owner.share.contested = true }, Alone, false, true, 0},
		{"others have waited for long, while a writer has it", func(l *Lock) {
			l.closeAll()
			l.add(writes(1, NeverSafe))
			l.showing(l.owner, at(90))
			l.owner.share.contested = true
		}, Shared, false, true, 0},
		{"the client closes, after long", func(l *Lock) { l.client.closed = true; l.owner.trust.seen = Now{-900, -900} }, Shared, false, true, 0},
		{"there is none", func(l *Lock) { l.owner = nil }, Shared, false, false, 0},
	} {
		l := held(reads(1, NeverSafe))
		n := l.owner
		l.client.HandoffLimit, l.client.HandoffTime, l.client.ReadersTime, l.hears = 10, 50, 1_000, listening
		n.mode, n.trust.lease, n.trust.seen = Shared, 2_000, at(90)
		l.showing(n, at(90))
		c.change(l)
		w := &Call{Owner: 2, Mode: c.mode, Waits: true, Until: Never, Began: 100}
		if joins := l.owner != nil && l.mayJoin(w, at(100)); joins != c.joins || l.owner != nil && l.isMirrored(n, at(100)) != c.shows {
			t.Errorf("%s: joins %v, shows %v", c.name, joins, !c.shows)
		}
		if l.line.Len() == 0 {
			l.line.join(w)
		}
		from, ok := l.heldBackFrom(w)
		if ok != (c.heldBackUntil > 0) || ok && from != c.heldBackUntil || l.isHeldBack(w, at(1_099)) || l.isHeldBack(w, at(1_100)) != ok {
			t.Errorf("%s: held back %v until %d", c.name, ok, from)
		}
	}
}

// A reader that leaves others lets in none: those that wait are held back for others elsewhere. The end of a writer does,
// whose turn they have waited for.
func TestWhoIsLetInWhenALevelCloses(t *testing.T) {
	for _, c := range []struct {
		levels []Level
		closes Mode
		let    bool
	}{
		{[]Level{reads(1, NeverSafe), reads(2, NeverSafe)}, Shared, false},
		{[]Level{writes(1, NeverSafe), reads(1, NeverSafe)}, Alone, true},
		{[]Level{writes(1, NeverSafe), reads(1, NeverSafe)}, Shared, false},
	} {
		l := held(c.levels...)
		l.owner.mode, l.owner.share.contested, l.hears = c.levels[0].Mode, true, listening
		w := &Call{Owner: 3, Mode: Shared, Waits: true, Until: Never, waiting: waiting{rest: Never}}
		l.line.join(w)
		l.Unlock(1, c.closes, nil, at(50))
		if let := w.Outcome == Acquired; let != c.let || let && w.Way != ByJoining {
			t.Errorf("%+v: %v", c, let)
		}
	}
}

// The readers behind one that gets the lock have it, too, however long others have waited: their turn begins.
func TestTheReadersBehindAReaderHaveTheLock(t *testing.T) {
	l := held(writes(1, NeverSafe))
	l.owner.trust.lease = 2_000
	all := make([]*Call, 4)
	for i, o := range []OwnerID{2, 3, 3, 4} {
		all[i] = &Call{Owner: o, Mode: Shared, Waits: true, Until: Never, Repeats: true}
		l.Lock(all[i], at(50))
	}
	ticket := l.asks(all[0], Join)
	ticket.place = InQueue
	l.client.HandoffLimit, l.client.HandoffTime = 1, 1_000
	l.owner.share.contested = true
	l.Unlock(1, Alone, nil, at(60))
	for i, way := range []Way{ByHandoff, ByJoining, ByNesting, ByJoining} {
		if w := all[i]; w.Outcome != Acquired || w.Way != way || w.Tenure != nil {
			t.Errorf("%d: outcome %d by way %d", i, w.Outcome, w.Way)
		}
	}
	if ticket.want != Gone || l.line.Len() != 0 {
		t.Error("the ticket of one that has the lock stays")
	}
}

// An owner does not wait for itself, wherever its other calls are in the line.
func TestAnOwnerDoesNotWaitForItself(t *testing.T) {
	for _, c := range []struct {
		owners  []OwnerID // of the calls behind the one that gets the lock
		repeats bool
		in      []bool
	}{
		{[]OwnerID{2, 3, 2}, true, []bool{true, false, true}},
		{[]OwnerID{3, 2, 2}, true, []bool{false, true, true}},
		{[]OwnerID{3, 2}, true, []bool{false, true}},
		{[]OwnerID{3, 4}, true, []bool{false, false}},
		{[]OwnerID{2, 3}, false, []bool{true, false}},
	} {
		l := held(writes(1, NeverSafe))
		l.owner.trust.lease = 2_000
		first := &Call{Owner: 2, Waits: true, Until: Never, Repeats: c.repeats}
		l.Lock(first, at(50))
		var all []*Call
		for _, o := range c.owners {
			w := &Call{Owner: o, Waits: true, Until: Never, Repeats: c.repeats}
			all = append(all, w)
			l.Lock(w, at(50))
		}
		l.Unlock(1, Alone, nil, at(60))
		for i, w := range all {
			if in := w.Outcome == Acquired; in != c.in[i] || in && w.Way != ByNesting {
				t.Errorf("%v: %d has the lock: %v", c.owners, i, in)
			}
		}
	}
}

// A ticket has the lock by an answer of Redis. Readers here go on by it if it is a reader's. Whatever else this client has
// believed is lost.
func TestWhatBecomesOfTheHoldsHereWhenATicketHasTheLock(t *testing.T) {
	for _, c := range []struct {
		name   string
		level  Level
		ticket Mode
		goesOn bool
	}{
		{"readers, for a reader", Level{Owner: 1, Mode: Shared, Until: NeverSafe, wrote: true}, Shared, true},
		{"readers, for a writer", reads(1, NeverSafe), Alone, false},
		{"a writer, for a reader", writes(1, NeverSafe), Shared, false},
		{"a writer, for a writer", writes(1, NeverSafe), Alone, false},
	} {
		l := held(c.level)
		was := l.owner
		w, behind := &Call{Owner: 2, Mode: c.ticket, Waits: true, Until: Never, Lease: 900}, &Call{Owner: 3, Mode: Shared, Waits: true, Until: Never}
		l.line.join(w)
		l.line.join(behind)
		n := l.asks(w, Join)
		cmd := sendFor(t, l, w, at(50), Join)
		l.client.TakeEffects(at(0))
		l.Answer(&cmd, nil, Reply{Found: Holds}, at(60))
		lost, kept := false, false
		for _, e := range l.client.TakeEffects(at(0)) {
			lost = lost || e.Kind == Lose && e.Cause == KeyGone && e.Tenure == was
			kept = kept || e.Kind == Poll && e.Tenure == n && e.Call == nil
		}
		if l.owner != n || was.want != Gone || w.Way != ByQueue || !l.Hosts(2, false) || l.Hosts(1, false) != c.goesOn || lost == c.goesOn || l.Hosts(3, false) != (c.ticket == Shared) {
			t.Errorf("%s: lost %v, %+v", c.name, lost, l.levels.all)
		}
		if !kept || l.levels.all[0].wrote || n.wrote {
			t.Errorf("%s: the keeper is told: %v; it has written: %v", c.name, kept, l.levels.all[0].wrote)
		}
	}
}

// A reader with a lease that is let in beside others ends sooner than the keeper knows.
func TestTheKeeperIsToldOfAReaderThatIsLetIn(t *testing.T) {
	l := held(reads(1, NeverSafe))
	n := l.owner
	n.mode, n.trust.lease = Shared, 2_000
	writer, reader := &Call{Owner: 2, Waits: true, Until: Never}, &Call{Owner: 3, Mode: Shared, Waits: true, Until: Never, Lease: 7}
	l.Lock(writer, at(50))
	l.Lock(reader, at(50))
	l.showing(n, at(50))
	n.trust.seen, n.alarm = at(50), 9_000
	l.client.TakeEffects(at(0))
	if l.Leave(writer, Cancelled, at(50)); reader.Outcome != Acquired || !polled(l, n) {
		t.Errorf("outcome %d", reader.Outcome)
	}
}
