package checker

import (
	"cmp"
	"slices"

	"github.com/go-rlock/rlock/internal/history"
)

// strandings finds times in which the lock was free and nothing was broken, while an owner
// waited for it in vain. For readers it is free also while others read, unless a writer
// waits, which they may let pass.
func (c *check) strandings(n *name) {
	c.strandingsAmong(n, n.takes, c.busy(n, false))
	var reads []*operation
	for _, o := range n.takes {
		if o.Shared {
			reads = append(reads, o)
		}
	}
	if len(reads) > 0 {
		c.strandingsAmong(n, reads, c.busy(n, true))
	}
}

func (c *check) strandingsAmong(n *name, takes []*operation, busy []span) {
	free := c.first // the lock is free since then
	for _, b := range append(busy, span{c.last, never}) {
		if idle := (span{free, b.from}); idle.length() >= c.options.Patience {
			c.strand(n, takes, idle)
		}
		free = max(free, b.to)
	}
}

// strand reports the longest waiter while the lock was free.
func (c *check) strand(n *name, takes []*operation, free span) {
	var longest span
	var waiter *operation
	for _, o := range takes {
		waited := span{max(o.called, free.from), min(o.returned, free.to, c.processes[o.process].ended)}
		if waited.length() > longest.length() {
			longest, waiter = waited, o
		}
	}
	if longest.length() >= c.options.Patience {
		c.violate(Stranded, n, waiter.events, nil, "%s by %s waits for %v while the lock is free",
			waiter.Method, waiter.process, longest.length())
	}
}

// busy returns the times at which an owner may have had the lock in Redis, or a fault lasted,
// by their begins. A call for several locks may have each of them while it waits. To readers
// it is busy while another owner than a reader has the lock or waits for it.
func (c *check) busy(n *name, toReaders bool) []span {
	var busy []span
	for _, f := range c.faults {
		if f.concerns(n) {
			busy = append(busy, span{f.from, f.to})
		}
	}
	for _, o := range n.takes {
		ended := c.processes[o.process].ended
		if toReaders && o.Shared {
			continue
		}
		if toReaders || o.Parts > 1 { // the call may have this part, and wait for another one
			busy = append(busy, span{o.called, min(o.returned, ended)})
		}
		switch {
		case o.result == nil && ended == never:
			busy = append(busy, span{o.called, never}) // it may have been granted at any time
		case o.result == nil:
			busy = append(busy, span{ended, ended.Add(n.lease)})
		case o.outcome() != history.Acquired && o.outcome() != history.Refused:
			// Its grant is released in the background, or ends with its lease.
			busy = append(busy, span{o.returned, o.returned.Add(n.lease)})
		}
	}
	for _, h := range n.holds {
		if !toReaders || !h.shared {
			busy = append(busy, span{h.begin, c.freed(n, h)})
		}
	}
	slices.SortFunc(busy, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return busy
}

// freed returns the time by which Redis has certainly freed the lock of a hold.
func (c *check) freed(n *name, h *hold) history.Time {
	if len(h.open) > 0 {
		if bound := h.bound(); bound != never {
			return bound
		}
		ended := c.processes[h.process].ended
		if ended == never {
			return never
		}
		return ended.Add(n.lease)
	}
	give := h.levels[0].given
	for _, l := range h.levels {
		if l.given.called > give.called {
			give = l.given
		}
	}
	if h.clean {
		return give.returned
	}
	return give.called.Add(n.lease)
}
