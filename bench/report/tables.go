package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
)

// Markdown returns the whole report, with the plots, which are file names.
func (r *Report) Markdown(plots []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\nMeasured %s in %s: %s, %d CPUs, %s/%s, %s, Redis %s. Everything ran on this one machine, interleaved: within a row of tables "+
		"figures may be compared, with other machines' they may not.\n\n",
		r.Machine.When.Format("2 January 2006"), r.Took.Round(time.Second), r.Machine.CPU, r.Machine.CPUs, r.Machine.OS, r.Machine.Arch, r.Machine.Go, r.Machine.Redis)
	if !r.Complete {
		b.WriteString("**The run was ended early: some measurements are missing.**\n\n")
	}
	if faulty := r.faulty(); len(faulty) > 0 {
		fmt.Fprintf(&b, "## Failures\n\nOverlaps are locks that did not exclude; a waiter that was never woken still waited though no client "+
			"had entered for a second. docs/peers.md has the known faults of each peer.\n\n%s\n", strings.Join(faulty, ""))
	}
	for _, plot := range plots {
		fmt.Fprintf(&b, "![%s](%s)\n\n", strings.TrimSuffix(plot, ".svg"), plot)
	}
	for _, s := range r.scenarios() {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", s.Title, s.Asks)
		for _, cell := range r.cells(s.Name) {
			fmt.Fprintf(&b, "### %s, %s\n\n%s\n\n%s\n", cell.Setting, r.distance(cell.Network), r.table(s, cell).RenderMarkdown(), r.absent(cell))
		}
	}
	b.WriteString("## The contenders\n\n")
	contenders := table.NewWriter()
	contenders.AppendHeader(table.Row{"", "how", "waits by"})
	for _, c := range contender.All() {
		contenders.AppendRow(table.Row{c.Name, c.About, cmp.Or(c.Wakes, "does not wait")})
	}
	b.WriteString(contenders.RenderMarkdown() + "\n")
	return b.String()
}

// scenarios returns those that have results, in order.
func (r *Report) scenarios() (with []scenario.Scenario) {
	for _, s := range scenario.All() {
		if slices.ContainsFunc(r.Results, func(res *arena.Result) bool { return res.Scenario == s.Name }) {
			with = append(with, s)
		}
	}
	return with
}

// cells returns the first result of each cell of a scenario, in order.
func (r *Report) cells(name string) (cells []*arena.Result) {
	for _, res := range r.Results {
		if res.Scenario == name && !slices.ContainsFunc(cells, func(c *arena.Result) bool {
			return c.Setting == res.Setting && c.Network == res.Network
		}) {
			cells = append(cells, res)
		}
	}
	return cells
}

func (r *Report) distance(network string) string {
	if measured := r.RoundTrips[network]; measured > 0 {
		return fmt.Sprintf("%s (round trip %s)", network, duration(measured))
	}
	return network
}

func (r *Report) table(s scenario.Scenario, cell *arena.Result) table.Writer {
	t := table.NewWriter()
	header := table.Row{""}
	var shown []column
	for _, name := range s.Columns {
		for _, c := range columns[name] {
			header = append(header, c.title)
			shown = append(shown, c)
		}
	}
	t.AppendHeader(header)
	for _, res := range r.of(s.Name, cell.Setting, cell.Network) {
		if res.Rounds == 0 {
			continue // it is named below the table
		}
		row := table.Row{res.Contender}
		for _, c := range shown {
			row = append(row, c.value(res))
		}
		t.AppendRow(row)
	}
	return t
}

// absent names the contenders without figures in a cell, and why, in a line for
// each reason.
func (r *Report) absent(cell *arena.Result) string {
	var reasons []string
	who := make(map[string][]string)
	for _, res := range r.of(cell.Scenario, cell.Setting, cell.Network) {
		if res.Rounds > 0 {
			continue
		}
		why := cmp.Or(res.Skipped, res.Error, "not measured: the run was ended")
		if who[why] == nil {
			reasons = append(reasons, why)
		}
		who[why] = append(who[why], res.Contender)
	}
	var b strings.Builder
	for _, why := range reasons {
		fmt.Fprintf(&b, "Not here (%s): %s.\n", why, strings.Join(who[why], ", "))
	}
	return b.String()
}

// faulty lists the results with faults, as a Markdown list.
func (r *Report) faulty() (lines []string) {
	for _, res := range r.Results {
		if what := Faults(res); what != "none" && res.Skipped == "" {
			line := fmt.Sprintf("- **%s** in %s, %s, %s: %s", res.Contender, res.Scenario, res.Setting, res.Network, what)
			if res.FirstFailure != "" {
				line += fmt.Sprintf(" (the first said: %s)", res.FirstFailure)
			}
			lines = append(lines, line+"\n")
		}
	}
	return lines
}

// A column is one figure of a result, as text.
type column struct {
	title string
	value func(*arena.Result) string
}

