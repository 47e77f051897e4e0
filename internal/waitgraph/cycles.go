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

// A Wait is a step of a cycle: a use that waits, and one that holds the lock that it waits
// for, by their places among the uses.
type Wait struct{ Waiter, Holder int }

// Cycles returns cycles of waits, each once: the holder of each wait is the waiter of the
// next, and that of the last the waiter of the first. A cycle of one wait is a user
// that waits for its own lock. Each cycle begins with the waiter that comes first among the
// uses. Wherever users wait for each other, at least one cycle is found; of cycles that have waits in common
// one is, and others only when that is resolved. It takes as long as there are uses, in each graph.
func Cycles[K comparable](uses []Use[K]) (cycles [][]Wait) {
	s := search{edges: graphOf(uses), uses: len(uses)}
	s.place, s.waits, s.told = make([]int, len(s.edges)), make([]bool, len(s.edges)), make([]bool, len(s.edges))
	for i := range uses {
		s.waits[i] = uses[i].Waits
	}
	for i := range uses {
		if uses[i].Waits && s.place[i] == unseen {
			s.follow(i)
		}
	}
	return s.cycles
}

// graphOf returns the edges of a graph whose cycles are those of waits. Its nodes are the uses, and then locks and names, so
// that there are no more edges than uses and names: a wait leads to its lock, that to its holders, a hold to its names, and
// these to the waits that have them. A lock is two nodes, the first of which leads to the holders that a reader waits for,
// the second to the others and to the first.
func graphOf[K comparable](uses []Use[K]) (edges [][]int) {
	var none K
	edges = make([][]int, len(uses))
	locks, names := make(map[string]int), make(map[K]int)
	for i := range uses {
		u := &uses[i]
		lock, ok := locks[u.Lock]
		if !ok {
			lock = len(edges)
			locks[u.Lock] = lock
			edges = append(edges, nil, []int{lock})
		}
		if !u.Shared == u.Waits { // a writer that waits, or a reader that holds
			lock++
		}
		from, to := lock, i
		if u.Waits {
			from, to = i, lock
		}
		edges[from] = append(edges[from], to)
		for _, name := range u.Names {
			if name == none {
				continue
			}
			node, ok := names[name]
			if !ok {
				node = len(edges)
				names[name] = node
				edges = append(edges, nil)
			}
			if u.Waits {
				edges[node] = append(edges[node], i)
			} else {
				edges[i] = append(edges[i], node)
			}
		}
	}
	return edges
}

// A search goes through a graph, each edge once.
type search struct {
	edges  [][]int
	uses   int    // the first nodes
	waits  []bool // by node
	told   []bool // the waits in cycles that were found
	place  []int  // of a node in the path, from 1 on; else unseen or done
	path   []int
	cycles [][]Wait
}

// The places of nodes that are not in the path.
const unseen, done = 0, -1

func (s *search) follow(node int) {
	s.path = append(s.path, node)
	s.place[node] = len(s.path)
	for _, next := range s.edges[node] {
		switch at := s.place[next]; at {
		case unseen:
			s.follow(next)
		case done:
		default:
			s.add(s.path[at-1:])
		}
	}
	s.path = s.path[:len(s.path)-1]
	s.place[node] = done
}

// add notes the cycle of these nodes, unless it has a wait in common with another one.
func (s *search) add(nodes []int) {
	first := 0
	for i := len(nodes) - 1; i >= 0; i-- { // the last ones are new, or those of the last cycle
		switch node := nodes[i]; {
		case s.told[node]:
			return
		case s.waits[node]:
			first = i
		}
	}
	var cycle []Wait
	for _, node := range slices.Concat(nodes[first:], nodes[:first]) {
		switch {
		case s.waits[node]:
			s.told[node] = true
			cycle = append(cycle, Wait{Waiter: node})
		case node < s.uses:
			cycle[len(cycle)-1].Holder = node
		}
	}
	s.cycles = append(s.cycles, inOrder(cycle))
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
