package core

import (
	"slices"
	"testing"
)

// held returns a lock with the levels, held by a tenure that is trusted until 50 000.
func held(vs ...Level) *Lock {
	c, _ := driven()
	l := c.NewLock(Kind{})
	l.owner = l.newTenure(ID{1, 1}, Alone)
	l.owner.want, l.owner.place, l.owner.trust.until, l.owner.named = Held, Owner, 50_000, 1
	for _, v := range vs {
		l.add(v)
	}
	return l
}

// add adds a level, as open does for a waiter.
func (l *Lock) add(v Level) {
	l.levels.all = append(l.levels.all, v)
	l.levels.summary = sum(l.levels.all)
}

func reads(o OwnerID, until SafeTime) Level  { return Level{Owner: o, Mode: Shared, Until: until} }
func writes(o OwnerID, until SafeTime) Level { return Level{Owner: o, Mode: Alone, Until: until} }

// A hold lasts from the first level of its owner to the last.
func TestTheNextLevelOfAnOwnerIsTheFirstOfItsHold(t *testing.T) {
	first, nested := Level{Owner: 1, Mode: Shared, First: true, Way: ByQueue, Since: 3}, Level{Owner: 1, Mode: Shared, Way: ByNesting, Since: 5}
	other := Level{Owner: 2, Mode: Shared, First: true, Way: ByJoining, Since: 4}
	for _, c := range []struct {
		closes int
		was    Level
		left   []Level
	}{
		{0, Level{Owner: 1, Mode: Shared, Way: ByNesting, Since: 3}, []Level{other, {Owner: 1, Mode: Shared, First: true, Way: ByQueue, Since: 3}}},
		{1, other, []Level{first, nested}},
		{2, nested, []Level{first, other}},
	} {
		l := held(first, other, nested)
		if was := l.close(c.closes); was != c.was || !slices.Equal(l.levels.all, c.left) {
			t.Errorf("%d: %+v, and %+v is left", c.closes, was, l.levels.all)
		}
	}
}

// A reader holds the lock beside a guest of a hold of its own that is over: these are two holds.
func TestAHoldBesideAGuestOfAFormerOneEndsByItself(t *testing.T) {
	guest, own := reads(1, NeverSafe), reads(1, NeverSafe)
	guest.Guest, guest.First, own.First = true, true, true
	for _, first := range [][]Level{{guest, own}, {own, guest}} {
		l := held(first...)
		if was := l.close(0); was != first[0] || l.levels.all[0] != first[1] {
			t.Errorf("%+v, and %+v is left", was, l.levels.all)
		}
	}
}

// The account of a level, how and when it was acquired, moves to one that is reported itself, as a part of a whole is not.
func TestWhichLevelGoesOnWithTheReport(t *testing.T) {
	for _, c := range []struct {
		name      string
		was, next Level
		goesOn    bool
	}{
		{"nested", Level{Owner: 1, Way: ByQueue, Since: 3}, Level{Owner: 1, Way: ByNesting, Since: 5}, true},
		{"it was nested itself", Level{Owner: 1, Way: ByNesting, Since: 3}, Level{Owner: 1, Way: ByQueue, Since: 5}, false},
		{"it was a part", Level{Owner: 1, Way: ByQueue, Since: 3, Part: true}, Level{Owner: 1, Way: ByNesting, Since: 5}, false},
		{"the next is a part", Level{Owner: 1, Way: ByQueue, Since: 3}, Level{Owner: 1, Way: ByNesting, Since: 5, Part: true}, false},
		{"another owner's", Level{Owner: 1, Way: ByQueue, Since: 3}, Level{Owner: 2, Way: ByNesting, Since: 5}, false},
		{"a guest's", Level{Owner: 1, Way: ByQueue, Since: 3}, Level{Owner: 1, Way: ByNesting, Since: 5, Guest: true}, true},
		{"a guest's that has a report itself", Level{Owner: 1, Way: ByJoining, Since: 3}, Level{Owner: 1, Way: ByQueue, Since: 2, Guest: true}, false},
	} {
		l := held(c.was, c.next)
		was := l.close(0)
		left := l.levels.all[0]
		if got := left.Since == 3 && left.Way == c.was.Way && was.Way == ByNesting; got != c.goesOn || !got && (left != c.next || was != c.was) {
			t.Errorf("%s: %+v, and %+v is left", c.name, was, left)
		}
	}
}

