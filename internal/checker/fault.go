package checker

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// A fault is an injected fault, and its time.
type fault struct {
	history.Fault
	from, to history.Time // to is never, for one that was not healed
}

func (f *fault) concerns(n *name) bool { return f.Name == "" || f.Name == n.key }

// forced is the effect of a ForceUnlock on the holders of the lock.
func (c *check) forced(o *operation) *fault {
	f := &fault{
		Fault: history.Fault{What: string(o.Method), Forgets: o.outcome() != history.NotHeld, Name: o.Name},
		from:  o.called, to: o.returned,
	}
	if o.result == nil {
		f.to = o.called
	}
	if o.outcome() == history.Released {
		return f
	}
	for _, g := range c.faults { // it may be executed when the network is back
		if g.from <= f.to && f.from <= g.to {
			f.to = max(f.to, g.to)
		}
	}
	return f
}

// excuse returns the last fault by which Redis may have forgotten a grant, so that there may
// be two holders at some time between from and to; nil if there is none.
//
// A holder whose grant is forgotten learns it when it renews, or when its lease ends: a fault
// has effects for that long. A hand-off may begin a hold in the meantime, so that the holder
// during the fault is not enough to know.
func (c *check) excuse(n *name, from, to history.Time) (last *fault) {
	for _, f := range n.forgets {
		if f.from <= to && (f.to == never || from <= f.to.Add(n.lease)) && (last == nil || f.from >= last.from) {
			last = f
		}
	}
	return last
}

// stopped returns for how long between from and to the process could not run, since it was
// stopped, or the machine had no time for it.
func (c *check) stopped(process string, from, to history.Time) (length time.Duration) {
	stops := slices.Clone(c.processes[process].stalls)
	for _, f := range c.faults {
		if f.Victim == process {
			stops = append(stops, span{f.from, f.to})
		}
	}
	slices.SortFunc(stops, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range stops {
		if s = (span{max(s.from, from), min(s.to, to)}); s.length() > 0 {
			length += s.length()
			from = s.to
		}
	}
	return length
}
