package checker_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
)

// A story is a history written by hand, in the language of testdata/stories.txt. It has no end
// unless it says so.
type story struct {
	events      []history.Event
	number      uint64
	first, last map[string]uint64 // the acquires of each owner
}

func newStory(lines ...string) *story {
	s := &story{first: make(map[string]uint64), last: make(map[string]uint64)}
	s.tell(lines...)
	return s
}

var faults = map[string]history.Fault{
	"DEL":  {What: "DEL", Forgets: true},
	"cut":  {What: "a cut connection"},
	"stop": {What: "SIGSTOP"},
	"kill": {What: "kill -9"},
}

var methods = map[string]history.Method{
	"acquires": history.Acquire, "locks": history.Lock, "locksFor": history.LockFor,
	"unlocks": history.Unlock, "forces": history.ForceUnlock, "closes": history.Close,
}

var outcomes = []history.Outcome{
	history.Refused, history.Cancelled, history.Failed, history.Released, history.Lost, history.Unconfirmed, history.NotHeld,
}

// tell adds the events of lines. It panics at a word that it does not know.
func (s *story) tell(lines ...string) {
	for _, line := range lines {
		words := strings.Fields(line)
		begin, end, returns := strings.Cut(words[0], "-")
		from, subject, rest := at(begin), words[1], words[2:]
		if f, ok := faults[subject]; ok {
			switch {
			case subject == "DEL" && len(rest) > 0:
				f.Name = rest[0]
			case len(rest) > 0:
				f.Victim = rest[0]
			}
			s.number++
			s.add("runner", from, history.Event{Kind: history.Injected, Number: s.number, Fault: &f})
			s.add("runner", at(end), history.Event{Kind: history.Healed, Number: s.number})
			continue
		}
		if subject == "left" {
			s.add("runner", from, history.Event{Kind: history.Left, Leftover: strings.Join(rest, " ")})
			continue
		}
		verb, options := rest[0], rest[1:]
		switch verb {
		case "looks":
			s.look(subject, from, options)
		case "told":
			s.add(subject, from, history.Event{Kind: history.Told, Number: s.level(subject, options), Way: "Done"})
		case "ends":
			s.add(subject, from, history.Event{Kind: history.Ended})
		case "stalled":
			s.add(subject, from, history.Event{Kind: history.Stalled, Stall: time.Duration(at(options[0]))})
		default:
			method, ok := methods[verb]
			if !ok || !returns {
				panic(line)
			}
			op, result := call(subject, method, options)
			s.number++
			if op.Method.Takes() {
				if s.last[subject] = s.number; s.first[subject] == 0 {
					s.first[subject] = s.number
				}
			}
			s.add(subject, from, history.Event{Kind: history.Called, Number: s.number, Op: &op})
			if end != "" {
				s.add(subject, at(end), history.Event{Kind: history.Returned, Number: s.number, Result: &result})
			}
		}
	}
}

// at returns the time of a number of milliseconds.
func at(ms string) history.Time { return history.Time(number(ms)) * history.Time(time.Millisecond) }

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func (s *story) add(process string, at history.Time, e history.Event) {
	e.Process, e.At = process, at
	s.events = append(s.events, e)
}

// call returns an operation with its result, which is success unless the options have another
// outcome.
func call(owner string, method history.Method, options []string) (op history.Op, result history.Result) {
	op = history.Op{Method: method, Name: "orders:42", Owner: owner}
	if method.Takes() {
		op.Lease, op.Kept = time.Second, true
		result.Outcome = history.Acquired
	}
	for _, option := range options {
		switch key, value, _ := strings.Cut(option, "="); key {
		case "until":
			result.Until = at(value)
		case "count":
			result.Count = number(value)
		case "token":
			result.Token = uint64(number(value))
		case "lease":
			op.Lease = time.Duration(at(value))
		case "parts":
			op.Parts = number(value)
		case "permits":
			op.Permits, op.Of, op.Shared = number(value), 3, true
		case "ends":
			op.Ends = at(value)
		case "from":
			op.From = value
		case "passed":
			op.Passed = at(value)
		case "watched":
			result.Watched = true
		case "fixed":
			op.Kept = false
		case "shared":
			op.Shared = true
		default:
			result.Outcome = history.Outcome(strings.ReplaceAll(option, "_", " "))
			if !slices.Contains(outcomes, result.Outcome) {
				panic("no option " + option)
			}
		}
	}
	return op, result
}

// level returns the number of the acquire that the options mean.
func (s *story) level(owner string, options []string) uint64 {
	if slices.Contains(options, "first") {
		return s.first[owner]
	}
	return s.last[owner]
}

func (s *story) look(owner string, when history.Time, options []string) {
	belief := history.Belief{Held: true, Seen: when}
	for _, option := range options {
		switch key, value, _ := strings.Cut(option, "="); key {
		case "until":
			belief.Until = at(value)
		case "count":
			belief.Count = number(value)
		case "seen":
			belief.Seen = at(value)
		case "lost":
			belief.Held = false
		case "first":
		default:
			panic("no option " + option)
		}
	}
	s.add(owner, when, history.Event{Kind: history.Looked, Number: s.level(owner, options), Belief: &belief})
}

func (s *story) sorted() []history.Event {
	slices.SortStableFunc(s.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return s.events
}

func (s *story) check(t *testing.T) checker.Report {
	t.Helper()
	report, err := checker.Check(s.sorted(), checker.Options{Patience: 5 * time.Second, Late: 20 * time.Millisecond, Noted: 2 * time.Millisecond})
	require.NoError(t, err)
	return report
}

// A told story has the rules that it breaks, and those that a fault excuses, in alphabetical order.
type told struct {
	*story
	title           string
	broken, excused []checker.Rule
}

// stories reads those of a file.
func stories(t *testing.T, file string) (all []told) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), " # ")
		switch {
		case line == "", line[0] == '#':
		case line[0] == ' ':
			all[len(all)-1].tell(line)
		default:
			title, rules, _ := strings.Cut(line, " -> ")
			one := told{story: newStory(), title: title, broken: []checker.Rule{}, excused: []checker.Rule{}}
			for rule := range strings.FieldsFuncSeq(rules, func(r rune) bool { return r == ',' }) {
				if excused, ok := strings.CutPrefix(strings.TrimSpace(rule), "excused "); ok {
					one.excused = append(one.excused, checker.Rule(excused))
				} else {
					one.broken = append(one.broken, checker.Rule(strings.TrimSpace(rule)))
				}
			}
			all = append(all, one)
		}
	}
	require.NotEmpty(t, all)
	return all
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