func TestWhenAReaderEndsBesideOthers(t *testing.T) {
	for _, c := range []struct {
		levels []Level
		ends   SafeTime
		closes int
		then   SafeTime
	}{
		{[]Level{reads(1, 50), reads(2, 30)}, 30, 0, 30},
		{[]Level{reads(1, 50), reads(2, 30)}, 30, 1, 50}, // the one that asked for less is gone
		{[]Level{reads(1, NeverSafe), reads(2, NeverSafe)}, NeverSafe, 0, NeverSafe},
		{[]Level{writes(1, 40), reads(1, NeverSafe)}, NeverSafe, 1, NeverSafe}, // a writer's is that of the lock
		{[]Level{writes(1, 40), reads(1, 50)}, 50, 0, 50},
	} {
		l := held(c.levels...)
		if l.levels.ends != c.ends {
			t.Errorf("%+v: the next end is %d", c.levels, l.levels.ends)
		}
		if l.close(c.closes); l.levels.ends != c.then {
			t.Errorf("%+v without %d: the next end is %d", c.levels, c.closes, l.levels.ends)
		}
	}
}

func TestReadersWhoseLeaseIsOverEnd(t *testing.T) {
	capped := func(v Level) Level { v.Capped = true; return v }
	for _, c := range []struct {
		levels []Level
		lost   int
		ends   SafeTime
	}{
		{[]Level{reads(1, 50), reads(2, 70), reads(3, 60), reads(4, NeverSafe)}, 1, 60},
		{[]Level{capped(reads(1, 50)), reads(1, NeverSafe), reads(2, NeverSafe)}, 2, NeverSafe}, // a cap limits the owner
		{[]Level{capped(writes(1, 50)), reads(1, 90), writes(1, NeverSafe)}, 3, NeverSafe},
		{[]Level{capped(writes(1, 60)), writes(1, 50)}, 0, 60},
		{[]Level{capped(reads(1, 50)), capped(reads(2, 51)), reads(3, 50)}, 2, 51},
		{[]Level{reads(1, 60), reads(2, 70), reads(3, 50)}, 1, 60},
		{[]Level{reads(1, 50), reads(2, NeverSafe)}, 1, NeverSafe},
		{[]Level{reads(1, 60), reads(1, 50)}, 0, 60}, // the owner goes on
		{[]Level{reads(1, 50), reads(1, 40), reads(2, 51)}, 2, 51},
		{[]Level{writes(1, 70), reads(1, 50)}, 0, NeverSafe},
		{[]Level{reads(1, NeverSafe)}, 0, NeverSafe},
	} {
		l := held(c.levels...)
		tooLong, ended := l.expire(at(50))
		for _, v := range tooLong {
			if v.Owner == 3 {
				t.Errorf("%+v: a lease that has ended is no cap", v)
			}
		}
		if lost := append(tooLong, ended...); len(lost) != c.lost || len(l.levels.all) != len(c.levels)-c.lost || l.levels.ends != c.ends {
			t.Errorf("%+v: %+v are lost, and the next end is %d", c.levels, lost, l.levels.ends)
		}
		was := l.levels.summary
		if want := sum(l.levels.all); was.writes != want.writes || was.asked != want.asked || was.longest != want.longest {
			t.Errorf("%+v: the summary is %+v", c.levels, was)
		}
	}
}

