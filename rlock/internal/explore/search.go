package explore

import (
	"fmt"
	"strings"
	"time"
)

// A Result is the outcome of an exploration.
type Result struct {
	States, Events, Depth int
	Took                  time.Duration
	Complete              bool     // all states were seen
	Bad                   string   // the violation, "" for none
	Trace                 []string // how it comes to that
	Reached               Reached  // by All: how many states were hard
}

func (r Result) String() string {
	s := fmt.Sprintf("%9d states %10d events, depth %3d, %5.1f s", r.States, r.Events, r.Depth, r.Took.Seconds())
	switch {
	case r.Bad != "":
		s += "\nBROKEN: " + r.Bad + "\n  " + strings.Join(r.Trace, "\n  ")
	case !r.Complete:
		s += ", not complete"
	}
	return s
}

// A Limit is when to stop an exploration that is not complete.
type Limit struct {
	States int           // 0: never
	Time   time.Duration // 0: never
}

func (l Limit) over(r *Result, began time.Time) bool {
	return l.States > 0 && r.States >= l.States || l.Time > 0 && r.Events&1023 == 0 && time.Since(began) > l.Time
}

// A step is how a state was reached first.
type step struct {
	parent int32
	action action
}

// pool has worlds whose memory may be used again.
type pool []*world

func (p *pool) copyOf(w *world) *world {
	var n *world
	if m := len(*p); m > 0 {
		n, *p = (*p)[m-1], (*p)[:m-1]
	} else {
		n = new(world)
	}
	w.copyTo(n)
	return n
}

func (p *pool) free(w *world) { *p = append(*p, w) }

// Shortest explores breadth first: it finds the shortest way to a violation.
func Shortest(s Setup, limit Limit) (r Result) {
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	type node struct {
		w  *world
		at int32
	}
	var k keys
	var as []action
	var spare pool
	seen := newSet()
	steps := []step{{parent: -1}}
	first := newWorld(&s)
	seen.add(k.hash(first))
	r.States = 1
	frontier, next := []node{{first, 0}}, []node(nil)
	for ; len(frontier) > 0; r.Depth++ {
		for _, n := range frontier {
			as = n.w.actions(as[:0])
			for i, a := range as {
				w := n.w
				if i < len(as)-1 {
					w = spare.copyOf(w)
				}
				w.apply(a)
				r.Events++
				if w.bad != "" {
					steps = append(steps, step{n.at, a})
					r.Bad, r.Trace = w.bad, trace(&s, steps)
					return r
				}
				if !seen.add(k.hash(w)) {
					spare.free(w)
					continue
				}
				r.States++
				steps = append(steps, step{n.at, a})
				next = append(next, node{w, int32(len(steps) - 1)})
				if limit.over(&r, began) {
					return r
				}
			}
		}
		frontier, next = next, frontier[:0]
	}
	r.Complete = true
	return r
}

// All explores depth first, which needs memory for little more than what it has seen.
func All(s Setup, limit Limit) (r Result) {
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	type frame struct {
		w  *world
		as []action
		by action // the world came by
	}
	var k keys
	var spare pool
	seen := newSet()
	first := newWorld(&s)
	seen.add(k.hash(first))
	r.States = 1
	stack := []frame{{first, first.actions(nil), action{}}}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if len(f.as) == 0 {
			spare.free(f.w)
			stack = stack[:len(stack)-1]
			continue
		}
		a := f.as[len(f.as)-1]
		f.as = f.as[:len(f.as)-1]
		w := spare.copyOf(f.w)
		w.apply(a)
		r.Events++
		if w.bad != "" {
			steps := []step{{parent: -1}}
			for i := range stack[1:] {
				steps = append(steps, step{int32(i), stack[i+1].by})
			}
			steps = append(steps, step{int32(len(steps) - 1), a})
			r.Bad, r.Trace = w.bad, trace(&s, steps)
			return r
		}
		if !seen.add(k.hash(w)) {
			spare.free(w)
			continue
		}
		r.States++
		r.Reached.count(w)
		if limit.over(&r, began) {
			return r
		}
		var as []action
		if n := len(stack); n < cap(stack) {
			as = stack[:n+1][n].as[:0]
		}
		stack = append(stack, frame{w, w.actions(as), a})
		r.Depth = max(r.Depth, len(stack))
	}
	r.Complete = true
	return r
}

// A set has the hashes of states, in a table of its own since a map takes three times as long.
type set struct {
	table []uint64
	n     int
}

func newSet() *set { return &set{table: make([]uint64, 1<<12)} }

// add adds a hash, and reports whether it is new.
func (s *set) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	if s.n >= len(s.table)/2 {
		old := s.table
		s.table = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				s.put(h)
			}
		}
	}
	if !s.put(h) {
		return false
	}
	s.n++
	return true
}

func (s *set) put(h uint64) bool {
	mask := uint64(len(s.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case 0:
			s.table[i] = h
			return true
		case h:
			return false
		}
	}
}
