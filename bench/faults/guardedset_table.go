package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/report"
)

// lost is the share of the resource's writes that another holder has overwritten.
func (r result) lost() float64 { return share(r.LostUpdates, r.Kept) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// A table has a row for each result of a scenario.
type table struct {
	scenario string
	title    string
	about    string
	columns  []column
}

type column struct {
	head string
	cell func(result) string
}

var (
	writes    = column{"acknowledged writes", func(r result) string { return fmt.Sprint(r.Writes) }}
	gone      = column{"lost with a primary", func(r result) string { return fmt.Sprint(r.Gone) }}
	lost      = column{"lost updates", func(r result) string { return fmt.Sprintf("%d (%.1f %%)", r.LostUpdates, r.lost()) }}
	stale     = column{"stale writes", func(r result) string { return fmt.Sprint(r.Stale) }}
	rejected  = column{"rejected", func(r result) string { return fmt.Sprint(r.Rejected) }}
	calm      = column{"writes a second before", func(r result) string { return fmt.Sprintf("%.1f", r.Calm) }}
	perSecond = column{"and under the faults", func(r result) string { return fmt.Sprintf("%.1f", r.PerSecond) }}
	gap       = column{"longest time without a write", func(r result) string { return fmt.Sprintf("%.1f s", r.LongestGap) }}
)

// count is a column with the number of faults.
func count(fault string) column {
	return column{fault, func(r result) string { return fmt.Sprint(r.Faults[fault]) }}
}

var tables = []table{
	{holders, "Holders that are stopped, cut off and killed", `
The process that has the lock is stopped for one to two leases, cut off from Redis for as long, or killed.
`, []column{writes, lost, stale, rejected, calm, perSecond, count("stops"), count("cuts"), count("kills")}},
	{waiters, "Waiters that are stopped", `
A process that has not the lock is stopped for one to two leases: what that costs the others.
`, []column{calm, perSecond, gap, lost, count("stops")}},
	{failovers, "Failovers", `
Redis is a primary with two replicas and three sentinels. The primary is stopped until a replica is in its place, and then
takes the writes of clients that have not heard, until the sentinels demote it; the next one is killed. No worker is
stopped. *Lost with a primary* are acknowledged writes that the resource does not have: replication is asynchronous. They
can only be where the writes are guarded, which are in the lock's Redis; elsewhere the resource is a Redis that no fault
meets. *Lost updates* are writes at the resource that another holder has overwritten: two processes had the lock.
`, []column{writes, gone, lost, stale, rejected, calm, perSecond, gap, count("stops of the primary"), count("kills of the primary")}},
}

// text is the results in Markdown.
func text(results []result, lease time.Duration, absent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The guarded set\n\nMade by `cd bench && go run ./faults guardedset -lease %v`: %d processes increment one value under a lock of that lease,\n"+
		"with %v between the read and the write. Lost updates are the writes at the resource less the value.\n", lease, workers, think)
	if absent != "" {
		fmt.Fprintf(&b, "\nLeft out: %s.\n", absent)
	}
	for _, t := range tables {
		t.write(&b, results)
	}
	return b.String()
}

func (t table) write(b *strings.Builder, results []result) {
	if !slices.ContainsFunc(results, func(r result) bool { return r.Scenario == t.scenario }) {
		return
	}
	fmt.Fprintf(b, "\n## %s\n%s\n| library | form |", t.title, t.about)
	for _, c := range t.columns {
		fmt.Fprintf(b, " %s |", c.head)
	}
	fmt.Fprintf(b, "\n|---|---|%s\n", strings.Repeat("---:|", len(t.columns)))
	for _, r := range results {
		if r.Scenario != t.scenario {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", r.Library, r.Form)
		for _, c := range t.columns {
			fmt.Fprintf(b, " %s |", c.cell(r))
		}
		b.WriteByte('\n')
	}
}

// draw draws the lost updates of the first scenario.
func draw(results []result, folder string) error {
	bars := make(map[string][]float64)
	for _, r := range results {
		if r.Scenario == holders {
			bars[r.Library+", "+r.Form] = []float64{r.lost()}
		}
	}
	if len(bars) == 0 {
		return nil
	}
	return report.Bars(filepath.Join(folder, "guardedset.svg"),
		"Lost updates of a value under a lock, with processes that are stopped, cut off and killed", "% of the writes", []string{""}, bars)
}
