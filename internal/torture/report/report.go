// Package report has the results of torture.
package report

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/torture/probe"
)

// RecoveryLimit is how soon locks should work again after a server's return.
const RecoveryLimit = time.Second

// A Report is one run.
type Report struct {
	Seed     uint64
	Command  string // repeats the run
	When     time.Time
	Took     time.Duration
	Complete bool // false: it was ended early
	Machine  string
	Acts     []*Act
}

// An Act is the time in which one server was up.
type Act struct {
	Topology string
	Took     time.Duration
	Rounds   int
	Faults   map[string]Count // by the name of their kind
	Deaths   int              // of workers, on purpose

	Calls, Acquired, Lost int
	Most                  int // levels that one worker held at once
	LongestWait           time.Duration
	LatestLoss            time.Duration // after Redis could grant the lock to another owner
	LatestReturn          time.Duration // of a call, after the end of its context
	Recoveries            []Recovery

	Holds       int                        // that the checker found
	Overlaps    int                        // of valid holds, without an excuse
	Excused     map[string][]time.Duration // for how long both believed in each overlap that a fault explains, by the kind of fault
	Violations  []string
	HistoryKept string // where the history is, if there are violations
}

// A Count tells how often a fault was injected, and how often another one prevented it.
type Count struct{ Injected, Missed int }

// A Recovery tells how soon locks worked again after the faults of a round.
type Recovery struct {
	After string
	probe.Recovery
}

func (r Recovery) all() time.Duration { return max(r.Acquire, r.Renewal, 0) }

// Violate adds a violation.
func (a *Act) Violate(format string, args ...any) {
	a.Violations = append(a.Violations, fmt.Sprintf(format, args...))
}

// Violations returns how many violations all acts have.
func (r *Report) Violations() (n int) {
	for _, a := range r.Acts {
		n += len(a.Violations)
	}
	return n
}

// Write writes torture.md into a folder, which it makes if necessary.
func (r *Report) Write(folder string) error {
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "torture.md"), []byte(r.Markdown()), 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Markdown returns the report as Markdown.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Torture\n\n%s, %s. Seed %d, %v", r.When.UTC().Format("2006-01-02 15:04 MST"), r.Machine, r.Seed, r.Took.Round(time.Second))
	if !r.Complete {
		b.WriteString(", ended early")
	}
	fmt.Fprintf(&b, ". To repeat it:\n\n    %s\n\n", r.Command)
	sums := r.sums()
	r.verdict(&b, sums)
	figures(&b, sums)
	faults(&b, sums)
	recoveries(&b, sums)
	return b.String()
}

// sums returns the total of all acts of each topology.
func (r *Report) sums() (sums []*Act) {
	for _, a := range r.Acts {
		i := slices.IndexFunc(sums, func(s *Act) bool { return s.Topology == a.Topology })
		if i < 0 {
			i = len(sums)
			sums = append(sums, &Act{Topology: a.Topology, Faults: make(map[string]Count), Excused: make(map[string][]time.Duration)})
		}
		s := sums[i]
		for _, total := range []struct{ to, from *int }{
			{&s.Rounds, &a.Rounds}, {&s.Deaths, &a.Deaths}, {&s.Calls, &a.Calls}, {&s.Acquired, &a.Acquired}, {&s.Lost, &a.Lost},
			{&s.Holds, &a.Holds}, {&s.Overlaps, &a.Overlaps},
		} {
			*total.to += *total.from
		}
		s.Took += a.Took
		s.Most, s.LongestWait = max(s.Most, a.Most), max(s.LongestWait, a.LongestWait)
		s.LatestLoss, s.LatestReturn = max(s.LatestLoss, a.LatestLoss), max(s.LatestReturn, a.LatestReturn)
		s.Recoveries, s.Violations = append(s.Recoveries, a.Recoveries...), append(s.Violations, a.Violations...)
		for name, n := range a.Faults {
			s.Faults[name] = Count{s.Faults[name].Injected + n.Injected, s.Faults[name].Missed + n.Missed}
		}
		for name, both := range a.Excused {
			s.Excused[name] = append(s.Excused[name], both...)
		}
	}
	return sums
}

