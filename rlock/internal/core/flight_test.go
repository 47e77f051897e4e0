package core

import "testing"

// What a command says, beside its lease.
func TestWhatACommandSays(t *testing.T) {
	for _, c := range []struct {
		op    Op
		entry Op
		place Place
		owner OwnerID
		heard bool // that a foreign client has published
		lease Span
	}{
		{Acquire, Acquire, Out, 1, false, 30_000},
		{Join, Join, Out, 1, false, 2_000},
		{Look, Join, InQueue, 5, true, 30_000},
		{Leave, None, InQueue, 5, true, 0},
		{Resume, Resume, Out, 1, false, 30_000},
	} {
		l, w := waiter()
		l.Kind.Permits = 3
		l.abroad.told = true
		w.Named = ID{2, 9}
		n := l.asks(w, c.entry)
		n.place, n.shown.owner, n.tokens.reserved = c.place, 5, 16
		cmd := n.send(c.op, at(50))
		if cmd.Owner != c.owner || cmd.Heard != c.heard || l.abroad.told == c.heard || cmd.Lease != c.lease || cmd.Permits != 3 || cmd.Tokens != 16 || (cmd.Passed == w.Named) != (c.op == Resume) {
			t.Errorf("%d: %+v", c.op, cmd)
		}
		if c.op.enters() && n.place != Unsure {
			t.Errorf("%d: place %d", c.op, n.place)
		}
	}
}

// A command that follows another one that may run yet keeps to the pipeline.
func TestWhichCommandsFollowAnother(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Tenure)
		follows bool
	}{
		{"none was sent", func(*Tenure) {}, false},
		{"one is in flight", func(n *Tenure) { n.flight.op = Mirror }, true},
		{"one may run late", func(n *Tenure) { n.late = 51 }, true},
		{"it may not any more", func(n *Tenure) { n.late = 50 }, false},
	} {
		_, n := tenure()
		c.change(n)
		if follows := n.follows(at(50)); follows != c.follows {
			t.Errorf("%s: %v", c.name, follows)
		}
	}
}