func TestWhatTheLevelsAskFor(t *testing.T) {
	for _, c := range []struct {
		levels            []Level
		asked, ofTheFirst SafeTime
		longest           SafeTime
		wanted            Span
		shown             SafeTime
	}{
		{[]Level{writes(1, NeverSafe)}, NeverSafe, NeverSafe, 0, 30_000, NeverSafe},
		{[]Level{writes(1, 500), writes(1, 900), writes(1, 700)}, 900, 900, 900, 800, 900},
		{[]Level{reads(1, 500), reads(2, 900)}, 900, 500, 900, 800, 900},
		{[]Level{reads(1, 500), reads(2, NeverSafe), reads(2, 900)}, NeverSafe, 500, 900, 30_000, NeverSafe},
		{[]Level{writes(1, NeverSafe), writes(1, 40_100)}, NeverSafe, NeverSafe, 40_100, 40_000, 40_100}, // longer than that of a renewal
		{[]Level{writes(1, NeverSafe), writes(1, 30_100), writes(1, 200)}, NeverSafe, NeverSafe, 30_100, 30_000, NeverSafe},
	} {
		l := held(c.levels...)
		if l.levels.asked != c.asked || l.askedBy(1) != c.ofTheFirst || l.levels.longest != c.longest || l.wanted(at(100)) != c.wanted || l.shape(at(100)).until != c.shown {
			t.Errorf("%+v: asked %d, by the first %d, longest %d, wanted %d, shown %d", c.levels, l.levels.asked, l.askedBy(1), l.levels.longest, l.wanted(at(100)), l.shape(at(100)).until)
		}
		if l.TrustedUntil() != min(50_000, c.asked) {
			t.Errorf("%+v: valid until %d", c.levels, l.TrustedUntil())
		}
		if l.owner.trust.until = 300; l.TrustedUntil() != 300 || l.Ends() != 300 {
			t.Errorf("%+v: valid until %d, though it is trusted until 300", c.levels, l.TrustedUntil())
		}
	}
}

func TestSetLeaseChangesTheEndOfALevel(t *testing.T) {
	l := held(reads(1, NeverSafe), reads(2, 300))
	if l.let(0, 100, false, at(50)); l.levels.all[0].Until != 150 || l.levels.ends != 150 {
		t.Errorf("%+v", l.levels)
	}
	if l.let(0, 0, false, at(50)); l.levels.all[0].Until != NeverSafe {
		t.Errorf("%+v", l.levels)
	}
	if !l.SetLease(2, Shared, nil, 90, at(50)) || l.levels.all[1].Until != 140 || l.SetLease(3, Shared, nil, 90, at(50)) {
		t.Errorf("%+v", l.levels)
	}
}

// A lease that was longer than that of a renewal when Redis was told of it stays as it is.
func TestWhenRedisIsToldOfTheLevels(t *testing.T) {
	long := []Level{writes(1, NeverSafe), writes(1, 40_100)}
	for _, c := range []struct {
		name   string
		levels []Level
		shown  shape
		seen   Now
		now    Now
		shows  bool
	}{
		{"it shows them", long, shape{owner: 1, writes: 2, reads: false, until: 40_100}, at(100), at(100), true},
		{"the rest is shorter than a renewal's by now", long, shape{owner: 1, writes: 2, reads: false, until: 40_100}, at(100), at(20_000), true},
		{"it was shorter when it was told of it", long, shape{owner: 1, writes: 2, reads: false, until: 40_100}, at(10_100), at(20_000), false},
		{"just as long", long, shape{owner: 1, writes: 2, reads: false, until: 40_100}, at(10_099), at(20_000), true},
		{"another lease", long, shape{owner: 1, writes: 2, reads: false, until: 40_200}, at(100), at(20_000), false},
		{"the lease is over", []Level{writes(1, 40_100)}, shape{owner: 1, writes: 1, reads: false, until: NeverSafe}, at(100), at(20_000), false},
		{"another number", long[:1], shape{owner: 1, writes: 2, reads: false, until: NeverSafe}, at(100), at(100), false},
		{"another owner", long[:1], shape{owner: 2, writes: 1, reads: false, until: NeverSafe}, at(100), at(100), false},
	} {
		l := held(c.levels...)
		l.owner.shown, l.owner.trust.seen = c.shown, c.seen
		if shows := l.isMirrored(l.owner, c.now); shows != c.shows {
			t.Errorf("%s: %v", c.name, shows)
		}
	}
}

