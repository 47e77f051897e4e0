package checker

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// An account is the record of what one owner did with one lock, as a reader or otherwise, in
// the order of time: a level is taken when the acquire has returned, and given back when the
// unlock is called, since in between the owner believes that it holds it.
type account struct {
	check      *check
	name       *name
	twin       *account       // the owner's account in the other mode, nil if there is none
	operations []*operation   // that took or gave a level, in the order of their calls
	until      []history.Time // the time by which each of them and all before it had returned
	holds      []*hold
}

// keepAccounts makes the holds.
func (c *check) keepAccounts(events []history.Event, operations map[key]*operation) {
	type id struct {
		name, owner string
		shared      bool
	}
	of := func(o *operation) id { return id{o.Name, o.Owner, o.Shared} }
	byID := make(map[id]*account)
	names := make(map[string]*name)
	for _, n := range c.names {
		names[n.key] = n
	}
	for _, o := range c.operations {
		if !o.took() && !o.gives() {
			continue
		}
		a := byID[of(o)]
		if a == nil {
			n := names[o.Name]
			if n == nil {
				continue // given back and never wanted
			}
			a = &account{check: c, name: n}
			byID[of(o)] = a
			if twin := byID[id{o.Name, o.Owner, !o.Shared}]; twin != nil {
				a.twin, twin.twin = twin, a
			}
			p := c.processes[o.process]
			p.accounts = append(p.accounts, a)
		}
		a.add(o)
	}
	for _, e := range events {
		o := operations[key{e.Process, e.Number}]
		if o == nil {
			continue
		}
		if o.Method == history.Close && e.Kind == history.Called {
			c.processes[e.Process].closes = e.At
			for _, a := range c.processes[e.Process].accounts {
				a.close(e)
			}
		}
		if o.From != "" && e.Kind == history.Returned && o.took() { // it was his until then
			if a := byID[id{o.Name, o.From, o.Shared}]; a != nil {
				for _, h := range slices.Backward(a.holds) {
					if h.begin <= o.Passed {
						h.assured = max(h.assured, o.called)
						break
					}
				}
			}
		}
		a := byID[of(o)]
		switch {
		case a == nil:
		case e.Kind == history.Returned && o.took():
			a.take(o, e)
		case e.Kind == history.Called && o.gives():
			a.give(o, e)
		case e.Kind == history.Looked && o.level != nil:
			a.look(o.level, e)
		case e.Kind == history.Told && o.level != nil:
			a.tell(o.level, e)
		}
	}
	for _, n := range c.names {
		slices.SortStableFunc(n.holds, func(a, b *hold) int { return cmp.Compare(a.begin, b.begin) })
	}
}

// last returns the hold that the owner took last, nil before the first.
func (a *account) last() *hold {
	if len(a.holds) == 0 {
		return nil
	}
	return a.holds[len(a.holds)-1]
}

func (a *account) add(o *operation) {
	until := o.returned
	if n := len(a.until); n > 0 {
		until = max(until, a.until[n-1])
	}
	a.operations = append(a.operations, o)
	a.until = append(a.until, until)
}

// alone reports whether the owner did nothing else between two times, beside o: a count is
// certain only if no other operation changes it.
func (a *account) alone(from, to history.Time, o *operation) bool {
	last, _ := slices.BinarySearchFunc(a.operations, to, func(p *operation, t history.Time) int { return cmp.Compare(p.called, t) })
	for i := last - 1; i >= 0 && a.until[i] > from; i-- {
		if p := a.operations[i]; p != o && p.returned > from {
			return false
		}
	}
	return true
}

// take notes that an acquire has returned with a level: the first of a hold, or a further
// one. A count of 1 marks the first; without a count the lease decides.
func (a *account) take(o *operation, e history.Event) {
	h, count := a.last(), o.result.Count
	open := 0
	if h != nil {
		open = len(h.open)
	}
	nested := open > 0 && count != 1
	if count == 0 && open > 0 && (h.lost || h.stopped <= o.called || h.bound() <= o.called) {
		nested = false
	}
	switch {
	case count == 0 || !a.alone(o.called, o.returned, o):
	case nested || open == 0:
		if count != open+1 {
			a.violate(Count, e, "%s by %s: the owner has %d levels, and was told %d", o.Method, o.Owner, open+1, count)
		}
	case h.end() > o.returned:
		a.violate(Count, e, "%s by %s: the count begins anew, though the owner has %d levels", o.Method, o.Owner, open)
	}
	if !nested {
		h = &hold{
			account: a, process: o.process, owner: o.Owner, shared: o.Shared, proof: e,
			begin: o.returned, promised: o.returned, assured: o.returned, stopped: never,
		}
		a.holds = append(a.holds, h)
		a.name.holds = append(a.name.holds, h)
	}
	if nested && count > 0 {
		a.assure(h, o.called, e)
	}
	l := &level{operation: o, hold: h}
	if at := a.check.processes[o.process].closes; at <= o.returned { // Close has released the level, with the others
		l.closed, h.stopped = true, min(h.stopped, at)
	}
	o.level = l
	h.levels = append(h.levels, l)
	h.open = append(h.open, l)
	if o.result.Until != 0 {
		h.promised, h.proof = o.result.Until, e
	}
}

