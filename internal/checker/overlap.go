package checker

import (
	"fmt"
	"slices"
)

// overlaps finds holds that two owners believed in at the same time.
func (c *check) overlaps(n *name) {
	var active []*hold
	for _, h := range n.holds {
		if !h.valid() {
			continue
		}
		active = slices.DeleteFunc(active, func(a *hold) bool { return a.end() <= h.begin })
		c.permits(n, active, h)
		for _, a := range active {
			if !a.excludes(h) {
				continue
			}
			both := min(a.end(), h.end()).Sub(h.begin)
			c.add(Violation{
				Rule: Overlap, Name: n.key, Both: both, Events: slices.Concat(a.events(), h.events()),
				What: fmt.Sprintf("%s believes for %v that it has the lock, after %s got it", a.owner, both, h.owner),
			}, c.excuse(n, h.begin, h.begin))
		}
		active = append(active, h)
	}
}

// permits finds holds of a semaphore that have more permits than there are.
func (c *check) permits(n *name, active []*hold, h *hold) {
	most, sum := h.levels[0].Of, h.levels[0].Permits
	owners := map[string]int{h.owner: sum}
	events := h.events()
	for _, a := range active {
		if more := a.levels[0].Permits - owners[a.owner]; a.owner != h.owner && more > 0 {
			owners[a.owner] += more
			sum += more
			events = append(events, a.events()...)
		}
	}
	if most > 0 && sum > most {
		c.violate(Overlap, n, events, c.excuse(n, h.begin, h.begin), "%d of %d permits are held when %s gets its", sum, most, h.owner)
	}
}

// tokens finds fencing tokens that do not grow from hold to hold, or change within one.
func (c *check) tokens(n *name) {
	seen := make(map[uint64]*hold)
	var last *hold
	for _, h := range n.holds {
		token := h.token()
		if token == 0 {
			continue
		}
		for _, l := range h.levels[1:] {
			if t := l.result.Token; t != 0 && t != token {
				c.violate(Token, n, slices.Concat(h.levels[0].events, l.events), nil,
					"%s nests, and its token changes from %d to %d", h.owner, token, t)
			}
		}
		before := seen[token]
		// A hold that was over on return may have been granted long before.
		if before == nil && h.valid() && last != nil && token < last.token() {
			before = last
		}
		if before != nil {
			c.violate(Token, n, slices.Concat(before.levels[0].events, h.levels[0].events), c.excuse(n, before.begin, h.begin),
				"%s gets token %d, after %s got %d", h.owner, token, before.owner, before.token())
		}
		seen[token] = h
		if h.valid() {
			last = h
		}
	}
}
