package checker

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/go-rlock/rlock/internal/history"
)

// The model is what a lock is in one place, without a network: at most one owner,
// who has so many levels, until it gives back the last of them or its lease has
// ended; and a token greater than any before.
//
// A hold may be taken over, but not before the time until which it was believed:
// the state has a lower bound of the expiry, so that an overlap is never found where
// there was none.
//
// What does not change who holds the lock is no step: an acquire that was refused,
// failed or cancelled, or of which nothing is known, holds nothing that its owner
// could use, whatever Redis has for a while; and an unlock without confirmation
// ends the belief, after which the lock may be taken over.

// A step is an operation that the model follows.
type step struct {
	*operation
	hold    *hold
	from    history.Time // it had its effect no earlier
	nested  bool         // it took a level of an owner who had one
	levels  int          // that the owner has after it, by what it did
	excused bool         // Redis may have forgotten who has the lock
}

// A state is who has the lock. The zero state is free.
type state struct {
	unknown bool // at the begin of a part, and when Redis may have forgotten
	owner   string
	levels  int
	token   uint64       // the last that was given out
	expiry  history.Time // no earlier than this
}

var model = porcupine.Model{
	Init: func() any { return state{unknown: true} },
	Step: func(s, in, _ any) (bool, any) { return s.(state).after(in.(*step)) },
	DescribeOperation: func(in, _ any) string {
		s := in.(*step)
		if s.took() {
			return fmt.Sprintf("%s by %s: level %d, token %d", s.Method, s.Owner, s.levels, s.result.Token)
		}
		return fmt.Sprintf("%s by %s: %d left", s.Method, s.Owner, s.levels)
	},
	DescribeState: func(in any) string {
		switch s := in.(state); {
		case s.unknown:
			return "unknown"
		case s.levels == 0:
			return fmt.Sprintf("free, token %d", s.token)
		default:
			return fmt.Sprintf("%s: %d levels, token %d", s.owner, s.levels, s.token)
		}
	},
}

// after returns whether the step may be taken in the state, and where it leads.
func (s state) after(in *step) (bool, state) {
	owns := s.unknown || s.levels > 0 && s.owner == in.Owner
	switch {
	case in.excused:
		return true, state{unknown: true}
	case !in.took():
		levels := s.levels - 1
		if s.unknown {
			levels = in.levels
		}
		return owns, state{owner: in.Owner, levels: levels, token: s.token, expiry: in.hold.end()}.tidy()
	case in.nested:
		levels := s.levels + 1
		if s.unknown {
			levels = in.levels
		}
		token := max(s.token, in.result.Token)
		kept := s.unknown || in.result.Token == 0 || in.result.Token == s.token
		return owns && kept && in.counts(levels), state{owner: in.Owner, levels: levels, token: token, expiry: in.hold.end()}
	}
	free := s.unknown || s.levels == 0 || in.returned >= s.expiry
	grows := s.unknown || in.result.Token == 0 || in.result.Token > s.token
	token := max(s.token, in.result.Token)
	return free && grows && in.counts(1), state{owner: in.Owner, levels: 1, token: token, expiry: in.hold.end()}
}

// counts reports whether the caller was told so many levels, if it was told.
func (s *step) counts(levels int) bool { return s.result.Count == 0 || s.result.Count == levels }

// tidy forgets the owner of a lock that is free, so that equal states are equal.
func (s state) tidy() state {
	if s.levels > 0 {
		return s
	}
	return state{token: s.token}
}

// mattered reports whether anybody relied on the hold. One that was over when its
// acquire returned blocked others for a while, as one of a cancelled acquire does.
func (h *hold) mattered() bool { return h.clean || h.valid() }
