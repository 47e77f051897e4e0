package explore

import "testing"

// A copy is made in memory that is used again: the explorer makes one with each event.
func TestACopyAllocatesNothing(t *testing.T) {
	w := newWorld(&Setup{Clients: 2, Users: 2, Rounds: 1})
	for range 6 { // to a state with calls, tenures and commands
		w.apply(w.actions(nil)[0])
	}
	var spare pool
	spare.free(spare.copyOf(w))
	if n := testing.AllocsPerRun(100, func() { spare.free(spare.copyOf(w)) }); n > 0 {
		t.Errorf("a copy allocates memory %v times", n)
	}
}