func TestALevelIsFoundByItsHandleOrItsOwner(t *testing.T) {
	l := held(Level{Owner: 1}, Level{Owner: 1, Handle: "a"}, Level{Owner: 1, Mode: Shared}, Level{Owner: 2, Handle: "b"}, Level{Owner: 1})
	for _, c := range []struct {
		owner  OwnerID
		mode   Mode
		handle any
		want   int
	}{
		{1, Alone, nil, 4}, {1, Shared, nil, 2}, {2, Alone, nil, -1}, {1, Alone, "a", 1}, {9, Shared, "b", 3}, {1, Alone, "c", -1},
	} {
		if i := l.levelOf(c.owner, c.mode, c.handle); i != c.want {
			t.Errorf("%+v: %d", c, i)
		}
	}
}

// A level has what its call has asked for, and how and when that was served.
func TestWhatALevelIs(t *testing.T) {
	for _, c := range []struct {
		way   Way
		lease Span
		first bool
		until SafeTime
	}{{ByQueue, 0, true, NeverSafe}, {ByNesting, 1, false, 51}} {
		l := held()
		l.owner.tokens = tokens{1, 0, 7}
		w := &Call{Owner: 2, Mode: Shared, Lease: c.lease, Part: true, Handle: "a", Info: 9}
		l.open(w, c.way, at(50))
		want := Level{Owner: 2, Mode: Shared, Part: true, First: c.first, Until: c.until, Since: 50, Token: 7, Way: c.way, Handle: "a", Info: 9}
		if l.levels.all[0] != want || w.Outcome != Acquired || w.Way != c.way || w.Token != 7 {
			t.Errorf("%+v", l.levels.all[0])
		}
	}
}

// What a level that has closed points to is not kept, though its memory is.
func TestALevelThatHasClosedPointsToNothing(t *testing.T) {
	l := held(Level{Owner: 1, Handle: "a", Info: 7}, Level{Owner: 1, Handle: "b", Info: 8})
	l.close(0)
	if left := l.levels.all[:2]; left[0].Handle != "b" || left[0].Info != 8 || left[1].Handle != nil || left[1].Info != nil {
		t.Errorf("%+v", left)
	}
}

// A tenure knows that a level has sent a guarded write when that ends, and another tenure does not.
func TestALevelLeavesAGuardedWriteBehind(t *testing.T) {
	for _, wrote := range []bool{false, true} {
		l := held(Level{Owner: 1, Mode: Shared, Until: NeverSafe}, Level{Owner: 2, Mode: Shared, Until: 50, wrote: wrote})
		if _, lost := l.expire(at(50)); len(lost) != 1 || l.owner.wrote != wrote {
			t.Errorf("%v: %+v, and %v of the tenure", wrote, lost, l.owner.wrote)
		}
		l = held(Level{Owner: 1, wrote: wrote}, Level{Owner: 2})
		if l.close(0); l.owner.wrote != wrote {
			t.Errorf("%v: closed, and %v of the tenure", wrote, l.owner.wrote)
		}
		if l.close(0); l.owner.wrote != wrote {
			t.Errorf("%v: closed the other, and %v of the tenure", wrote, l.owner.wrote)
		}
		l = held(Level{Owner: 1, wrote: wrote})
		if l.exchanged(); l.levels.all[0].wrote {
			t.Errorf("%v: a level has written in a tenure that is new", wrote)
		}
	}
}

// The keeper is told when a reader's lease ends beside others, since Redis shows it yet.
func TestRedisIsToldOfAReaderThatHasEnded(t *testing.T) {
	l := held(reads(1, 90), reads(2, NeverSafe))
	n := l.owner
	l.owner.mode, l.levels.all[0].Mode, n.shown = Shared, Shared, shape{}
	n.alarm = 40_000
	l.client.TakeEffects(at(0))
	if l.Settle(at(90)); !polled(l, n) || len(l.levels.all) != 1 {
		t.Error("its agent is not told")
	}
}

