package main

import (
	"fmt"
	"image/color"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/report"
)

// part is the share of the acknowledged writes that are lost.
func (r result) part() float64 {
	if r.Writes == 0 {
		return 0
	}
	return 100 * r.LostUpdates / float64(r.Writes)
}

// table is the results in Markdown.
func table(results []result, lease time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The guarded set

Made by `+"`cd bench && go run ./guardedset -lease %v`"+`: %d processes increment one value under a lock of that lease, with
40 ms between the read and the write. Of each form the process that has the lock is stopped for one to two leases, cut
off for as long, or killed, and Redis loses the lock in a failover. Lost updates are acknowledged writes less the value.
Redisson was not run: its workers would need a program in Java.

| library | form | acknowledged writes | lost updates | stale writes | rejected | writes a second | stops, cuts, kills, failovers |
|---|---|---:|---:|---:|---:|---:|---|
`, lease, workers)
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %d | %.0f (%.1f %%) | %d | %d | %.1f | %d, %d, %d, %d |\n",
			r.Library, r.Form, r.Writes, r.LostUpdates, r.part(), r.Stale, r.Rejected, r.PerSecond, r.Stops, r.Cuts, r.Kills, r.Failovers)
	}
	return b.String()
}

// draw draws the lost updates.
func draw(results []result, path string) error {
	var bars []report.Bar
	for _, r := range results {
		colour := report.Grey
		if r.Library == "rlock" {
			colour = color.RGBA{} // the first of the palette
		}
		bars = append(bars, report.Bar{Name: r.Library + ", " + r.Form, Value: r.part(), Colour: colour})
	}
	return report.Bars(path, "Lost updates of a value under a lock, with processes that are stopped, cut off and killed", "% of the acknowledged writes", bars)
}
