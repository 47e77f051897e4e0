package checker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-rlock/rlock/internal/history"
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
			if noted := a.end().Sub(h.begin) - c.stopped(a.process, h.begin, a.end()); a.assured <= h.begin && noted <= c.options.Noted {
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

// losses finds owners that were not notified of a loss, or too late.
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
	renewed := slices.ContainsFunc(h.levels, func(l *call) bool {
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
func (c *check) loss(n *name, l *call, due history.Time, by *hold) {
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
		until := l.process.ended
		if !l.process.inOrder {
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
func (o *call) heard() (history.Time, history.Event) {
	if o.told != nil {
		return o.told.At, *o.told
	}
	if o.given != nil && outcome(o.given.result) == history.Lost {
		return o.given.called, o.given.event
	}
	return never, history.Event{}
}

// strandings finds times in which the lock was free and nothing was broken, while an owner waited
// for it in vain, and calls that were refused at such a time. For readers it is free also while
// others read, unless a writer waits, which they may let pass.
func (c *check) strandings(n *name) {
	busy := c.busy(n, false)
	c.strandingsAmong(n, n.calls, busy)
	c.refusals(n, busy)
	var reads []*call
	for _, o := range n.calls {
		if o.Shared && o.Permits == 0 {
			reads = append(reads, o)
		}
	}
	if len(reads) > 0 {
		c.strandingsAmong(n, reads, c.busy(n, true))
	}
}

// refusals finds calls that were refused although no other owner had the lock, or waited for it,
// for Patience before the call.
func (c *check) refusals(n *name, busy []span) {
	lasts := make([]history.Time, len(busy)) // the latest end of each span and those before it
	for i, s := range busy {
		lasts[i] = max(s.to, lasts[max(i-1, 0)])
	}
	var wanted history.Time // the latest end of the calls before
	for i, o := range n.calls {
		since := o.called.Add(-c.options.Patience)
		begun, _ := slices.BinarySearchFunc(busy, o.returned, func(s span, t history.Time) int { return cmp.Compare(s.from, t+1) })
		switch {
		case o.outcome() != history.Refused:
		case begun > 0 && lasts[begun-1] >= since, wanted >= since, i+1 < len(n.calls) && n.calls[i+1].called <= o.returned:
		default:
			c.violate(Refused, n, o.events, nil, "%s by %s is refused a lock that no other owner has or waits for", o.Method, o.Owner)
		}
		wanted = max(wanted, o.returned)
	}
}

func (c *check) strandingsAmong(n *name, calls []*call, busy []span) {
	free := c.first // the lock is free since then
	for _, b := range append(busy, span{c.last, never}) {
		if idle := (span{free, b.from}); idle.length() >= c.options.Patience {
			c.strand(n, calls, idle)
		}
		free = max(free, b.to)
	}
}

// strand reports the longest waiter while the lock was free.
func (c *check) strand(n *name, calls []*call, free span) {
	var longest span
	var waiter *call
	for _, o := range calls {
		waited := span{max(o.called, free.from), min(o.returned, free.to, o.process.ended)}
		if waited.length() > longest.length() {
			longest, waiter = waited, o
		}
	}
	if longest.length() >= c.options.Patience {
		c.violate(Stranded, n, waiter.events, nil, "%s by %s waits for %v while the lock is free",
			waiter.Method, waiter.process.name, longest.length())
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
	for _, o := range n.calls {
		ended := o.process.ended
		if toReaders && o.Shared {
			continue
		}
		if toReaders || len(o.Names) > 1 { // the call may have this part, and wait for another one
			busy = append(busy, span{o.called, min(o.returned, ended)})
		}
		switch {
		case o.result == nil && ended == never:
			busy = append(busy, span{o.called, never}) // it may have been granted at any time
		case o.result == nil:
			busy = append(busy, span{ended, ended.Add(n.lease)})
		case o.outcome() != history.Acquired && o.outcome() != history.Refused:
			// Its grant is released in the background, or ends with its lease.
			busy = append(busy, span{o.returned, o.returned.Add(min(n.lease, c.options.Patience))})
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
		ended := h.process.ended
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
	return min(give.called.Add(n.lease), h.bound())
}