// When the owner's levels are closed, levels of its guests may be open.
func TestAnOwnerDoesNotNestBesideItsGuestsAlone(t *testing.T) {
	own, guest := writes(1, NeverSafe), writes(1, NeverSafe)
	guest.Guest, guest.Handle = true, Guests
	call := func(o OwnerID, m Mode, isGuest bool) *Call {
		return &Call{Owner: o, Mode: m, Guest: isGuest, Waits: true, Until: Never}
	}
	for _, c := range []struct {
		name   string
		levels []Level
		call   *Call
		want   Outcome
	}{
		{"the owner in its hold", []Level{own}, call(1, Alone, false), Acquired},
		{"the owner in its hold, beside a guest", []Level{guest, own}, call(1, Alone, false), Acquired},
		{"a guest", []Level{own}, call(1, Alone, true), Acquired},
		{"the owner", []Level{guest}, call(1, Alone, false), Waiting},
		{"the owner reads", []Level{guest}, call(1, Shared, false), Waiting},
		{"the owner reads beside a reader", []Level{{Owner: 1, Mode: Shared, Until: NeverSafe, Guest: true}}, call(1, Shared, false), Acquired},
		{"the owner writes", []Level{{Owner: 1, Mode: Shared, Until: NeverSafe, Guest: true}}, call(1, Alone, false), Waiting},
		{"another owner's guest", []Level{own, guest}, call(2, Alone, true), Waiting},
	} {
		l := held(c.levels...)
		if got := l.Lock(c.call, at(50)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}

	l := held(own, guest)
	if was, _, ok := l.Unlock(1, Alone, nil, at(50)); !ok || was.Guest {
		t.Error("the owner unlocks its own level")
	}
	if _, _, ok := l.Unlock(1, Alone, nil, at(50)); ok {
		t.Error("the owner unlocks a guest's level")
	}
	if was, t2, ok := l.Unlock(1, Alone, Guests, at(50)); !ok || !was.Guest || t2 == nil {
		t.Error("the guest's level is the last")
	}
}

// A mirror shortens the lease only where Redis was told of one that others would wait for in vain.
func TestWhichMirrorShortensTheLease(t *testing.T) {
	const soon, never = 100 + 600, NeverSafe
	for _, c := range []struct {
		name     string
		told     SafeTime // until when; NeverSafe: a lease of 30 000, 10 000 ago
		lease    Span
		shortens bool
	}{
		{"a renewal", never, 30_000, false},
		{"a lease that ends later", 5_000, 30_000, false},
		{"the same lease, whose time has passed", 8_100, 8_000, false},
		{"a fixed lease after one that was renewed", never, 8_000, true},
		{"a fixed lease after a longer one", 9_000, 8_000, true},
		{"the rest of a lease after one that was renewed", never, 499, false},
		{"just enough of it", never, 500, true},
		{"the rest of a lease after one that is longer than that of a renewal", 30_101, 499, true},
		{"a renewal after such a lease", 3_600_000, 30_000, true},
		{"nothing was told", 0, 499, false},
	} {
		l := held(writes(1, soon))
		l.owner.shown.until, l.owner.trust.seen = c.told, at(100-10_000)
		if shortens := l.shortens(l.owner, c.lease, at(100)); shortens != c.shortens {
			t.Errorf("%s: %v", c.name, shortens)
		}
	}
}

// What a mirror without an answer was to shorten is to be shortened by the next one.
func TestAMirrorWithoutAnAnswerIsSentAgainAsItWas(t *testing.T) {
	for _, most := range []Span{30_000, 3_600_000} {
		l := held(writes(1, 8_100))
		n := l.owner
		n.trust.seen, n.trust.most, n.shown.until = at(0), most, NeverSafe
		for i := range 2 {
			cmd := n.send(Mirror, at(100))
			if !cmd.Exact || cmd.Lease != 8_000 {
				t.Errorf("%d: %+v", i, cmd)
			}
			n.answered(n.flight, Reply{Fault: Unknown}, at(100))
		}
	}
}
