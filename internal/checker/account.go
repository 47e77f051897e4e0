package checker

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// An account is the record of what one owner did with one lock, as a reader or otherwise, in
// the order of time: a level is taken when the acquire has returned, and given back when the
// unlock is called, since in between the owner believes that it holds it.
type account struct {
	check *check
	name  *name
	twin  *account // the owner's account in the other mode, nil if there is none
	holds []*hold
}

// An id tells accounts apart.
type id struct {
	name   *name
	owner  string
	shared bool
}

// keepAccounts makes the holds.
func (c *check) keepAccounts(events []history.Event, calls map[key][]*call) {
	for _, e := range events {
		if e.Kind == history.Closes {
			c.processes[e.Process].closes = e.At
			for _, a := range c.accounts {
				a.close(e)
			}
		}
		for _, o := range calls[key{e.Process, e.Number}] {
			switch {
			case !o.took():
			case e.Kind == history.Returned:
				c.accountOf(o).take(o, e)
			case e.Kind == history.Gives:
				o.hold.account.give(o, e)
			case e.Kind == history.Looked:
				o.hold.account.look(o, e)
			case e.Kind == history.Told:
				o.told = &e
				o.hold.lost = true
				o.hold.stopped = min(o.hold.stopped, e.At)
			}
		}
	}
}

// accountOf returns the account of the owner for whom a call has taken a lock.
func (c *check) accountOf(o *call) *account {
	of := id{o.name, o.Owner, o.Shared}
	a := c.accounts[of]
	if a == nil {
		a = &account{check: c, name: o.name}
		c.accounts[of] = a
		of.shared = !of.shared
		if a.twin = c.accounts[of]; a.twin != nil {
			a.twin.twin = a
		}
	}
	return a
}

// last returns the hold that the owner took last, nil before the first.
func (a *account) last() *hold {
	if len(a.holds) == 0 {
		return nil
	}
	return a.holds[len(a.holds)-1]
}

// take notes that an acquire has returned with a level: the first of a hold, or a further
// one. A count of 1 marks the first; without a count the lease decides. A lock that was passed on
// was its former owner's until the call.
func (a *account) take(o *call, e history.Event) {
	if from := a.check.accounts[id{o.name, o.From, o.Shared}]; from != nil {
		for _, h := range slices.Backward(from.holds) {
			if h.begin <= o.Passed {
				h.assured = max(h.assured, o.called)
				break
			}
		}
	}
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
	case count == 0:
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
	if at := o.process.closes; at <= o.returned { // Close has released the level, with the others
		o.closed, h.stopped = true, min(h.stopped, at)
	}
	o.hold = h
	h.levels = append(h.levels, o)
	h.open = append(h.open, o)
	if o.result.Until != 0 {
		h.promised, h.proof = o.result.Until, e
	}
}

// give notes that an unlock is called, which gives back a level.
func (a *account) give(o *call, e history.Event) {
	h := o.hold
	h.open = slices.DeleteFunc(h.open, func(l *call) bool { return l == o })
	switch outcome(o.given.result) {
	case history.Released:
		if h != a.last() {
			a.violate(NeverTold, e, "%s gives back a hold after which it has begun another: it was not told of the loss", o.Owner)
			break
		}
		a.assure(h, o.given.called, e)
		if len(h.open) > 0 {
			// The remaining levels may have asked for less: their next promise counts.
			h.promised = min(h.promised, o.given.called)
			return
		}
		h.clean = true
		if until := o.given.result.Until; until > o.given.called { // it stays his, without a level
			h.promised = until
			return
		}
	case history.Lost:
		h.lost = true
	case history.NotHeld:
		a.violate(NeverTold, e, "%s gives back a level, which it was not told to have lost, and has nothing", o.Owner)
	}
	h.stopped = min(h.stopped, o.given.called)
}

// look notes the result of a look. For a handle it concerns its level; without one it
// concerns all levels of the owner, in whichever way they were taken.
func (a *account) look(o *call, e history.Event) {
	h := o.hold
	if !o.result.Watched {
		h = a.last()
	}
	found := *e.Belief
	given := h.levels[len(h.levels)-1].given
	switch {
	case len(h.open) == 0 && found.Held && e.At > given.returned:
		a.violate(Overdue, e, "%s finds that it holds the lock, which it has given back", h.owner)
	case len(h.open) == 0:
		// It is being given back, or was.
	case !found.Held:
		h.stopped = min(h.stopped, e.At)
		if o.missed == nil && slices.Contains(h.open, o) {
			o.missed = &e
		}
	default:
		if found.Until != 0 && found.Until < e.At {
			a.violate(Overdue, e, "%s finds that it holds the lock, %v after it was valid", h.owner, e.At.Sub(found.Until))
		}
		a.assure(h, e.At, e)
		if found.Until != 0 {
			h.promised = found.Until
		}
		if found.Count > 0 && found.Count != len(h.open) {
			a.violate(Count, e, "%s has %d levels, and was told %d", h.owner, len(h.open), found.Count)
		}
	}
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

// close notes that the client of a process is closed, which gives back its holds.
func (a *account) close(e history.Event) {
	for _, h := range a.holds {
		switch {
		case h.process.name != e.Process:
		case len(h.open) > 0:
			h.stopped = min(h.stopped, e.At)
			for _, o := range h.open {
				o.closed = true
			}
		case h.shared: // for another reader of the process too
			h.promised = min(h.promised, e.At)
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
	account *account
	process *process
	owner   string
	shared  bool    // a reader's hold
	levels  []*call // in the order of their takes
	open    []*call // the levels that were not unlocked

	begin    history.Time
	promised history.Time // the end of the last promise; begin if there is none
	assured  history.Time // of the last assurance; begin before the first
	stopped  history.Time // when the belief ended regardless of promises
	lost     bool         // the owner was notified
	clean    bool         // the last level was given back in order

	proof history.Event // the event of the last promise or assurance
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
