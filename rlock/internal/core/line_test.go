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
		var is []*Call
		for w := range l.All {
			is = append(is, w.Value)
		}
		if !slices.Equal(is, want) || !maps.Equal(l.repeats, repeats) {
			t.Errorf("%d are in line, repeats %v", len(is), l.repeats)
		}
		for _, w := range all {
			if w.position.InLine() != slices.Contains(want, w) {
				t.Errorf("owner %d is in the line: %v", w.Owner, w.position.InLine())
			}
		}
	}
	for i, w := range all {
		if l.join(w); l.Len() != i+1 || l.first() != all[0] {
			t.Fatal(l.Len())
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
