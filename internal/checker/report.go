package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// A Rule is a promise that can be broken.
type Rule string

const (
	Overlap   Rule = "overlap"    // two owners believed in the lock at once
	Count     Rule = "count"      // an owner was told a wrong number of levels
	Token     Rule = "token"      // a fencing token was repeated, or smaller than before
	Overdue   Rule = "overdue"    // a holder was assured of a hold that was over
	NeverTold Rule = "never told" // a holder was not notified of its loss
	ToldLate  Rule = "told late"  // a holder was notified after Redis could grant the lock to another owner
	Stranded  Rule = "stranded"   // a waiter did not get a free lock
	Refused   Rule = "refused"    // a call was refused a lock that no other owner had or waited for
	Slow      Rule = "slow"       // a call went on after the end of its context
)

// A Report is the result of a check.
type Report struct {
	Calls      int // for locks
	Acquired   int // of them
	LossesTold int // levels

	// LongestWait is the longest wait of an acquire that succeeded. LatestLoss is the largest
	// delay of a loss report after the time from which Redis could have granted the lock to
	// another owner. LatestReturn is how late a call returned after the end of its context.
	LongestWait, LatestLoss, LatestReturn time.Duration

	Violations []Violation
	Excused    []Violation // caused by a fault that makes Redis forget
}

// A Violation is a broken promise, with the events that show it.
type Violation struct {
	Rule   Rule
	Name   string
	What   string
	Both   time.Duration // the length of an overlap
	Excuse string        // the kind of fault that explains it
	Events []history.Event
}

// String returns the violation as text, with its events, a line each.
func (v Violation) String() string {
	text := fmt.Sprintf("%s of %q: %s", v.Rule, v.Name, v.What)
	if v.Excuse != "" {
		text += " (" + v.Excuse + ")"
	}
	for _, e := range v.Events {
		line, _ := json.Marshal(e) // it was read as JSON
		text += "\n    " + string(line)
	}
	return text
}

// Broken returns the number of violations of a rule.
func (r Report) Broken(rule Rule) (n int) {
	for _, v := range r.Violations {
		if v.Rule == rule {
			n++
		}
	}
	return n
}

// String returns the report as text: the figures, and all violations in full.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls, %d acquired, %d losses told, the longest wait %v, the latest loss told %v late\n",
		r.Calls, r.Acquired, r.LossesTold, r.LongestWait, r.LatestLoss)
	for _, v := range slices.Concat(r.Violations, r.Excused) {
		fmt.Fprintln(&b, v)
	}
	return b.String()
}
