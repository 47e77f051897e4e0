package deadlock

import (
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/waitgraph"
)

// A Wait is an owner that waits for a lock, and the owner that holds it.
type Wait struct {
	Lock           string
	Waiter, Holder Party
}

// A Cycle is a ring of waits: each holder is the waiter of the next wait. It begins with the
// lock whose name is the first in order.
type Cycle []Wait

// Find returns cycles among the locks, each once: at least one wherever owners wait for each
// other. Where several cycles share owners, some may be found only when others are resolved.
func Find(v View) (cycles []Cycle) {
	g := v.graph()
	for _, waits := range waitgraph.Cycles(g.uses) {
		var cycle Cycle
		for _, w := range waits {
			cycle = append(cycle, Wait{g.uses[w.Waiter].Lock, g.parties[w.Waiter], g.parties[w.Holder]})
		}
		cycles = append(cycles, cycle)
	}
	slices.SortFunc(cycles, func(a, b Cycle) int { return strings.Compare(a.text(), b.text()) })
	return cycles
}

// Still returns those of the cycles that were seen before with the same holds and the same
// waits.
func Still(before, now []Cycle) (cycles []Cycle) {
	for _, cycle := range now {
		if slices.ContainsFunc(before, func(c Cycle) bool { return c.text() == cycle.text() }) {
			cycles = append(cycles, cycle)
		}
	}
	return cycles
}

// Locks returns the names of the locks of the cycles.
func Locks(cycles []Cycle) (names []string) {
	for _, cycle := range cycles {
		for _, wait := range cycle {
			names = append(names, wait.Lock)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c Cycle) text() string {
	var all strings.Builder
	for _, w := range c {
		all.WriteString(w.Lock + "\x00" + w.Waiter.text() + "\x00" + w.Holder.text() + "\x00")
	}
	return all.String()
}
