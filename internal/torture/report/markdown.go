package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Markdown returns the report as Markdown.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Torture\n\n%s, %s. Seed %d, %v", r.When.UTC().Format("2006-01-02 15:04 MST"), r.Machine, r.Seed, r.Took.Round(time.Second))
	if !r.Complete {
		b.WriteString(", ended early")
	}
	fmt.Fprintf(&b, ". To repeat it:\n\n    %s\n\n", r.Command)
	r.verdict(&b)
	r.figures(&b)
	r.faults(&b)
	r.recoveries(&b)
	return b.String()
}

func (r *Report) verdict(b *strings.Builder) {
	fmt.Fprintf(b, "**%d violations.**", r.Violations())
	excused := make(map[string][]time.Duration)
	overlaps := 0
	for _, a := range r.Acts {
		overlaps += a.Overlaps
		for fault, both := range a.Excused {
			excused[fault] = append(excused[fault], both...)
		}
	}
	switch {
	case len(excused) > 0:
		b.WriteString(" Two holders at once where Redis forgot a grant, which no lock in Redis can prevent:\n\n")
		beliefs(b, excused)
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

// beliefs shows for how long both holders believed, by the fault that made Redis forget.
func beliefs(b *strings.Builder, excused map[string][]time.Duration) {
	b.WriteString("| two holders after | times | both believed for: median | p99 | longest | in all |\n|---|---|---|---|---|---|\n")
	row := func(fault string, both []time.Duration) {
		var sum time.Duration
		for _, d := range both {
			sum += d
		}
		l := NewLatency(both)
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s |\n", fault, l.N, short(l.P50), short(l.P99), short(l.Worst), short(sum))
	}
	var all []time.Duration
	for _, fault := range slices.Sorted(maps.Keys(excused)) {
		row(fault, excused[fault])
		all = append(all, excused[fault]...)
	}
	if len(excused) > 1 {
		row("all", all)
	}
}

// A sum is the total of all acts of one topology.
func (r *Report) sums() (sums []*Act) {
	for _, a := range r.Acts {
		i := slices.IndexFunc(sums, func(s *Act) bool { return s.Topology == a.Topology })
		if i < 0 {
			i = len(sums)
			sums = append(sums, &Act{Topology: a.Topology, Faults: make(map[string]Count), Excused: make(map[string][]time.Duration)})
		}
		sums[i].add(a)
	}
	return sums
}

func (s *Act) add(a *Act) {
	s.Took += a.Took
	s.Rounds += a.Rounds
	s.Deaths += a.Deaths
	s.Calls += a.Calls
	s.Acquired += a.Acquired
	s.Lost += a.Lost
	s.Most = max(s.Most, a.Most)
	s.Holds += a.Holds
	s.Overlaps += a.Overlaps
	s.Undecided += a.Undecided
	if a.Longest.For > s.Longest.For {
		s.Longest = a.Longest
	}
	s.LatestLoss = max(s.LatestLoss, a.LatestLoss)
	s.Cancels = worse(s.Cancels, a.Cancels)
	s.QuietCancels = worse(s.QuietCancels, a.QuietCancels)
	s.QuietBare = worse(s.QuietBare, a.QuietBare)
	s.Recoveries = append(s.Recoveries, a.Recoveries...)
	s.Violations = append(s.Violations, a.Violations...)
	for name, n := range a.Faults {
		s.Faults[name] = Count{s.Faults[name].Injected + n.Injected, s.Faults[name].Missed + n.Missed}
	}
	for name, both := range a.Excused {
		s.Excused[name] = append(s.Excused[name], both...)
	}
}

// worse returns the worse of each figure.
func worse(a, b Latency) Latency {
	return Latency{N: a.N + b.N, P50: max(a.P50, b.P50), P99: max(a.P99, b.P99), Worst: max(a.Worst, b.Worst)}
}

func (r *Report) figures(b *strings.Builder) {
	sums := r.sums()
	row := func(what string, figure func(*Act) string) {
		fmt.Fprintf(b, "| %s |", what)
		for _, s := range sums {
			fmt.Fprintf(b, " %s |", figure(s))
		}
		b.WriteByte('\n')
	}
	number := func(figure func(*Act) int64) func(*Act) string {
		return func(a *Act) string { return fmt.Sprint(figure(a)) }
	}
	row("", func(a *Act) string { return a.Topology })
	fmt.Fprintf(b, "|---|%s\n", strings.Repeat("---|", len(sums)))
	row("time", func(a *Act) string { return a.Took.Round(time.Second).String() })
	row("rounds of faults", number(func(a *Act) int64 { return int64(a.Rounds) }))
	row("calls for a lock", number(func(a *Act) int64 { return a.Calls }))
	row("acquired", number(func(a *Act) int64 { return a.Acquired }))
	row("most levels that a client held at once", number(func(a *Act) int64 { return a.Most }))
	row("losses told", number(func(a *Act) int64 { return a.Lost }))
	row("workers killed", number(func(a *Act) int64 { return int64(a.Deaths) }))
	row("two valid holders, not excused", number(func(a *Act) int64 { return int64(a.Overlaps) }))
	row("all violations", number(func(a *Act) int64 { return int64(len(a.Violations)) }))
	row("not decided by the model", number(func(a *Act) int64 { return int64(a.Undecided) }))
	row("latest loss, after Redis could grant the lock to another", func(a *Act) string { return short(a.LatestLoss) })
	row("longest wait, faults included", func(a *Act) string { return short(a.Longest.For) })
	row("cancelled call late by, under faults: p99, worst", func(a *Act) string { return short(a.Cancels.P99) + ", " + short(a.Cancels.Worst) })
	row("cancelled call late by, at rest: p99, worst", func(a *Act) string { return short(a.QuietCancels.P99) + ", " + short(a.QuietCancels.Worst) })
	row("a bare goroutine beside it", func(a *Act) string { return short(a.QuietBare.P99) + ", " + short(a.QuietBare.Worst) })
	row("works again: median, worst", func(a *Act) string {
		all := make([]time.Duration, len(a.Recoveries))
		for i, r := range a.Recoveries {
			all[i] = r.all()
		}
		l := NewLatency(all)
		return short(l.P50) + ", " + short(l.Worst)
	})
	b.WriteByte('\n')
}

func (r *Report) faults(b *strings.Builder) {
	total := make(map[string]Count)
	for _, a := range r.Acts {
		for name, n := range a.Faults {
			total[name] = Count{total[name].Injected + n.Injected, total[name].Missed + n.Missed}
		}
	}
	b.WriteString("| fault | injected | missed, another in the way |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(b, "| %s | %d | %d |\n", name, total[name].Injected, total[name].Missed)
	}
	b.WriteByte('\n')
}

// recoveries shows those that took longer than they should.
func (r *Report) recoveries(b *strings.Builder) {
	var slow []string
	all := 0
	for _, a := range r.Acts {
		byLength := slices.Clone(a.Recoveries)
		slices.SortFunc(byLength, func(x, y Recovery) int { return cmp.Compare(y.all(), x.all()) })
		for _, rec := range byLength {
			all++
			if rec.all() > RecoveryLimit {
				slow = append(slow, fmt.Sprintf("- %s: an acquire after %s, a renewal after %s, after %s\n", a.Topology, short(rec.Acquire), short(rec.Renewal), rec.After))
			}
		}
	}
	fmt.Fprintf(b, "Locks worked again within %v after %d of %d rounds.", RecoveryLimit, all-len(slow), all)
	if len(slow) > 0 {
		b.WriteString(" The others:\n\n")
	}
	for _, line := range slow {
		b.WriteString(line)
	}
	b.WriteByte('\n')
}

func (r Recovery) all() time.Duration { return max(r.Acquire, r.Renewal, 0) }

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
