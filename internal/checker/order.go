package checker

import (
	"slices"

	"github.com/go-rlock/rlock/internal/history"
)

// passings counts, for each waiter that got the lock, the later waiters that had it first.
func (c *check) passings(n *name) {
	served := slices.DeleteFunc(slices.Clone(n.takes), func(o *operation) bool {
		return !o.took() || o.Shared || !o.level.begins()
	})
	for i, o := range served {
		if o.Method == history.TryLock || o.Method == history.TryAcquire || c.disturbed(n, o) {
			continue
		}
		passed := 0
		for _, later := range served[i+1:] {
			if later.called >= o.returned {
				break
			}
			if later.process != o.process && later.returned < o.returned && later.called > o.called.Add(c.options.Later) {
				passed++
			}
		}
		c.report.MostPassed = max(c.report.MostPassed, passed)
	}
}

// begins reports whether the level is the first of its hold.
func (l *level) begins() bool { return l.hold.levels[0] == l }

// disturbed reports whether a fault occurred while the operation was under way.
func (c *check) disturbed(n *name, o *operation) bool {
	return slices.ContainsFunc(c.faults, func(f *fault) bool {
		return f.concerns(n) && f.from <= o.returned && o.called <= f.to
	})
}
