package core

import (
	"maps"
	"slices"
	"testing"
)

// Waiters leave from anywhere in the line, and those are counted whose owners may have several.
func TestALineKeepsItsOrder(t *testing.T) {
	var l line
	all := []*Call{{Owner: 1, Repeats: true}, {Owner: 2, Repeats: true}, {Owner: 3}, {Owner: 2, Repeats: true}, {Owner: 1, Repeats: true}}
	check := func(repeats map[OwnerID]int, want ...*Call) {
		t.Helper()
		var forth, back []*Call
		for w := l.first; w != nil; w = w.next {
			forth = append(forth, w)
		}
		for w := l.end; w != nil; w = w.prev {
			back = append(back, w)
		}
		slices.Reverse(back)
		if !slices.Equal(forth, want) || !slices.Equal(back, want) || int(l.len) != len(want) || !maps.Equal(l.repeats, repeats) {
			t.Errorf("%d forth, %d back, %d counted, repeats %v", len(forth), len(back), l.len, l.repeats)
		}
		for _, w := range all {
			if w.inLine != slices.Contains(want, w) {
				t.Errorf("owner %d is in the line: %v", w.Owner, w.inLine)
			}
		}
	}
	for i, w := range all {
		if l.join(w); int(l.len) != i+1 {
			t.Fatal(l.len)
		}
	}
	check(map[OwnerID]int{2: 2, 1: 1}, all...)
	l.leave(all[2])
	check(map[OwnerID]int{2: 2, 1: 1}, all[0], all[1], all[3], all[4])
	l.leave(all[1])
	l.leave(all[1]) // it has left
	check(map[OwnerID]int{2: 1, 1: 1}, all[0], all[3], all[4])
	l.leave(all[4])
	check(map[OwnerID]int{2: 1}, all[0], all[3])
	l.leave(all[0])
	check(map[OwnerID]int{2: 1}, all[3])
	l.leave(all[3])
	check(map[OwnerID]int{})
	l.join(all[1])
	l.join(all[0])
	check(map[OwnerID]int{1: 1}, all[1], all[0])
	l.leave(all[0])
	l.join(all[2])
	check(map[OwnerID]int{}, all[1], all[2])
}
