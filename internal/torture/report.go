package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A report is the results of one run.
type report struct {
	seed     uint64
	command  string // repeats the run
	when     time.Time
	took     time.Duration
	complete bool // false: it was ended early
	machine  string
	acts     []*figures

	// Of all acts, by the kind of fault.
	faults  map[string]count
	excused map[string][]time.Duration // how long both holders believed, for each overlap that a fault explains
}

// figures are those of one act.
type figures struct {
	topology stage.Topology
	took     time.Duration
	rounds   int
	deaths   int // the number of workers that were killed on purpose
	most     int // the most levels that a worker held at once
	checked  checker.Report

	violations  []string
	historyKept string // where the history is, if there are violations
}

// A count tells how often a fault was injected, and how often another one prevented it.
type count struct{ injected, missed int }

func (f *figures) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

func (r *report) markdown() string {
	violations, overlaps := 0, 0
	for _, a := range r.acts {
		violations, overlaps = violations+len(a.violations), overlaps+a.checked.Broken(checker.Overlap)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Torture\n\n%s, %s. Seed %d, %v", r.when.UTC().Format("2006-01-02 15:04 MST"), r.machine, r.seed, r.took.Round(time.Second))
	if !r.complete {
		b.WriteString(", ended early")
	}
	fmt.Fprintf(&b, ". To repeat it:\n\n    %s\n\n**%d violations.**", r.command, violations)
	switch {
	case len(r.excused) > 0:
		b.WriteString(" Two holders at once where Redis forgot a grant, which no lock in Redis can prevent:\n\n")
		b.WriteString("| two holders after | times | both believed for: median | longest | in all |\n|---|---|---|---|---|\n")
		for _, fault := range slices.Sorted(maps.Keys(r.excused)) {
			both, sum := slices.Sorted(slices.Values(r.excused[fault])), time.Duration(0)
			for _, d := range both {
				sum += d
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", fault, len(both), short(both[len(both)/2]), short(both[len(both)-1]), short(sum))
		}
	case overlaps == 0:
		b.WriteString(" No two holders at once.")
	}
	b.WriteString("\n\n")
	for _, a := range r.acts {
		for _, v := range a.violations {
			fmt.Fprintf(&b, "- %s: %s\n", a.topology, v)
		}
		if a.historyKept != "" {
			fmt.Fprintf(&b, "- %s: the history is kept in `%s`\n", a.topology, a.historyKept)
		}
	}
	b.WriteByte('\n')
	for _, c := range columns {
		fmt.Fprintf(&b, "| %s ", c.what)
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, a := range r.acts {
		for _, c := range columns {
			fmt.Fprintf(&b, "| %v ", c.figure(a))
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n| fault, beside those of the processes' networks | injected | missed, another in the way |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", name, r.faults[name].injected, r.faults[name].missed)
	}
	return b.String()
}

// columns has the columns of the table, which has a row for each act.
var columns = []struct {
	what   string
	figure func(*figures) any
}{
	{"servers", func(f *figures) any { return f.topology }},
	{"time", func(f *figures) any { return f.took.Round(time.Second) }},
	{"rounds of faults", func(f *figures) any { return f.rounds }},
	{"calls for locks", func(f *figures) any { return f.checked.Calls }},
	{"acquired", func(f *figures) any { return f.checked.Acquired }},
	{"most levels that a process held at once", func(f *figures) any { return f.most }},
	{"losses told", func(f *figures) any { return f.checked.LossesTold }},
	{"workers killed", func(f *figures) any { return f.deaths }},
	{"two valid holders, not excused", func(f *figures) any { return f.checked.Broken(checker.Overlap) }},
	{"all violations", func(f *figures) any { return len(f.violations) }},
	{"latest loss, after Redis could grant the lock to another", func(f *figures) any { return short(f.checked.LatestLoss) }},
	{"latest return, after the end of the call's context", func(f *figures) any { return short(f.checked.LatestReturn) }},
	{"longest wait, faults included", func(f *figures) any { return short(f.checked.LongestWait) }},
}

// short rounds a duration for the report.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
