package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// leftAfter is how long the next caller may wait for a free lock: polling takes some of it.
const leftAfter = 700 * time.Millisecond

// resendTable has a row for each library and operation, and a column for each fault.
func resendTable(outcomes []*outcome, lease time.Duration, absent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Every command lost, doubled, late

Made by `+"`cd bench && go run ./faults resend -lease %v`"+`. Each cell is about the first %d commands of the operation, one at a time:
"–" is no effect, "error" that the caller is told, "left" that the lock has no holder and the next caller waits for so long,
"two hold" that another is granted the lock and the holder's release is no error, "for ever" that a call has not got the
lock %v after a lease. "doubled" is executed again 50 ms later, "after it" when the section is over, "a lease later" a lease
after that.
`, lease, maxCommands, grace)
	if absent != "" {
		fmt.Fprintf(&b, "Left out: %s.\n", absent)
	}
	b.WriteString("\n| library | operation | commands |")
	for _, f := range faults {
		fmt.Fprintf(&b, " %s |", f)
	}
	b.WriteString("\n|---|---|---:|" + strings.Repeat("---|", len(faults)) + "\n")
	for _, library := range librariesOf(outcomes) {
		for _, op := range operations {
			commands, cells := 0, make([]string, len(faults))
			for i, f := range faults {
				var met int
				if cells[i], met = cell(outcomes, library, op, f); f != none {
					commands = max(commands, met)
				}
			}
			if commands > 0 {
				fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", library, op, commands, strings.Join(cells, " | "))
			}
		}
	}
	return b.String()
}

// cell says the worst of the cases, and how many commands were met.
func cell(outcomes []*outcome, library string, op operation, f fault) (text string, met int) {
	var failed, twice, forever, problem bool
	var left time.Duration
	for _, o := range outcomes {
		if o.Library != library || o.Operation != op || o.Fault != f || !o.Met {
			continue
		}
		met++
		failed, twice, forever, problem = failed || o.Failed, twice || o.Twice, forever || o.Forever, problem || o.Problem != ""
		if o.Left > leftAfter {
			left = max(left, o.Left)
		}
	}
	var words []string
	for _, w := range []struct {
		is   bool
		text string
	}{{failed, "error"}, {left > 0, fmt.Sprintf("left %.1f s", left.Seconds())}, {twice, "**two hold**"}, {forever, "**for ever**"}, {problem, "not played"}} {
		if w.is {
			words = append(words, w.text)
		}
	}
	switch {
	case met == 0:
		return "", 0
	case len(words) == 0:
		return "–", met
	}
	return strings.Join(words, ", "), met
}

// librariesOf are the libraries of the outcomes, in order.
func librariesOf(outcomes []*outcome) (names []string) {
	for _, o := range outcomes {
		if !slices.Contains(names, o.Library) {
			names = append(names, o.Library)
		}
	}
	return names
}
