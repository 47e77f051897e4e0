package checker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/go-rlock/rlock/internal/history"
)

// The model is what a lock is in one place, without a network: at most one owner,
// or any number of readers, each of whom has so many levels, until it gives back the
// last of them or its lease has ended; and a token greater than any before.
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
	era     int          // what it has forgotten by then it does not know again
}

// A state is who has the lock. The zero state is free.
//
// At the begin of a part, and when Redis may have forgotten, it is not known. What
// is seen then says who has the lock, as far as one excludes the other: a reader
// does not exclude others, which may be there unseen.
type state struct {
	owner  string // of whoever has it alone
	levels int
	token  uint64       // the last that was given out
	era    int          // in which it was: in another, tokens begin anew
	expiry history.Time // no earlier than this

	readers []reader // in the order of their owners

	unseen        who // may have it alone, though that was not seen
	unseenReaders who // and may share it
}

// A reader is an owner who shares the lock.
type reader struct {
	owner  string
	levels int
	expiry history.Time
}

// A who is nobody, one owner, or anybody.
type who string

const (
	nobody  who = ""
	anybody who = "*"
)

func (w who) has(owner string) bool { return w == anybody || w == who(owner) }

// only returns w without all but the owner.
func (w who) only(owner string) who {
	if w.has(owner) {
		return who(owner)
	}
	return nobody
}

var unknown = state{unseen: anybody, unseenReaders: anybody}

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

// after returns whether the step may be taken in the state, and where it leads.
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

// afterReader is after for a reader's step. An owner that has the lock alone may read as
// well, and goes on reading when it releases the write lock.
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

// readersOf returns what an owner has as a reader.
func (s state) readersOf(owner string) []reader {
	for _, r := range s.readers {
		if r.owner == owner {
			return []reader{r}
		}
	}
	return nil
}

// counts reports whether the caller was told so many levels, if it was told.
func (s *step) counts(levels int) bool { return s.result.Count == 0 || s.result.Count == levels }

// tidy forgets the owner of a lock that is free, so that equal states are equal.
func (s state) tidy() state {
	if s.levels > 0 {
		return s
	}
	return state{token: s.token, era: s.era, readers: s.readers, unseenReaders: s.unseenReaders}
}

// mattered reports whether anybody relied on the hold. One that was over when its
// acquire returned blocked others for a while, as one of a cancelled acquire does.
func (h *hold) mattered() bool { return h.clean || h.valid() }
