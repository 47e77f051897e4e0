package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/scenario"
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
