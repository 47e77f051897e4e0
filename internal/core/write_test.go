package core

import "testing"

// What the answer to a guarded write changes: the number of those that may run yet, and whether the lock is believed.
func TestWhatAGuardedWriteSays(t *testing.T) {
	for _, c := range []struct {
		name                   string
		mode                   Mode
		level, tenure          int32 // that may run yet
		closed                 bool  // its level has
		reply                  Reply
		leavesLevel, leavesAll int32
		lost                   bool
	}{
		{"it was executed", Alone, 1, 0, false, Reply{Found: Holds, Settled: true}, 0, 0, false},
		{"another copy may run", Alone, 1, 0, false, Reply{Found: Holds}, 1, 0, false},
		{"it was not sent", Alone, 1, 0, false, Reply{Fault: NotRun}, 0, 0, false},
		{"it may run", Alone, 1, 0, false, Reply{Fault: Unknown}, 1, 0, false},
		{"it is refused for good", Alone, 1, 0, false, Reply{Fault: Fatal}, 0, 0, false},
		{"its level has closed", Alone, 0, 1, true, Reply{Found: Holds, Settled: true}, 0, 0, false},
		{"it is one of a level that has closed", Alone, 0, 1, false, Reply{Found: Holds, Settled: true}, 0, 0, false},
		{"it is counted no more", Alone, 0, 0, false, Reply{Found: Holds, Settled: true}, 0, 0, false},
		{"Redis does not have the tenure", Alone, 1, 0, false, Reply{Found: Nowhere, Settled: true}, 0, 0, true},
		{"Redis has no such writer, but the lock is read by now", Alone, 0, 1, true, Reply{Found: Nowhere, Settled: true}, 0, 0, false},
		{"Redis has no such reader", Shared, 1, 0, false, Reply{Found: Nowhere, Settled: true}, 0, 0, true},
	} {
		l := held(Level{Owner: 1, Mode: c.mode, Until: NeverSafe, guarded: c.level})
		if c.closed {
			l.closeAll()
			l.add(reads(2, NeverSafe))
		}
		n := l.owner
		n.guarded = c.tenure
		l.Wrote(n.ID, 1, c.mode, nil, c.reply, at(50))
		if lost := !l.IsHeld(); lost != c.lost {
			t.Errorf("%s: lost %v", c.name, lost)
		}
		if !c.lost && (l.levels.all[0].guarded != c.leavesLevel || n.guarded != c.leavesAll) {
			t.Errorf("%s: %d of the level, %d of the tenure", c.name, l.levels.all[0].guarded, n.guarded)
		}
	}
}

// The answer to a write of a former tenure, which leaves Redis, says nothing of the next.
func TestAWriteOfAFormerTenure(t *testing.T) {
	l := held(Level{Owner: 1, Until: NeverSafe, guarded: 1})
	former := l.newTenure(ID{1, false, 7}, Alone)
	former.want, former.place, former.guarded = Gone, Owner, 2
	l.Wrote(former.ID, 1, Alone, nil, Reply{Found: Holds, Settled: true}, at(50))
	l.Wrote(former.ID, 1, Alone, nil, Reply{Found: Nowhere, Settled: true}, at(50))
	if l.levels.all[0].guarded != 1 || former.guarded != 0 || !l.IsHeld() || former.place != Owner {
		t.Errorf("%d of the level, %d of the former tenure", l.levels.all[0].guarded, former.guarded)
	}
}
