package checker_test

import (
	"fmt"
	"os"
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
	events []history.Event
	number uint64
	levels map[string][]*level // of each owner, in the order of its calls
}

// A level is a call for the lock.
type level struct {
	number        uint64
	shared, given bool
}

func newStory(lines ...string) *story {
	s := &story{levels: make(map[string][]*level)}
	s.tell(lines...)
	return s
}

var faults = map[string]history.Fault{
	"DEL":  {What: "DEL", Forgets: true},
	"cut":  {What: "a cut connection"},
	"stop": {What: "SIGSTOP"},
	"kill": {What: "kill -9"},
}

var outcomes = []history.Outcome{
	history.Refused, history.Cancelled, history.Released, history.Lost, history.Unconfirmed, history.NotHeld,
}

// tell adds the events of lines. It panics at a word that it does not know.
func (s *story) tell(lines ...string) {
	for _, line := range lines {
		words := strings.Fields(line)
		begin, end, _ := strings.Cut(words[0], "-")
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
		verb, options := rest[0], rest[1:]
		switch verb {
		case "looks":
			s.look(subject, from, options)
		case "told":
			s.add(subject, from, history.Event{Kind: history.Told, Number: s.level(subject, options).number})
		case "closes":
			s.add(subject, from, history.Event{Kind: history.Closes})
		case "ends":
			s.add(subject, from, history.Event{Kind: history.Ended})
		case "stalled":
			s.add(subject, from, history.Event{Kind: history.Stalled, Stall: time.Duration(at(options[0]))})
		case "unlocks":
			op, result := call(subject, verb, options)
			l := s.gives(subject, op.Shared, options)
			s.add(subject, from, history.Event{Kind: history.Gives, Number: l.number})
			s.add(subject, at(end), history.Event{Kind: history.Gave, Number: l.number, Result: &result})
		case "acquires", "locks":
			op, result := call(subject, verb, options)
			s.number++
			s.levels[subject] = append(s.levels[subject], &level{number: s.number, shared: op.Shared})
			s.add(subject, from, history.Event{Kind: history.Called, Number: s.number, Op: &op})
			if end != "" {
				s.add(subject, at(end), history.Event{Kind: history.Returned, Number: s.number, Result: &result})
			}
		default:
			panic(line)
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

// call returns a call with its result, which is success unless the options have another outcome.
func call(owner, method string, options []string) (op history.Op, result history.Result) {
	op = history.Op{Method: method, Names: []string{"orders:42"}, Owner: owner, Lease: time.Second, Kept: true}
	result.Outcome = history.Acquired
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
			for i := 1; i < number(value); i++ {
				op.Names = append(op.Names, fmt.Sprint("part ", i))
			}
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
		case "first":
		default:
			result.Outcome = history.Outcome(strings.ReplaceAll(option, "_", " "))
			if !slices.Contains(outcomes, result.Outcome) {
				panic("no option " + option)
			}
		}
	}
	return op, result
}

// level returns the level that the options mean: the last one, or the first.
func (s *story) level(owner string, options []string) *level {
	all := s.levels[owner]
	if slices.Contains(options, "first") {
		return all[0]
	}
	return all[len(all)-1]
}

// gives returns the level that an unlock gives back: the last one that is not, or the first.
func (s *story) gives(owner string, shared bool, options []string) *level {
	l := s.level(owner, options)
	for _, one := range slices.Backward(s.levels[owner]) {
		if !slices.Contains(options, "first") && !one.given && one.shared == shared {
			l = one
			break
		}
	}
	l.given = true
	return l
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
	s.add(owner, when, history.Event{Kind: history.Looked, Number: s.level(owner, options).number, Belief: &belief})
}

func (s *story) check() checker.Report {
	return checker.Check(s.events, checker.Options{Patience: 5 * time.Second, Late: 20 * time.Millisecond, Noted: 2 * time.Millisecond})
}

// A told story has the rules that it breaks, and those that a fault excuses, in alphabetical order.
type told struct {
	*story
	title           string
	broken, excused []checker.Rule
}

// stories reads the stories.
func stories(t *testing.T) (all []told) {
	t.Helper()
	text, err := os.ReadFile("testdata/stories.txt")
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
