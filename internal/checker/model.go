package checker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/go-rlock/rlock/internal/history"
)

// The model is a lock in one place, without a network: at most one owner, or any number of
// readers, each with a number of levels, until it gives back the last of them or its lease
// has ended; and a token greater than any before.
//
// A hold may be taken over, but not before the end of the belief in it: the state has a lower
// bound of the expiry, so that no false overlap is found.
//
// Operations that do not change the holder are no steps: an acquire that was refused, failed
// or cancelled, or whose outcome is unknown, holds nothing that its owner could use, even if
// Redis has it for a while; and an unlock without confirmation ends the belief, after which
// the lock may be taken over.

// A step is an operation that the model follows.
type step struct {
	*operation
	hold    *hold
	from    history.Time // its effect was no earlier
	nested  bool         // it took a level of an owner that had one
	levels  int          // of the owner after it, by the operations so far
	excused bool         // Redis may have forgotten the holder
	era     int          // Redis forgets between eras
}

// A state is the holder of the lock. The zero state is free.
//
// At the begin of a part, and when Redis may have forgotten, the holder is not known. The
// following steps show it, as far as one holder excludes the other: a reader does not exclude
// other readers, which may hold the lock unseen.
type state struct {
	owner  string // the owner that has it exclusively
	levels int
	token  uint64       // the last one given out
	era    int          // the era of the token: in another one, tokens begin anew
	expiry history.Time // a lower bound

	readers []reader // in the order of their owners

	unseen        candidates // owners that may have it exclusively, though no step showed it
	unseenReaders candidates // owners that may share it
}

// A reader is an owner that shares the lock.
type reader struct {
	owner  string
	levels int
	expiry history.Time
}

// Candidates are the owners that may hold the lock: none, a single one, or any.
type candidates string

const (
	noOwner  candidates = ""
	anyOwner candidates = "*"
)

func (c candidates) has(owner string) bool { return c == anyOwner || c == candidates(owner) }

// only returns the owner if it is a candidate, otherwise noOwner.
func (c candidates) only(owner string) candidates {
	if c.has(owner) {
		return candidates(owner)
	}
	return noOwner
}

var unknown = state{unseen: anyOwner, unseenReaders: anyOwner}

var model = porcupine.Model{
	Init:  func() any { return unknown },
	Step:  func(s, in, _ any) (bool, any) { return s.(state).after(in.(*step)) },
	Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
	DescribeOperation: func(in, _ any) string {
		s := in.(*step)
		how := ""
		if s.Shared {
			how = " to read"
		}
		if s.took() {
			return fmt.Sprintf("%s%s by %s: level %d, token %d", s.Method, how, s.Owner, s.levels, s.result.Token)
		}
		return fmt.Sprintf("%s%s by %s: %d left", s.Method, how, s.Owner, s.levels)
	},
	DescribeState: func(in any) string {
		switch s := in.(state); {
		case s.equal(unknown):
			return "unknown"
		case s.levels == 0 && len(s.readers) == 0:
			return fmt.Sprintf("free, token %d", s.token)
		case s.levels == 0:
			return fmt.Sprintf("read: %v", s.readers)
		default:
			return fmt.Sprintf("%s: %d levels, token %d; read: %v", s.owner, s.levels, s.token, s.readers)
		}
	},
}

func (s state) equal(t state) bool {
	return s.owner == t.owner && s.levels == t.levels && s.token == t.token && s.era == t.era && s.expiry == t.expiry &&
		s.unseen == t.unseen && s.unseenReaders == t.unseenReaders && slices.Equal(s.readers, t.readers)
}

// after reports whether the step may be taken in the state, and returns the state after it.
func (s state) after(in *step) (bool, state) {
	switch {
	case in.excused:
		return true, unknown
	case in.Shared:
		return s.afterReader(in)
	}
	unseen := s.unseen.has(in.Owner)
	owns := unseen || s.levels > 0 && s.owner == in.Owner
	next := state{
		owner: in.Owner, token: s.token, era: s.era, expiry: in.hold.end(),
		readers: s.readersOf(in.Owner), unseenReaders: s.unseenReaders.only(in.Owner),
	}
	if in.result.Token != 0 {
		next.token, next.era = in.result.Token, in.era
	}
	anew := unseen || s.era != in.era
	switch {
	case !in.took():
		next.levels = s.levels - 1
		if unseen {
			next.levels = in.levels
		}
		return owns, next.tidy()
	case in.nested:
		next.levels = s.levels + 1
		if unseen {
			next.levels = in.levels
		}
		// A part may begin with an unlock, when the token is not known.
		kept := anew || s.token == 0 || in.result.Token == 0 || in.result.Token == s.token
		return owns && kept && in.counts(next.levels), next
	}
	free := unseen || s.levels == 0 || in.returned >= s.expiry
	for _, r := range s.readers {
		free = free && (r.owner == in.Owner || in.returned >= r.expiry)
	}
	grows := anew || in.result.Token == 0 || in.result.Token > s.token
	next.levels = 1
	return free && grows && in.counts(1), next
}

// afterReader is after for a reader's step. An owner that has the lock exclusively may read
// as well, and goes on reading when it releases the write lock.
func (s state) afterReader(in *step) (bool, state) {
	i, seen := slices.BinarySearchFunc(s.readers, in.Owner, func(r reader, owner string) int { return strings.Compare(r.owner, owner) })
	now := reader{owner: in.Owner, expiry: in.hold.end()}
	if seen {
		now.levels = s.readers[i].levels
	}
	next := s
	next.readers = slices.Clone(s.readers)
	next.unseen = s.unseen.only(in.Owner)
	if s.levels > 0 && s.owner != in.Owner && in.returned >= s.expiry {
		next.owner, next.levels, next.expiry = "", 0, 0
	}
	possible := next.levels == 0 || next.owner == in.Owner
	switch {
	case !in.took() || in.nested:
		if !seen && !s.unseenReaders.has(in.Owner) {
			return false, s
		}
		step := 1
		if !in.took() {
			step = -1
		}
		if now.levels += step; !seen {
			now.levels = in.levels
		}
	default:
		possible = possible && (!seen || in.returned >= s.readers[i].expiry)
		now.levels = 1
	}
	switch {
	case now.levels > 0 && seen:
		next.readers[i] = now
	case now.levels > 0:
		next.readers = slices.Insert(next.readers, i, now)
	case seen:
		next.readers = slices.Delete(next.readers, i, i+1)
	}
	return possible && (!in.took() || in.counts(now.levels)), next
}

// readersOf returns the reader of an owner, if it has one.
func (s state) readersOf(owner string) []reader {
	for _, r := range s.readers {
		if r.owner == owner {
			return []reader{r}
		}
	}
	return nil
}

// counts reports whether the caller was told this number of levels, if any.
func (s *step) counts(levels int) bool { return s.result.Count == 0 || s.result.Count == levels }

// tidy clears the owner of a free lock, so that equal states are equal.
func (s state) tidy() state {
	if s.levels > 0 {
		return s
	}
	return state{token: s.token, era: s.era, readers: s.readers, unseenReaders: s.unseenReaders}
}

// mattered reports whether the owner relied on the hold. A hold that was over when its
// acquire returned blocked others for a while, as that of a cancelled acquire does.
func (h *hold) mattered() bool { return h.clean || h.valid() }
