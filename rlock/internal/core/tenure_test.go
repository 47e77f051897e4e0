package core

import (
	"testing"
	"unsafe"
)

// The tenures of a lock are found one by one, or by a map while they are many.
func TestTenuresAreFoundHoweverManyTheyAre(t *testing.T) {
	l, first := tenure()
	all := []*Tenure{first}
	check := func(mapped bool) {
		t.Helper()
		if (l.tenures.byID != nil) != mapped || l.tenures.len != len(all) {
			t.Fatalf("%d of %d tenures, in a map: %v", l.tenures.len, len(all), l.tenures.byID != nil)
		}
		i := 0
		for n := range l.Tenures {
			if n != all[i] {
				t.Fatalf("the tenure %d is another one", i)
			}
			i++
		}
		for _, n := range all {
			if l.Find(n.ID) != n || n.lock != l {
				t.Fatalf("%d is not found", n.ID.N)
			}
		}
		if mapped && len(l.tenures.byID) != len(all) {
			t.Fatalf("the map has %d", len(l.tenures.byID))
		}
	}
	for i := uint64(2); i <= 12; i++ {
		all = append(all, l.newTenure(ID{1, i}, Alone))
		check(i > manyTenures)
	}
	for _, at := range []int{0, 10, 4} { // the first, the last, and one between
		n := all[at]
		all = append(all[:at:at], all[at+1:]...)
		if l.forget(n, Now{}); l.Find(n.ID) != nil || n.lock != nil || n.prev != nil || n.behind != nil {
			t.Fatal("it is there")
		}
		check(true)
	}
	for len(all) > 2 {
		n := all[0]
		all = all[1:]
		l.forget(n, Now{})
		check(true)
	}
	all = append(all, l.newTenure(ID{1, 30}, Alone)) // few by now, in the map of many
	check(true)
	for len(all) > 0 {
		n := all[0]
		all = all[1:]
		l.forget(n, Now{})
		check(len(all) > 0)
	}
	all = append(all, l.newTenure(ID{1, 20}, Alone))
	check(false)
}

// A lock may be released by force while a mirror is in flight. The tenure is over then, and the answer is for
// a former life.
func TestAnAnswerToATenureThatIsOverChangesNothing(t *testing.T) {
	l := held(writes(1, NeverSafe))
	n := l.owner
	mirror, _ := l.Poll(n, at(1))
	if mirror.Op != Mirror {
		t.Fatal("no mirror is sent")
	}
	force(l, n.ID, at(2))
	l.Poll(n, at(2))
	if !l.Idle() {
		t.Fatal("it is over")
	}
	l.client.TakeEffects(at(0))
	l.Answer(&mirror, nil, Reply{Found: Holds, Others: 1}, at(3))
	if !l.Idle() || len(l.client.TakeEffects(at(0))) > 0 || n.place == Owner {
		t.Error("an answer to a former life counts")
	}
	n.Tag = 7
	if next := l.newTenure(ID{1, 2}, Alone); next != n || next.Tag != 7 {
		t.Error("its memory is not used again, with what the driver has there")
	}
	n.send(Leave, at(3))
	if l.Answer(&mirror, nil, Reply{Found: Holds}, at(3)); n.flight.op != Leave {
		t.Error("an answer to a former life counts in the next")
	}
}

// A client may hold many locks: so a tenure and a level keep to a size of Go's allocator.
func TestATenureHasASizeOfTheAllocator(t *testing.T) {
	if size := unsafe.Sizeof(Tenure{}); size > 320 {
		t.Errorf("a tenure has %d bytes", size)
	}
	if size := unsafe.Sizeof(Level{}); size > 80 {
		t.Errorf("a level has %d bytes", size)
	}
}
