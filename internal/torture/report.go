package main

import (
	"cmp"
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
}

// figures are those of one act, or of all of a topology.
type figures struct {
	topology   stage.Topology
	took       time.Duration
	rounds     int
	faults     map[string]count // by the name of their kind
	deaths     int              // of workers, on purpose
	most       int              // levels that one worker held at once
	report     checker.Report
	excused    map[string][]time.Duration // for how long both believed in each overlap that a fault explains, by the kind of fault
	recoveries []recovery

	violations  []string
	historyKept string // where the history is, if there are violations
}

// A count tells how often a fault was injected, and how often another one prevented it.
type count struct{ injected, missed int }

// A recovery tells how soon a lock was taken after the faults of a round.
type recovery struct {
	after string
	took  time.Duration
}

func (f *figures) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

// add adds those of another act.
func (f *figures) add(a *figures) {
	f.took, f.rounds, f.deaths, f.most = f.took+a.took, f.rounds+a.rounds, f.deaths+a.deaths, max(f.most, a.most)
	f.recoveries, f.violations = append(f.recoveries, a.recoveries...), append(f.violations, a.violations...)
	for name, n := range a.faults {
		f.faults[name] = count{f.faults[name].injected + n.injected, f.faults[name].missed + n.missed}
	}
	for name, both := range a.excused {
		f.excused[name] = append(f.excused[name], both...)
	}
	to, from := &f.report, &a.report
	to.Calls, to.Acquired, to.LossesTold = to.Calls+from.Calls, to.Acquired+from.Acquired, to.LossesTold+from.LossesTold
	to.LongestWait, to.LatestLoss, to.LatestReturn = max(to.LongestWait, from.LongestWait), max(to.LatestLoss, from.LatestLoss), max(to.LatestReturn, from.LatestReturn)
	to.Violations = append(to.Violations, from.Violations...)
}

func newFigures(t stage.Topology) *figures {
	return &figures{topology: t, faults: make(map[string]count), excused: make(map[string][]time.Duration)}
}

// markdown returns the report as Markdown, with a column for each topology.
func (r *report) markdown() string {
	var columns []*figures
	all := newFigures("all")
	for _, a := range r.acts {
		i := slices.IndexFunc(columns, func(f *figures) bool { return f.topology == a.topology })
		if i < 0 {
			i = len(columns)
			columns = append(columns, newFigures(a.topology))
		}
		columns[i].add(a)
		all.add(a)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Torture\n\n%s, %s. Seed %d, %v", r.when.UTC().Format("2006-01-02 15:04 MST"), r.machine, r.seed, r.took.Round(time.Second))
	if !r.complete {
		b.WriteString(", ended early")
	}
	fmt.Fprintf(&b, ". To repeat it:\n\n    %s\n\n**%d violations.**", r.command, len(all.violations))
	switch {
	case len(all.excused) > 0:
		b.WriteString(" Two holders at once where Redis forgot a grant, which no lock in Redis can prevent:\n\n")
		b.WriteString("| two holders after | times | both believed for: median | longest | in all |\n|---|---|---|---|---|\n")
		for _, fault := range slices.Sorted(maps.Keys(all.excused)) {
			both, sum := slices.Sorted(slices.Values(all.excused[fault])), time.Duration(0)
			for _, d := range both {
				sum += d
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", fault, len(both), short(both[len(both)/2]), short(both[len(both)-1]), short(sum))
		}
	case all.report.Broken(checker.Overlap) == 0:
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
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, f := range columns {
			fmt.Fprintf(&b, " %v |", row.figure(f))
		}
		if b.WriteByte('\n'); i == 0 {
			fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("---|", len(columns)))
		}
	}
	b.WriteString("\n| fault, beside those of the processes' networks | injected | missed, another in the way |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all.faults)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", name, all.faults[name].injected, all.faults[name].missed)
	}
	b.WriteString("\nThe slowest to have a lock again:\n\n")
	for _, rec := range slowest(all.recoveries)[:min(len(all.recoveries), 5)] {
		fmt.Fprintf(&b, "- %s after %s\n", short(rec.took), rec.after)
	}
	return b.String()
}

// rows are those of the table.
var rows = []struct {
	what   string
	figure func(*figures) any
}{
	{"", func(f *figures) any { return f.topology }},
	{"time", func(f *figures) any { return f.took.Round(time.Second) }},
	{"rounds of faults", func(f *figures) any { return f.rounds }},
	{"calls for locks", func(f *figures) any { return f.report.Calls }},
	{"acquired", func(f *figures) any { return f.report.Acquired }},
	{"most levels that a process held at once", func(f *figures) any { return f.most }},
	{"losses told", func(f *figures) any { return f.report.LossesTold }},
	{"workers killed", func(f *figures) any { return f.deaths }},
	{"two valid holders, not excused", func(f *figures) any { return f.report.Broken(checker.Overlap) }},
	{"all violations", func(f *figures) any { return len(f.violations) }},
	{"latest loss, after Redis could grant the lock to another", func(f *figures) any { return short(f.report.LatestLoss) }},
	{"latest return, after the end of the call's context", func(f *figures) any { return short(f.report.LatestReturn) }},
	{"longest wait, faults included", func(f *figures) any { return short(f.report.LongestWait) }},
	{"a lock is taken again after the faults: median, worst", func(f *figures) any {
		all := slowest(f.recoveries)
		if len(all) == 0 {
			return ""
		}
		return short(all[len(all)/2].took) + ", " + short(all[0].took)
	}},
}

func slowest(all []recovery) []recovery {
	return slices.SortedFunc(slices.Values(all), func(x, y recovery) int { return cmp.Compare(y.took, x.took) })
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
