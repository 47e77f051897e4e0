package checker_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
)

// A story is a history written by hand, of the lock "orders:42". Its times are in
// milliseconds. Owners "a", "b" and so on each have a process of their own, which has their
// name. It has no end unless the story has one.
type story struct {
	events []history.Event
	number uint64
}

func at(ms int) history.Time { return history.Time(ms) * history.Time(time.Millisecond) }

func (s *story) add(process string, ms int, e history.Event) {
	e.Process, e.At = process, at(ms)
	s.events = append(s.events, e)
}

// call adds an operation, without its return if that is 0. It returns its number.
func (s *story) call(owner string, called, returned int, op history.Op, result history.Result) uint64 {
	s.number++
	op.Name, op.Owner = "orders:42", owner
	s.add(owner, called, history.Event{Kind: history.Called, Number: s.number, Op: &op})
	if returned != 0 {
		s.add(owner, returned, history.Event{Kind: history.Returned, Number: s.number, Result: &result})
	}
	return s.number
}

// kept adds an acquire that succeeds, of a lock that the watchdog keeps with a lease of a
// second, valid until until.
func (s *story) kept(owner string, called, returned, until int, changes ...func(*history.Result)) uint64 {
	return s.take(owner, called, returned, until, history.Op{Method: history.Acquire, Lease: time.Second, Kept: true}, changes)
}

// fixed is the same for a lease of a second that is not renewed.
func (s *story) fixed(owner string, called, returned, until int, changes ...func(*history.Result)) uint64 {
	return s.take(owner, called, returned, until, history.Op{Method: history.Acquire, Lease: time.Second}, changes)
}

// reads is kept, as a reader.
func (s *story) reads(owner string, called, returned, until int, changes ...func(*history.Result)) uint64 {
	return s.take(owner, called, returned, until, history.Op{Method: history.Acquire, Lease: time.Second, Kept: true, Shared: true}, changes)
}

// readsFor is fixed, as a reader.
func (s *story) readsFor(owner string, called, returned, until int, changes ...func(*history.Result)) uint64 {
	return s.take(owner, called, returned, until, history.Op{Method: history.Acquire, Lease: time.Second, Shared: true}, changes)
}

// byName adds a Lock, which does not report its validity.
func (s *story) byName(owner string, called, returned, count int, changes ...func(*history.Result)) uint64 {
	op := history.Op{Method: history.Lock, Lease: time.Second, Kept: true}
	return s.take(owner, called, returned, 0, op, append(changes, func(r *history.Result) { r.Count = count }))
}

func (s *story) take(owner string, called, returned, until int, op history.Op, changes []func(*history.Result)) uint64 {
	result := history.Result{Outcome: history.Acquired, Until: at(until)}
	for _, change := range changes {
		change(&result)
	}
	return s.call(owner, called, returned, op, result)
}

func watched(r *history.Result) { r.Watched = true }

func token(token uint64) func(*history.Result) {
	return func(r *history.Result) { r.Token = token }
}

func count(count int) func(*history.Result) {
	return func(r *history.Result) { r.Count = count }
}

// gives adds an unlock.
func (s *story) gives(owner string, called, returned int, outcome history.Outcome) {
	s.call(owner, called, returned, history.Op{Method: history.Unlock}, history.Result{Outcome: outcome})
}

// readEnds adds a reader's unlock.
func (s *story) readEnds(owner string, called, returned int, outcome history.Outcome) {
	s.call(owner, called, returned, history.Op{Method: history.Unlock, Shared: true}, history.Result{Outcome: outcome})
}

// wantsToRead adds a reader's acquire that does not succeed.
func (s *story) wantsToRead(owner string, called, returned int, outcome history.Outcome) {
	s.call(owner, called, returned, history.Op{Method: history.Lock, Lease: time.Second, Kept: true, Shared: true}, history.Result{Outcome: outcome})
}

// wants adds an acquire that does not succeed.
func (s *story) wants(owner string, called, returned int, outcome history.Outcome) {
	s.call(owner, called, returned, history.Op{Method: history.Lock, Lease: time.Second, Kept: true}, history.Result{Outcome: outcome})
}

// looks adds a look at a handle; until is 0 if the handle is lost.
func (s *story) looks(owner string, number uint64, ms, until int) {
	belief := history.Belief{Held: until != 0, Until: at(until), Seen: at(ms)}
	s.add(owner, ms, history.Event{Kind: history.Looked, Number: number, Belief: &belief})
}

// holds adds an IsHeld that returns true.
func (s *story) holds(owner string, number uint64, ms int) {
	s.add(owner, ms, history.Event{Kind: history.Looked, Number: number, Belief: &history.Belief{Held: true, Seen: at(ms)}})
}

func (s *story) told(owner string, number uint64, ms int) {
	s.add(owner, ms, history.Event{Kind: history.Told, Number: number, Way: "Done"})
}

func (s *story) ended(owner string, ms int) { s.add(owner, ms, history.Event{Kind: history.Ended}) }

func (s *story) stalled(owner string, ms, length int) {
	s.add(owner, ms, history.Event{Kind: history.Stalled, Stall: time.Duration(length) * time.Millisecond})
}

func (s *story) fault(from, to int, f history.Fault) {
	s.number++
	s.add("runner", from, history.Event{Kind: history.Injected, Number: s.number, Fault: &f})
	if to != 0 {
		s.add("runner", to, history.Event{Kind: history.Healed, Number: s.number})
	}
}

var (
	del    = history.Fault{What: "DEL", Forgets: true}
	cut    = history.Fault{What: "a cut connection"}
	stopA  = history.Fault{What: "SIGSTOP", Victim: "a"}
	killA  = history.Fault{What: "kill -9", Victim: "a"}
	second = time.Second
)

func (s *story) sorted() []history.Event {
	slices.SortStableFunc(s.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return s.events
}

func (s *story) check(t *testing.T) checker.Report {
	t.Helper()
	report, err := checker.Check(s.sorted(), checker.Options{Patience: 5 * second, Late: 20 * time.Millisecond, Timeout: 5 * time.Minute})
	require.NoError(t, err)
	require.Zero(t, report.Undecided)
	return report
}

// rules returns the broken rules, each once, in alphabetical order.
func rules(violations []checker.Violation) []checker.Rule {
	rules := []checker.Rule{}
	for _, v := range violations {
		rules = append(rules, v.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
