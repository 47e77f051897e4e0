package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/fleet/cost"
	"github.com/go-rlock/rlock/bench/fleet/sim"
	"github.com/go-rlock/rlock/bench/report"
)

// A column is one figure of a row.
type column struct {
	title string
	value func(*sim.Result) string
}

var (
	clients  = column{"clients", func(r *sim.Result) string { return count(r.Fleet.Clients) }}
	names    = column{"names", func(r *sim.Result) string { return count(max(r.Fleet.Names, 1)) }}
	shards   = column{"servers", func(r *sim.Result) string { return count(len(r.Shards)) }}
	rate     = column{"sections a second", func(r *sim.Result) string { return short(r.Rate()) }}
	p50      = column{"wait p50", func(r *sim.Result) string { return took(r.Quantile(50)) }}
	p99      = column{"p99", func(r *sim.Result) string { return took(r.Quantile(99)) }}
	commands = column{"commands a section", func(r *sim.Result) string { return short(r.Each()) }}
	busy     = column{"Redis busy, the busiest server", func(r *sim.Result) string { return percent(r.Fullest()) }}
	backlog  = column{"longest backlog", func(r *sim.Result) string { return took(r.Backlog()) }}
	waiting  = column{"clients that wait at the end", func(r *sim.Result) string { return count(r.Waiting) }}
	idle     = column{"the lock is not used", func(r *sim.Result) string { return percent(r.Idle()) }}
	losses   = column{"holds lost", func(r *sim.Result) string { return count(r.Losses) }}
	overlaps = column{"overlaps", func(r *sim.Result) string { return count(r.Overlaps) }}
	claim    = column{"claim", func(r *sim.Result) string { return took(r.Fleet.Claim) }}
	looks    = column{"looks every", func(r *sim.Result) string { return took(r.Fleet.Look) }}

	perSecond = column{"sections in the 4th to 10th second", func(r *sim.Result) string {
		var all []string
		for i := 3; i < 10; i++ {
			n := 0
			if i < len(r.PerSecond) {
				n = r.PerSecond[i]
			}
			all = append(all, count(n))
		}
		return strings.Join(all, ", ")
	}}
)

// A done is a table with the results of its rows.
type done struct {
	table
	results []*sim.Result
}

// simulate runs all tables, until ctx ends.
func simulate(ctx context.Context, all []table, progress func(string)) (out []done, err error) {
	for _, t := range all {
		d := done{table: t}
		for i := range t.rows {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			began := time.Now()
			r := t.rows[i].Run()
			d.results = append(d.results, r)
			progress(fmt.Sprintf("%s: %s, %s clients: %s a second (%s events in %s)", t.name, t.rows[i].name, count(t.rows[i].Clients), short(r.Rate()), count(r.Events), time.Since(began).Round(time.Millisecond)))
		}
		out = append(out, d)
	}
	return out, nil
}

// index returns results.md: the list of pages, and the costs.
func index(costs cost.Table, seed uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Fleets, simulated\n\nBy `cd bench && go run ./fleet`, seed %d: the code of `internal/core`, with a model of Redis and of the network (`bench/fleet/sim`). "+
		"The same seed and costs give the same files. `docs/benchmarks.md` says what they mean, and [beside.md](beside.md) how near they are to real fleets.\n\n", seed)
	for _, t := range tables(costs, seed, false) {
		fmt.Fprintf(&b, "- [%s](%s.md)\n", t.name, t.file)
	}
	fmt.Fprintf(&b, "\n![Sections a second by the number of clients](one-name.svg)\n\n![Sections a second by the length of the claim](claim.svg)\n\n## Costs\n\n"+
		"By `go run ./fleet -calibrate`: %s on %s, %s. Processor time of Redis' main thread for one command, in pipelines of 1 000; "+
		"the least of seven rounds. Each command costs %s more to read and to answer when it comes alone on its connection.\n\n| | |\n| --- | --- |\n", costs.Server, costs.Machine, costs.When, micros(costs.Command))
	for _, c := range costs.Rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", c.Name, micros(c.Cost))
	}
	return b.String()
}

// markdown returns a table.
func (d *done) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n|  |", d.name, d.asks)
	sizes := !slices.ContainsFunc(d.columns, func(c column) bool { return c.title == clients.title })
	if sizes {
		b.WriteString(" clients |")
	}
	for _, c := range d.columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(d.columns)))
	if sizes {
		b.WriteString(" --- |")
	}
	b.WriteString("\n")
	for i, r := range d.results {
		fmt.Fprintf(&b, "| %s |", d.rows[i].name)
		if sizes {
			fmt.Fprintf(&b, " %s |", count(r.Fleet.Clients))
		}
		for _, c := range d.columns {
			fmt.Fprintf(&b, " %s |", c.value(r))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// inClaimPicture are the rows that differ most.
var inClaimPicture = []string{
	"2000 x 1", "2000 x 1; a look each half claim", "64 x 1, 1 s every minute", "64 x 1, 5 s every ten minutes",
	"512 x 1, 5 s every ten minutes", "512 x 1, 5 s every ten minutes; a look each half claim",
}

// draw draws the picture of a table that has one.
func (d *done) draw(folder string) error {
	path := filepath.Join(folder, d.file+".svg")
	switch d.file {
	case "one-name":
		return report.Lines(path, "One name, 1 ms sections, 0.5 ms away: sections a second", "clients", d.lines(func(r *sim.Result) (x, y float64) {
			return float64(r.Fleet.Clients), r.Rate()
		}))
	case "claim":
		all := d.lines(func(r *sim.Result) (x, y float64) { return r.Fleet.Claim.Seconds() * 1e3, r.Rate() })
		return report.Lines(path, "Sections a second by the length of the claim, which is two seconds today", "claim, ms", slices.DeleteFunc(all, func(l report.Line) bool {
			return !slices.Contains(inClaimPicture, l.Name)
		}))
	}
	return nil
}

func (d *done) lines(at func(*sim.Result) (x, y float64)) (all []report.Line) {
	for i, r := range d.results {
		x, y := at(r)
		n := slices.IndexFunc(all, func(l report.Line) bool { return l.Name == d.rows[i].name })
		if n < 0 {
			n = len(all)
			all = append(all, report.Line{Name: d.rows[i].name})
		}
		if y > 0 {
			all[n].Points = append(all[n].Points, [2]float64{x, y})
		}
	}
	return slices.DeleteFunc(all, func(l report.Line) bool { return len(l.Points) == 0 })
}

// write writes a file for each table, and its picture.
func write(folder string, all []done) (err error) {
	for i := range all {
		d := &all[i]
		err = errors.Join(err, d.draw(folder), os.WriteFile(filepath.Join(folder, d.file+".md"), []byte(d.markdown()), 0o644))
	}
	return err
}

func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// short writes a figure with three digits.
func short(x float64) string {
	switch {
	case x >= 1000:
		return count(int(x + 0.5))
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + " %" }

func micros(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1e6, 'f', 1, 64) + " µs" }

// took writes a time with three digits.
func took(d time.Duration) string {
	unit := time.Duration(1)
	for unit*1000 <= d {
		unit *= 10
	}
	return d.Round(unit).String()
}