// columns are the figures by the names that scenarios ask for them.
var columns = map[string][]column{
	"pair":     append([]column{quarter}, percentiles("lock+unlock", func(r *arena.Result) worker.Latency { return r.Pair })...),
	"wait":     percentiles("wait", func(r *arena.Result) worker.Latency { return r.Wait }),
	"nested":   percentiles("each", func(r *arena.Result) worker.Latency { return r.Nested }),
	"handover": percentiles("hand-over", func(r *arena.Result) worker.Latency { return r.Handover }),

	"round trips": {{"p50 in round trips", func(r *arena.Result) string {
		if r.Handover.Count == 0 || r.RoundTrip == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", r.Handover.P50.Seconds()/r.RoundTrip.Seconds())
	}}},
	"rate":       {{"a second", func(r *arena.Result) string { return number(r.Rate()) }}},
	"sent":       {{"commands", func(r *arena.Result) string { return small(r.Each(float64(r.Sent))) }}},
	"client cpu": {{"client CPU", func(r *arena.Result) string { return microseconds(r.Each(r.ClientCPU.Seconds())) }}},
	"redis cpu":  {{"Redis CPU", func(r *arena.Result) string { return microseconds(r.Each(r.RedisCPU.Seconds())) }}},

	"rounds":     {{"wait p99 in rounds", func(r *arena.Result) string { return small(r.Rounds99()) }}},
	"turns":      {{"the same by sections", func(r *arena.Result) string { return small(r.Turns99()) }}},
	"redis time": {{"Redis' time", func(r *arena.Result) string { return microseconds(r.Each(r.Served.Seconds())) }}},

	"process share":   {{"process share", func(r *arena.Result) string { return small(r.ProcessShare()) }}},
	"goroutine share": {{"goroutine share", func(r *arena.Result) string { return small(r.GoroutineShare()) }}},

	"client core": {{"client CPU", func(r *arena.Result) string { return core(r.ClientCPU, r.Elapsed) }}},
	"redis core":  {{"Redis CPU", func(r *arena.Result) string { return core(r.RedisCPU, r.Elapsed) }}},
	"renewals": {{"commands a second", func(r *arena.Result) string {
		return number(float64(r.Sent) / r.Elapsed.Seconds())
	}}},
	"memory":     {{"bytes a lock", func(r *arena.Result) string { return number(r.BytesPerLock) }}},
	"goroutines": {{"goroutines", func(r *arena.Result) string { return number(float64(r.Goroutines)) }}},
	"latest":     {{"latest renewal", func(r *arena.Result) string { return small(r.Latest) }}},
	"lost":       {{"lost", func(r *arena.Result) string { return number(float64(max(r.Gone, r.LostHolds))) }}},

	"faults": {{"faults", Faults}},
}

// quarter is a percentile on which a busy machine has less influence than on the median.
var quarter = column{"lock+unlock p25", func(r *arena.Result) string {
	if r.Pair.P25 > 0 {
		return duration(r.Pair.P25)
	}
	return "-"
}}

func percentiles(what string, of func(*arena.Result) worker.Latency) []column {
	at := func(title string, q func(worker.Latency) time.Duration) column {
		return column{what + " " + title, func(r *arena.Result) string {
			if l := of(r); l.Count > 0 {
				return duration(q(l))
			}
			return "-"
		}}
	}
	return []column{
		at("p50", func(l worker.Latency) time.Duration { return l.P50 }),
		at("p99", func(l worker.Latency) time.Duration { return l.P99 }),
		at("p99.9", func(l worker.Latency) time.Duration { return l.P999 }),
	}
}

// Faults lists the failures.
func Faults(r *arena.Result) string {
	var all []string
	add := func(n int64, one, many string) {
		switch {
		case n == 1:
			all = append(all, "1 "+one)
		case n != 0:
			all = append(all, number(float64(n))+" "+many)
		}
	}
	add(r.Overlaps, "OVERLAP", "OVERLAPS")
	add(r.Stuck, "never woken", "never woken")
	add(r.Failures, "failure", "failures")
	add(r.Cut, "still waiting", "still waiting")
	add(r.KeptHolds, "not given back", "not given back")
	if r.Error != "" {
		all = append(all, "ended: "+r.Error)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// duration writes three digits.
func duration(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
		if d >= 100*unit {
			return d.Round(unit).String()
		}
		if d >= 10*unit {
			return d.Round(max(1, unit/10)).String()
		}
		if d >= unit {
			return d.Round(max(1, unit/100)).String()
		}
	}
	return "0"
}

func microseconds(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return "-"
	}
	return duration(time.Duration(seconds * float64(time.Second)))
}

// small writes two decimals.
func small(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// number writes a count with its thousands apart.
func number(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func core(used, elapsed time.Duration) string {
	if elapsed == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*used.Seconds()/elapsed.Seconds())
}