func (r *Report) verdict(b *strings.Builder, sums []*Act) {
	fmt.Fprintf(b, "**%d violations.**", r.Violations())
	excused := make(map[string][]time.Duration)
	overlaps := 0
	for _, s := range sums {
		overlaps += s.Overlaps
		for fault, both := range s.Excused {
			excused[fault] = append(excused[fault], both...)
			if fault != "all" {
				excused["all"] = append(excused["all"], both...)
			}
		}
	}
	switch {
	case len(excused) > 0:
		b.WriteString(" Two holders at once where Redis forgot a grant, which no lock in Redis can prevent:\n\n")
		b.WriteString("| two holders after | times | both believed for: median | longest | in all |\n|---|---|---|---|---|\n")
		for _, fault := range slices.Sorted(maps.Keys(excused)) {
			both, sum := slices.Sorted(slices.Values(excused[fault])), time.Duration(0)
			for _, d := range both {
				sum += d
			}
			fmt.Fprintf(b, "| %s | %d | %s | %s | %s |\n", fault, len(both), short(both[len(both)/2]), short(both[len(both)-1]), short(sum))
		}
	case overlaps == 0:
		b.WriteString(" No two holders at once.")
	}
	b.WriteString("\n\n")
	for _, a := range r.Acts {
		for _, v := range a.Violations {
			fmt.Fprintf(b, "- %s: %s\n", a.Topology, v)
		}
		if a.HistoryKept != "" {
			fmt.Fprintf(b, "- %s: the history is kept in `%s`\n", a.Topology, a.HistoryKept)
		}
	}
	b.WriteByte('\n')
}

func figures(b *strings.Builder, sums []*Act) {
	for i, row := range []struct {
		what   string
		figure func(*Act) any
	}{
		{"", func(a *Act) any { return a.Topology }},
		{"time", func(a *Act) any { return a.Took.Round(time.Second) }},
		{"rounds of faults", func(a *Act) any { return a.Rounds }},
		{"operations on locks", func(a *Act) any { return a.Calls }},
		{"acquired", func(a *Act) any { return a.Acquired }},
		{"most levels that a process held at once", func(a *Act) any { return a.Most }},
		{"losses told", func(a *Act) any { return a.Lost }},
		{"workers killed", func(a *Act) any { return a.Deaths }},
		{"two valid holders, not excused", func(a *Act) any { return a.Overlaps }},
		{"all violations", func(a *Act) any { return len(a.Violations) }},
		{"latest loss, after Redis could grant the lock to another", func(a *Act) any { return short(a.LatestLoss) }},
		{"latest return, after the end of the call's context", func(a *Act) any { return short(a.LatestReturn) }},
		{"longest wait, faults included", func(a *Act) any { return short(a.LongestWait) }},
		{"works again: median, worst", func(a *Act) any {
			all := slowest(a.Recoveries)
			if len(all) == 0 {
				return ""
			}
			return short(all[len(all)/2].all()) + ", " + short(all[0].all())
		}},
	} {
		fmt.Fprintf(b, "| %s |", row.what)
		for _, s := range sums {
			fmt.Fprintf(b, " %v |", row.figure(s))
		}
		if b.WriteByte('\n'); i == 0 {
			fmt.Fprintf(b, "|---|%s\n", strings.Repeat("---|", len(sums)))
		}
	}
	b.WriteByte('\n')
}

func faults(b *strings.Builder, sums []*Act) {
	total := make(map[string]Count)
	for _, a := range sums {
		for name, n := range a.Faults {
			total[name] = Count{total[name].Injected + n.Injected, total[name].Missed + n.Missed}
		}
	}
	b.WriteString("| fault, beside those of the processes' networks | injected | missed, another in the way |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(b, "| %s | %d | %d |\n", name, total[name].Injected, total[name].Missed)
	}
	b.WriteByte('\n')
}

// slowest returns the recoveries, the slowest first.
func slowest(all []Recovery) []Recovery {
	return slices.SortedFunc(slices.Values(all), func(x, y Recovery) int { return cmp.Compare(y.all(), x.all()) })
}

// recoveries shows those that took longer than they should.
func recoveries(b *strings.Builder, sums []*Act) {
	var slow strings.Builder
	all, late := 0, 0
	for _, a := range sums {
		for _, rec := range slowest(a.Recoveries) {
			if all++; rec.all() > RecoveryLimit {
				late++
				fmt.Fprintf(&slow, "- %s: an acquire after %s, a renewal after %s, after %s\n", a.Topology, short(rec.Acquire), short(rec.Renewal), rec.After)
			}
		}
	}
	fmt.Fprintf(b, "Locks worked again within %v after %d of %d rounds.", RecoveryLimit, all-late, all)
	if late > 0 {
		b.WriteString(" The others:\n\n" + slow.String())
	}
	b.WriteByte('\n')
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
