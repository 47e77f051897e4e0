package checker

import (
	"slices"

	"github.com/go-rlock/rlock/internal/history"
)

// losses finds owners that were not notified of a loss, or too late. Loss reports that came
// twice were found when the accounts were kept.
func (c *check) losses(n *name) {
	for i, h := range n.holds {
		due, by := c.due(n, i)
		for _, l := range h.levels {
			c.loss(n, l, due, by)
		}
	}
}

// due returns the time by which the i-th hold was certainly lost, unless it was given back
// before, and the hold of the next owner that shows it. The hold is nil if the lease ended.
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

// next returns the first hold that excludes the i-th and was certainly granted after it, nil
// if there is none.
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

// reveals reports whether a later hold shows that Redis has forgotten h because of f, and a
// renewal of h finds out until the time at.
//
// For a lease after f, a process that has not learned of a loss may hand the lock off, so
// that a hold proves nothing. But if f was the only fault, and h was held when it began, no
// other process had a lock to hand off.
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
	// A holder that was not watched is notified by Unlock only, and it cannot be late. Its
	// assurances can be wrong.
	believed := heard
	if !l.result.Watched {
		believed = l.hold.assured
		if by == nil || believed <= due {
			return
		}
	} else if l.missed != nil && l.missed.Belief.Seen < due {
		// The lock knows of the loss, so Done must report it as well.
		due = l.missed.Belief.Seen
		evidence = append(slices.Clone(l.events), *l.missed)
	}
	if l.given != nil && l.given.called <= due || l.closed {
		return
	}
	if heard == never {
		until := c.processes[l.process].ended
		if !c.processes[l.process].inOrder {
			return // it was killed before it could learn
		}
		if l.given != nil {
			until = l.given.called
		}
		if late := until.Sub(due) - c.stopped(l.process, due, until); late > c.options.Late {
			c.violate(NeverTold, n, evidence, nil, "%s has lost the lock, and was not told for %v", l.Owner, late)
		}
		return
	}
	late := believed.Sub(due) - c.stopped(l.process, due, believed)
	c.report.LatestLoss = max(c.report.LatestLoss, late)
	if late > c.options.Late {
		c.violate(ToldLate, n, append(evidence, event), nil, "%s hears of its loss %v after it was certain", l.Owner, late)
	}
}

// heard returns when the holder of the level was first notified of its loss.
func (l *level) heard() (history.Time, history.Event) {
	if len(l.told) > 0 {
		return l.told[0].At, l.told[0]
	}
	if l.given != nil && l.given.outcome() == history.Lost {
		return l.given.called, l.given.events[0]
	}
	return never, history.Event{}
}
