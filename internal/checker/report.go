package checker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// A Rule is a promise that can be broken.
type Rule string

const (
	Overlap   Rule = "overlap"    // two owners believed in the lock at once
	Order     Rule = "order"      // no lock could have done this, in any order
	Count     Rule = "count"      // an owner was told a wrong number of levels
	Token     Rule = "token"      // a fencing token was repeated, or less than before
	Overdue   Rule = "overdue"    // a holder was assured of a hold that was over
	NeverTold Rule = "never told" // a holder was not told of its loss
	ToldTwice Rule = "told twice" // or twice in the same way
	ToldLate  Rule = "told late"  // or after Redis could grant the lock to another
	Stranded  Rule = "stranded"   // a waiter did not get a lock that was free
	Leftover  Rule = "leftover"   // something was left behind
)

// A Report is what a check found.
type Report struct {
	Operations int                     `json:"operations"`
	Outcomes   map[history.Outcome]int `json:"outcomes"` // "" counts those that are unknown
	Holds      int                     `json:"holds"`
	LossesTold int                     `json:"losses_told"` // levels
	Faults     map[string]int          `json:"faults"`      // by what they were, with ForceUnlock

	// LongestWait is that of the acquires that succeeded, and LatestLoss by how much
	// Redis could have granted the lock to another before a loss was told.
	LongestWait time.Duration `json:"longest_wait"`
	LatestLoss  time.Duration `json:"latest_loss"`

	// MostPassed is how many, of other processes, had the lock at most before one who
	// had come earlier than they, while nothing was broken. Readers are not counted.
	MostPassed int `json:"most_passed"`

	// Parts is into how many parts Porcupine took the history, and Undecided for how
	// many of them the time was too short.
	Parts     int `json:"parts"`
	Undecided int `json:"undecided"`

	Violations []Violation `json:"violations"`
	Excused    []Violation `json:"excused"` // caused by a fault that makes Redis forget
}

// A Violation is a promise that was broken, with the events that show it.
type Violation struct {
	Rule   Rule            `json:"rule"`
	Name   string          `json:"name,omitempty"`
	What   string          `json:"what"`
	Both   time.Duration   `json:"both,omitempty"`   // of an overlap: for how long both believed
	Excuse string          `json:"excuse,omitempty"` // the fault that must cause it
	Cause  string          `json:"cause,omitempty"`  // the kind of that
	Events []history.Event `json:"events"`
}

// Broken returns how many violations there are of a rule.
func (r Report) Broken(rule Rule) (n int) {
	for _, v := range r.Violations {
		if v.Rule == rule {
			n++
		}
	}
	return n
}

// String returns the report for people: the figures, and the first violations of
// each rule in full.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations, %d holds, %d losses told, the longest wait %v, the latest loss told %v late\n",
		r.Operations, r.Holds, r.LossesTold, r.LongestWait, r.LatestLoss)
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(&b, "  %-12s %d\n", cmp.Or(string(outcome), "unknown"), r.Outcomes[outcome])
	}
	for _, what := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "  fault %-20s %d\n", what, r.Faults[what])
	}
	fmt.Fprintf(&b, "at most %d had the lock before one who came earlier\n", r.MostPassed)
	fmt.Fprintf(&b, "Porcupine: %d parts, %d not decided\n", r.Parts, r.Undecided)
	list(&b, "violations", r.Violations)
	list(&b, "excused by a fault that makes Redis forget", r.Excused)
	return b.String()
}

// shown is how many violations of a rule String shows in full.
const shown = 3

func list(b *strings.Builder, title string, violations []Violation) {
	fmt.Fprintf(b, "%s: %d\n", title, len(violations))
	count := make(map[Rule]int)
	for _, v := range violations {
		if count[v.Rule]++; count[v.Rule] > shown {
			continue
		}
		fmt.Fprintf(b, "  %s of %q: %s", v.Rule, v.Name, v.What)
		if v.Excuse != "" {
			fmt.Fprintf(b, " (%s)", v.Excuse)
		}
		b.WriteByte('\n')
		for _, e := range v.Events {
			line, err := json.Marshal(e)
			if err != nil {
				line = []byte(err.Error())
			}
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(b, "  %s: %d in all\n", rule, count[rule])
	}
}
