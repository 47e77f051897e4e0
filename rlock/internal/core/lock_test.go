package core

import "testing"

// What no order of events shows: memory that is used again, numbers that might overflow, and a
// state that events do not leave.

// held returns a lock of a client with real times, and the tenure by which an owner holds it at the
// time 0.
func held(mode Mode) (*Lock, *Tenure) {
	c := &Client{Config: realTimes()}
	l := c.NewLock(Kind{})
	w := &Call{Owner: 1, Mode: mode, Until: Never, Handle: "a", Info: 9}
	l.BeginLock(w, Now{})
	cmd := l.Command(w, l.Next(w, true, Now{}).Op, Now{})
	l.Answer(&cmd, w, Reply{Found: Holds}, Now{})
	c.TakeEffects(Now{})
	return l, l.Held()
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
		{"a writer has it", func(l *Lock) { l.levels.writes = 1 }, false},
		{"others wait", func(l *Lock) { l.held.contention.othersWait = true }, false},
		{"a guarded write may run", func(l *Lock) { l.held.wrote = true }, false},
		{"the client closes", func(l *Lock) { l.client.closed = true }, false},
		{"the lease is nearly over", func(l *Lock) { l.held.trust.until = 3_100 }, false},
		{"a level is over", func(l *Lock) { l.levels.asked = 100 }, false},
		{"it is free", func(l *Lock) { l.held, l.levels.all = nil, nil }, false},
	} {
		l, _ := held(Shared)
		l.line.add(&Call{Owner: 2, Mode: Shared, Waits: true, Until: Never})
		if c.change(l); l.KeepsOut(Now{100, 100}) != c.out {
			t.Errorf("%s: %v", c.name, !c.out)
		}
	}
}

func TestWhenALockSubscribes(t *testing.T) {
	for h, subscribes := range map[subscription]bool{unsubscribed: false, subscribing: true, subscribed: true, notSubscribed: false} {
		if l := (&Lock{grants: h}); l.Subscribes() != subscribes {
			t.Errorf("%s: %v", h, !subscribes)
		}
	}
}

// A call and a lock are begun in the memory of others, and a level ends in its own.
func TestMemoryIsUsedAgain(t *testing.T) {
	l, _ := held(Alone)
	if v := l.Levels()[0]; v.Info != 9 || v.Handle != "a" {
		t.Errorf("a level has not what its call has: %+v", v)
	}
	w := &Call{Owner: 2, Waits: true, Outcome: Failed}
	if l.Nest(w, Now{}) || l.AtOnce(w, Now{}) != Waiting {
		t.Errorf("the call has the outcome of a former one: %s", w.Outcome)
	}
	was := &l.Levels()[0]
	if l.Unlock(1, Alone, "a", Now{}); was.Handle != nil || was.Info != nil {
		t.Errorf("a level that has closed keeps what it points to: %+v", was)
	}
	l.Tag, l.grants = 7, subscribed
	if l.Reset(l.client, Kind{Fenced: true}); l.Tag != 7 || l.grants != unsubscribed || !l.Idle() || !l.Kind.Fenced {
		t.Errorf("the lock keeps its tag, and nothing else: %+v", l)
	}
}

// Pauses and counts of tries end somewhere, however long Redis does not answer, or a ticket polls.
func TestNoPauseOverflows(t *testing.T) {
	l, n := held(Alone)
	for i := range 300 {
		if d := l.client.pause(10, 500, i); d != min(10<<min(i, 6), Span(500)) {
			t.Fatalf("the pause %d is %d", i, d)
		}
		n.noteFailure(flight{op: Look}, unknown, false, Now{})
	}
	n.polls = 1
	for range 300 {
		n.scheduleLook(Reply{Found: Waits}, Now{})
	}
	if n.again != 500 || n.look != 128 {
		t.Errorf("it rests for %d, and looks after %d", n.again, n.look)
	}
}
