package core

import "testing"

// Only an answer of Redis that it does not have the tenure says something: the lock is not believed any more.
func TestWhatAGuardedWriteSays(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   Mode
		closed bool // its level has
		reply  Reply
		lost   bool
	}{
		{"it was executed", Alone, false, Reply{Found: Holds}, false},
		{"it was not sent", Alone, false, Reply{Fault: NotRun}, false},
		{"it may run", Alone, false, Reply{Fault: Unknown}, false},
		{"it is refused for good", Alone, false, Reply{Fault: Fatal}, false},
		{"Redis does not have the tenure", Alone, false, Reply{Found: Nowhere}, true},
		{"Redis has no such writer, but the lock is read by now", Alone, true, Reply{Found: Nowhere}, false},
		{"Redis has no such reader", Shared, false, Reply{Found: Nowhere}, true},
	} {
		l := held(Level{Owner: 1, Mode: c.mode, Until: NeverSafe})
		if c.closed {
			l.closeAll()
			l.add(reads(2, NeverSafe))
		}
		wrote(l, l.owner.ID, c.mode, c.reply, at(50))
		n := l.owner
		if n == nil {
			n = l.tenures.first
		}
		if lost := !l.IsHeld(); lost != c.lost || lost && (n.want != Gone || n.place != Owner) {
			t.Errorf("%s: lost %v; the tenure wants %d at place %d, but it is to leave what Redis has of it", c.name, lost, n.want, n.place)
		}
	}
}

// The answer to a write of a former tenure, which leaves Redis, says nothing of the next.
func TestAWriteOfAFormerTenure(t *testing.T) {
	l := held(Level{Owner: 1, Until: NeverSafe})
	former := l.newTenure(ID{1, 7}, Alone)
	former.want, former.place = Gone, Owner
	wrote(l, former.ID, Alone, Reply{Found: Nowhere}, at(50))
	if !l.IsHeld() || former.place != Owner {
		t.Errorf("held %v, and the former tenure has place %d", l.IsHeld(), former.place)
	}
}

// No hold begins in the tenure after a write of a level that has closed, also if that was nested.
func TestATenureWithAWriteIsNotOpen(t *testing.T) {
	l := held(Level{Owner: 1, Until: NeverSafe}, Level{Owner: 1, Until: NeverSafe, Handle: "b"})
	n := l.owner
	write := func(handle any) (cmd Command, ok bool) {
		c := &Call{Owner: 1, Handle: handle, Until: Never}
		l.Write(c)
		if a := l.Next(c, true, at(50)); a.Do != Sends {
			return cmd, false
		}
		return l.Command(c, Write, at(50)), true
	}
	if _, ok := write("c"); ok || l.levels.all[0].wrote || l.levels.all[1].wrote {
		t.Error("a level that does not exist has written")
	}
	id, ok := write("b")
	if !ok || id.ID != n.ID || !l.levels.all[1].wrote || l.levels.all[0].wrote || !n.isOpen() {
		t.Errorf("%v %v: %+v", ok, id, l.levels.all)
	}
	if l.close(1); n.isOpen() {
		t.Error("another hold may begin in it")
	}
}

// The answer may come when the tenure is over, and the lock is free.
func TestAWriteOfATenureThatIsOver(t *testing.T) {
	l := held()
	l.owner = nil
	wrote(l, ID{1, 99}, Shared, Reply{Found: Nowhere, Settled: true}, at(50))
}