// give notes that an unlock is called, which gives back a level of the owner's last hold:
// levels that were lost before come afterwards.
func (a *account) give(o *operation, e history.Event) {
	var h *hold
	for _, candidate := range slices.Backward(a.holds) { // the last with a level that this method gives back, or the last
		switch matches := slices.ContainsFunc(candidate.open, func(l *level) bool { return l.givenBy() == o.Method }); {
		case matches:
			h = candidate
		case h == nil && len(candidate.open) > 0:
			h = candidate
			continue
		default:
			continue
		}
		break
	}
	if h == nil {
		switch o.outcome() {
		case history.Released:
			a.violate(Count, e, "%s by %s succeeds, though the owner has nothing to give back", o.Method, o.Owner)
		case history.Lost:
			a.violate(ToldTwice, e, "%s by %s tells of a loss, though each level that was lost has been given back", o.Method, o.Owner)
		}
		return
	}
	l := h.innermost(o)
	l.given = o
	h.close(l)
	switch o.outcome() {
	case history.Released:
		if h != a.last() {
			a.violate(NeverTold, e, "%s by %s succeeds for a hold after which the owner has begun another: it was not told of the loss", o.Method, o.Owner)
			break
		}
		a.assure(h, o.called, e)
		if len(h.open) > 0 {
			// The remaining levels may have asked for less: their next promise counts.
			h.promised = min(h.promised, o.called)
			return
		}
		h.clean = true
		if until := o.result.Until; until != 0 && until > o.called { // it stays his, without a level
			h.promised = until
			return
		}
	case history.Lost:
		h.lost = true
	case history.NotHeld:
		a.violate(NeverTold, e, "%s by %s finds nothing held, though the owner has a level that it was not told to have lost", o.Method, o.Owner)
	}
	h.stopped = min(h.stopped, o.called)
}

// look notes the result of a look. For a handle it concerns its level; without one it
// concerns all levels of the owner, in whichever way they were taken.
func (a *account) look(l *level, e history.Event) {
	h := l.hold
	if l.givenBy() != history.Release {
		h = a.last()
	}
	found := *e.Belief
	given := h.levels[len(h.levels)-1].given
	switch {
	case len(h.open) == 0 && found.Held && given != nil && e.At > given.returned:
		a.violate(Overdue, e, "%s finds that it holds the lock, which it has given back", h.owner)
	case len(h.open) == 0:
		// It is being given back, or was.
	case !found.Held:
		h.stopped = min(h.stopped, e.At)
		if l.missed == nil && l.given == nil {
			l.missed = &e
		}
	default:
		if found.Until != 0 && found.Until < e.At {
			a.violate(Overdue, e, "%s finds that it holds the lock, %v after it was valid", h.owner, e.At.Sub(found.Until))
		}
		a.assure(h, e.At, e)
		if found.Until != 0 {
			h.promised = found.Until
		}
		if found.Count > 0 && found.Count != len(h.open) && a.alone(e.At, found.Seen, nil) {
			a.violate(Count, e, "%s has %d levels, and was told %d", h.owner, len(h.open), found.Count)
		}
	}
}

// tell notes that the holder of a level was notified of its loss.
func (a *account) tell(l *level, e history.Event) {
	for _, before := range l.told {
		if before.Way == e.Way {
			a.violate(ToldTwice, e, "%s is told by %s that the lock is lost, and was before", l.Owner, e.Way)
			return
		}
	}
	l.told = append(l.told, e)
	l.hold.lost = true
	l.hold.stopped = min(l.hold.stopped, e.At)
}

// assure notes that the owner was assured of the lock at a time.
func (a *account) assure(h *hold, at history.Time, e history.Event) {
	switch bound := h.bound(); {
	case at > bound:
		a.violate(Overdue, e, "%s is assured of the lock, %v after its lease", h.owner, at.Sub(bound))
	case h.lost && h.stopped < at:
		a.violate(Overdue, e, "%s is assured of the lock, %v after it was told of the loss", h.owner, at.Sub(h.stopped))
	}
	if at > h.assured {
		h.assured, h.proof = at, e
	}
}

