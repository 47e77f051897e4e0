package checker

import (
	"slices"

	"github.com/go-rlock/rlock/internal/history"
)

// losses finds owners who were not told that they have lost the lock, or too late.
// That they were told twice was found when the accounts were kept.
func (c *check) losses(n *name) {
	for i, h := range n.holds {
		due, by := c.due(n, i)
		for _, l := range h.levels {
			c.loss(n, l, due, by)
		}
	}
}

// due returns by when the i-th hold was certainly lost, if it was not given back
// before, and the hold that shows it: that of the next owner. It is nil if it was
// the lease that ended.
func (c *check) due(n *name, i int) (due history.Time, by *hold) {
	h := n.holds[i]
	due = h.bound()
	next := n.next(i)
	if next == nil {
		return due, nil
	}
	at := next.begin
	if f := c.excuse(n, at, at); f != nil {
		at = at.Add(h.lease() / 3)
		if !c.reveals(n, f, h, at) {
			return due, nil
		}
	}
	if at < due {
		return at, next
	}
	return due, nil
}

// next returns the first hold that excludes the i-th and was certainly granted
// after it, nil if there is none.
func (n *name) next(i int) *hold {
	h := n.holds[i]
	for _, next := range n.holds[i+1:] {
		if next.excludes(h) && next.after(h) {
			return next
		}
	}
	return nil
}

// after reports whether h was certainly granted after g.
func (h *hold) after(g *hold) bool {
	return h.levels[0].called >= g.begin || g.token() != 0 && h.token() > g.token()
}

// reveals reports whether a later hold shows that Redis has forgotten h because of
// f, and a renewal of h finds out until the time at.
//
// For a lease after f, a process that does not know may pass on what it has lost,
// so that a hold proves nothing. But if f was the only fault, and h was held when
// it began, no other process had anything to pass on.
func (c *check) reveals(n *name, f *fault, h *hold, at history.Time) bool {
	renewed := slices.ContainsFunc(h.levels, func(l *level) bool {
		return l.Kept && (l.given == nil || l.given.called > at)
	})
	for _, g := range c.faults {
		if g != f && g.concerns(n) && g.from <= at && (g.to == never || g.to.Add(n.lease) >= f.from) {
			return false
		}
	}
	return renewed && f.to < at && h.begin <= f.from
}

// loss judges one level.
func (c *check) loss(n *name, l *level, due history.Time, by *hold) {
	heard, event := l.heard()
	if heard != never {
		c.report.LossesTold++
	}
	evidence := slices.Clone(l.events)
	if by != nil {
		evidence = append(evidence, by.levels[0].events...)
	}
	// A holder that was not watched is told by Unlock only, and it cannot be late.
	// What it was assured of can be wrong.
	believed := heard
	if !l.result.Watched {
		believed = l.hold.assured
		if by == nil || believed <= due {
			return
		}
	} else if l.missed != nil && l.missed.Belief.Seen < due {
		// The lock knows of the loss, so that Done must tell as well.
		due = l.missed.Belief.Seen
		evidence = append(slices.Clone(l.events), *l.missed)
	}
	if l.given != nil && l.given.called <= due || l.closed {
		return
	}
	if heard == never {
		until := c.processes[l.process].ended
		if !c.processes[l.process].inOrder {
			return // it was killed before it could hear
		}
		if l.given != nil {
			until = l.given.called
		}
		if late := until.Sub(due) - c.stopped(l.process, due, until); late > c.options.Late {
			c.violate(NeverTold, n, evidence, nil, "%s has lost the lock, and nobody told it for %v", l.Owner, late)
		}
		return
	}
	late := believed.Sub(due) - c.stopped(l.process, due, believed)
	c.report.LatestLoss = max(c.report.LatestLoss, late)
	if late > c.options.Late {
		c.violate(ToldLate, n, append(evidence, event), nil, "%s hears of its loss %v after it was certain", l.Owner, late)
	}
}

// heard returns when the holder of the level was first told that it is lost.
func (l *level) heard() (history.Time, history.Event) {
	if len(l.told) > 0 {
		return l.told[0].At, l.told[0]
	}
	if l.given != nil && l.given.outcome() == history.Lost {
		return l.given.called, l.given.events[0]
	}
	return never, history.Event{}
}
