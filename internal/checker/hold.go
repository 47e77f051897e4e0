package checker

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

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
	open           []*level // those not given back

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