// close notes that the client is closed, which gives back its holds.
func (a *account) close(e history.Event) {
	for _, h := range a.holds {
		if len(h.open) == 0 {
			if h.shared { // for another reader of the process too
				h.promised = min(h.promised, e.At)
			}
			continue
		}
		h.stopped = min(h.stopped, e.At)
		for _, l := range h.open {
			l.closed = true
		}
	}
}

func (a *account) violate(rule Rule, e history.Event, format string, args ...any) {
	a.check.violate(rule, a.name, []history.Event{e}, nil, format, args...)
}

// A hold is the time in which one owner has a lock, from its first level to the last that it
// gives back, or to the loss.
//
// The owner believes in it from begin on. The end of the belief follows from promises (the
// lock is valid until a time, unless another report follows) and assurances (the owner had
// the lock at a time: an Unlock that returned no error, a Valid that returned true). An
// assurance covers all the time before it, since a hold has no gaps.
type hold struct {
	account        *account
	process, owner string
	shared         bool     // a reader's hold
	levels         []*level // in the order of their takes
	open           []*level // the levels that were not unlocked

	begin    history.Time
	promised history.Time // the end of the last promise; begin if there is none
	assured  history.Time // of the last assurance; begin before the first
	stopped  history.Time // when the belief ended regardless of promises
	lost     bool         // the owner was notified
	clean    bool         // the last level was given back in order

	proof history.Event // the event of the last promise or assurance
}

// A level is one Lock that succeeded.
type level struct {
	*operation // that took it
	hold       *hold
	given      *operation      // that gave it back; nil: none did
	closed     bool            // given back by Close
	missed     *history.Event  // the first look that found it lost
	told       []history.Event // the reports of its loss
}

// end returns the end of the belief. It is begin if there was none.
func (h *hold) end() history.Time { return max(h.assured, min(h.promised, h.stopped)) }

// excludes reports whether two holds cannot be believed at the same time.
func (h *hold) excludes(g *hold) bool { return h.owner != g.owner && !(h.shared && g.shared) }

// valid reports whether the owner believed in it at all when the acquire returned.
func (h *hold) valid() bool { return h.end() > h.begin }

// bound returns the latest end of the leases that the levels asked for, and of the owner's
// leases in the other mode, since a lock is kept for the longest; never with a watchdog.
func (h *hold) bound() history.Time {
	bound := h.asked()
	if h.account.twin == nil {
		return bound
	}
	for _, g := range slices.Backward(h.account.twin.holds) {
		if g.over() < h.begin {
			break
		}
		if g.begin <= h.over() {
			bound = max(bound, g.asked())
		}
	}
	return bound
}

// over returns when the last level had been given back.
func (h *hold) over() (over history.Time) {
	if len(h.open) > 0 {
		return never
	}
	for _, l := range h.levels {
		over = max(over, l.given.returned)
	}
	return over
}

// asked is bound for the levels of the hold itself.
func (h *hold) asked() history.Time {
	bound := h.begin
	for _, l := range h.levels {
		if l.Kept {
			return never
		}
		bound = max(bound, l.returned.Add(l.Lease))
	}
	return bound
}

// lease returns the longest lease of the levels.
func (h *hold) lease() (longest time.Duration) {
	for _, l := range h.levels {
		longest = max(longest, l.Lease)
	}
	return longest
}

// token returns the fencing token of the hold, 0 if it has none.
func (h *hold) token() uint64 { return h.levels[0].result.Token }

// events returns the events that show the begin and the end of the belief.
func (h *hold) events() []history.Event {
	shown := slices.Clone(h.levels[0].events)
	if !slices.Contains(shown, h.proof) {
		shown = append(shown, h.proof)
	}
	return shown
}

// innermost returns the open level that an operation gives back: the last one taken in the
// matching way, or at least the last one.
func (h *hold) innermost(give *operation) *level {
	for _, l := range slices.Backward(h.open) {
		if l.givenBy() == give.Method {
			return l
		}
	}
	return h.open[len(h.open)-1]
}

// givenBy returns the method that gives the level back.
func (l *level) givenBy() history.Method {
	switch l.Method {
	case history.Acquire, history.TryAcquire:
		return history.Release
	case history.Do:
		return history.DoEnd
	}
	return history.Unlock
}

func (h *hold) close(l *level) {
	h.open = slices.DeleteFunc(h.open, func(o *level) bool { return o == l })
}
