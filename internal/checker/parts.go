package checker

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/go-rlock/rlock/internal/history"
)

// The search for an order takes more than linear time, so a history is cut. It is cut where
// nothing is under way but acquires of a first level: as these have not returned, no earlier
// operation has seen their effect, and they may as well have taken effect after the cut. Each
// part begins in an unknown state, with the last piece of the part before, from which the
// state follows.

// partSize is the smallest number of steps of a part.
const partSize = 200

// parts cuts the steps of a lock.
func (c *check) parts(n *name) [][]*step {
	steps := slices.DeleteFunc(n.steps, func(s *step) bool { return !s.hold.mattered() })
	for _, s := range steps {
		s.from = s.called
		s.era = n.era(s.returned)
		if s.took() {
			s.excused = c.excuse(n, s.returned, s.returned) != nil
		} else {
			s.excused = c.excuse(n, s.called, s.returned) != nil
		}
	}
	hasten(steps)
	var parts [][]*step
	var part []*step
	for _, piece := range pieces(steps) {
		part = append(part, piece...)
		if len(part) >= partSize {
			parts = append(parts, part)
			part = slices.Clone(piece)
		}
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// era counts the faults that may have made Redis forget before then, once for the begin and
// once for the end of each.
func (n *name) era(at history.Time) (era int) {
	for _, f := range n.forgets {
		if f.from <= at {
			era++
		}
		if f.to <= at {
			era++
		}
	}
	return era
}

// hasten moves the begins of the first levels to the earliest time of their effect: after
// every earlier belief that they exclude. Otherwise the search would try each of a crowd of
// waiters at each step.
func hasten(steps []*step) {
	free := -never
	var ends []history.Time // of holds that were believed until later
	for _, s := range steps {
		if s.excused || !s.took() || s.nested {
			continue
		}
		ends = slices.DeleteFunc(ends, func(end history.Time) bool {
			if end > s.returned {
				return false
			}
			free = max(free, end)
			return true
		})
		s.from = max(s.from, free)
		ends = append(ends, s.hold.end())
	}
}

// pieces cuts wherever it is possible: after each time at which another operation than an
// acquire of a first level was under way. A step is in the piece in which it returned.
func pieces(steps []*step) [][]*step {
	slices.SortStableFunc(steps, func(a, b *step) int { return cmp.Compare(a.from, b.from) })
	cuts := []history.Time{-never}
	busy := -never
	for _, s := range steps {
		if s.took() && !s.nested {
			continue
		}
		if busy < s.from {
			cuts = append(cuts, busy+1)
		}
		busy = max(busy, s.returned)
	}
	pieces := make([][]*step, len(cuts))
	for _, s := range steps {
		after, _ := slices.BinarySearch(cuts, s.returned+1)
		pieces[after-1] = append(pieces[after-1], s)
	}
	return pieces
}

// linearize makes Porcupine search for an order in which the lock could have done all
// operations.
func (c *check) linearize(n *name) {
	for i, part := range c.parts(n) {
		operations := operations(part)
		c.report.Parts++
		switch porcupine.CheckOperationsTimeout(model, operations, c.options.Timeout) {
		case porcupine.Unknown:
			c.report.Undecided++
		case porcupine.Illegal:
			_, info := porcupine.CheckOperationsVerbose(model, operations, c.options.Timeout)
			c.illegal(n, i, part, info)
		}
	}
}

func operations(part []*step) []porcupine.Operation {
	operations := make([]porcupine.Operation, len(part))
	clients := make(map[string]int)
	for i, s := range part {
		client, ok := clients[s.Owner]
		if !ok {
			client = len(clients)
			clients[s.Owner] = client
		}
		operations[i] = porcupine.Operation{ClientId: client, Input: s, Call: int64(s.from), Return: int64(s.returned)}
	}
	return operations
}

// illegal reports a part for which there is no order, by the step that follows the longest
// possible order.
func (c *check) illegal(n *name, number int, part []*step, info porcupine.LinearizationInfo) {
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	rest := slices.Clone(part)
	var shown []history.Event
	for i, o := range longest {
		placed := o.Input.(*step)
		rest = slices.DeleteFunc(rest, func(s *step) bool { return s.operation == placed.operation })
		if i >= len(longest)-2 {
			shown = append(shown, placed.events...)
		}
	}
	next := slices.MinFunc(rest, func(a, b *step) int { return cmp.Compare(a.returned, b.returned) })
	what := fmt.Sprintf("%s by %s has no place in any order", next.Method, next.Owner)
	if c.options.Pictures != "" {
		path := filepath.Join(c.options.Pictures, fmt.Sprintf("%s-%d.html", url.PathEscape(n.key), number))
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			path = "no picture: " + err.Error()
		}
		what += ": " + path
	}
	c.violate(Order, n, append(shown, next.events...), nil, "%s", what)
}
