package deadlock

import (
	"slices"
	"strings"

	"github.com/go-rlock/rlock/rlock"
)

// A Wait is one owner that waits for a lock that another one holds.
type Wait struct {
	Lock   string
	Waiter rlock.Waiter
	Holder rlock.Holder
}

// A Cycle is waits of which each holder is the next one's waiter, and the last one's the
// first. It begins with the lock whose name comes first.
type Cycle []Wait

// clientLen is the length of the part of an owner's text that names the client, tenureLen
// that of the part that names the tenure (docs/protocol.md).
const clientLen, tenureLen = 19, 36

// party returns what two owner's texts have in common if they are of one owner: the client
// and the owner's number. Each tenure has a UUID of its own.
func party(owner string, guest bool) string {
	if guest || len(owner) < tenureLen {
		return owner
	}
	return owner[:clientLen] + owner[tenureLen:]
}

// Find returns cycles among the locks, each once: at least one wherever owners wait for each
// other. Where several cycles share owners, some may be found only when others are resolved.
func Find(locks []rlock.Inspection) (cycles []Cycle) {
	waits := make(map[string][]Wait) // by waiter
	for _, lock := range locks {
		if lock.Kind == rlock.KindSemaphore {
			continue
		}
		for _, waiter := range lock.Queue {
			for _, holder := range lock.Holders {
				if waiter.Owner == "" || waiter.Shared && holder.Shared {
					continue // a turn of guests; a reader that waits for a writer before it
				}
				owner := party(waiter.Owner, waiter.Guest)
				waits[owner] = append(waits[owner], Wait{lock.Name, waiter, holder})
			}
		}
	}
	done := make(map[string]bool)
	var path []Wait
	var follow func(owner string)
	follow = func(owner string) {
		if at := slices.IndexFunc(path, func(w Wait) bool { return party(w.Waiter.Owner, w.Waiter.Guest) == owner }); at >= 0 {
			cycles = append(cycles, inOrder(path[at:]))
			return
		}
		if done[owner] {
			return
		}
		for _, wait := range waits[owner] {
			path = append(path, wait)
			follow(party(wait.Holder.Owner, wait.Holder.Guest))
			path = path[:len(path)-1]
		}
		done[owner] = true
	}
	for _, lock := range locks {
		for _, waiter := range lock.Queue {
			follow(party(waiter.Owner, waiter.Guest))
		}
	}
	slices.SortFunc(cycles, func(a, b Cycle) int { return strings.Compare(a.text(), b.text()) })
	return slices.CompactFunc(cycles, func(a, b Cycle) bool { return a.text() == b.text() })
}

// inOrder returns a copy of the cycle that begins with the lock whose name comes first.
func inOrder(waits []Wait) Cycle {
	first := 0
	for i, w := range waits {
		if w.text() < waits[first].text() {
			first = i
		}
	}
	return slices.Concat(waits[first:], waits[:first])
}

// Still returns those of the cycles that were seen before with the same tickets and the same
// holders.
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

func (w Wait) text() string { return w.Lock + "\x00" + w.Waiter.Owner + "\x00" + w.Holder.Owner }

func (c Cycle) text() string {
	var all strings.Builder
	for _, w := range c {
		all.WriteString(w.text() + "\x00")
	}
	return all.String()
}
