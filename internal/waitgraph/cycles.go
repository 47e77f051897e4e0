package waitgraph

import "slices"

// A Use is a hold of a lock, or a wait for it.
type Use[K comparable] struct {
	Lock string
	// Names are up to two of the user: its owner, and the goroutine that calls, which may call
	// for several owners. The zero K is none. Uses with a name in common have the same user.
	Names  [2]K
	Waits  bool // for the lock; else it is held
	Shared bool // as a reader: readers do not wait for each other
}

// sameUser reports whether both uses have the same user.
func (u *Use[K]) sameUser(other *Use[K]) bool {
	var none K
	for _, name := range u.Names {
		if name != none && slices.Contains(other.Names[:], name) {
			return true
		}
	}
	return false
}

// A Wait is a step of a cycle: a use that waits, and one that holds the lock that it waits
// for, by their places among the uses.
type Wait struct{ Waiter, Holder int }

// Cycles returns cycles of waits, each once: the holder of each wait is the waiter of the
// next, and that of the last the waiter of the first. A cycle of one wait is a user
// that waits for its own lock. Each cycle begins with the waiter that comes first among the
// uses. Wherever users wait for each other, at least one cycle is found; where several cycles
// have users in common, some may be found only when others are resolved.
func Cycles[K comparable](uses []Use[K]) (cycles [][]Wait) {
	var none K
	holders, waiters := make(map[string][]int), make(map[K][]int)
	for i := range uses {
		u := &uses[i]
		if !u.Waits {
			holders[u.Lock] = append(holders[u.Lock], i)
			continue
		}
		for _, name := range u.Names {
			if name != none {
				waiters[name] = append(waiters[name], i)
			}
		}
	}
	var path []Wait
	followed := make([]bool, len(uses))
	var follow func(waiter int)
	follow = func(waiter int) {
		if followed[waiter] {
			return
		}
		for _, holder := range holders[uses[waiter].Lock] {
			h := &uses[holder]
			if uses[waiter].Shared && h.Shared {
				continue
			}
			path = append(path, Wait{waiter, holder})
			if at := lastOf(path, func(w Wait) bool { return uses[w.Waiter].sameUser(h) }); at >= 0 {
				cycles = append(cycles, inOrder(path[at:]))
			} else {
				for _, name := range h.Names {
					for _, next := range waiters[name] {
						follow(next)
					}
				}
			}
			path = path[:len(path)-1]
		}
		followed[waiter] = true
	}
	for i := range uses {
		if uses[i].Waits {
			follow(i)
		}
	}
	return cycles
}

func lastOf(path []Wait, is func(Wait) bool) int {
	for i := len(path) - 1; i >= 0; i-- {
		if is(path[i]) {
			return i
		}
	}
	return -1
}

// inOrder returns a copy of the cycle that begins with its first waiter.
func inOrder(cycle []Wait) []Wait {
	first := 0
	for i, w := range cycle {
		if w.Waiter < cycle[first].Waiter {
			first = i
		}
	}
	return slices.Concat(cycle[first:], cycle[:first])
}
