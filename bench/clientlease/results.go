package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/clientlease/cost"
	"github.com/go-rlock/rlock/bench/clientlease/simulation"
	"github.com/go-rlock/rlock/bench/report"
)

// The fleet of issue and paper.
const (
	clients  = 1000
	servers  = 50
	lease    = 30 * time.Second
	backstop = time.Hour
	crashed  = 10_000 // locks of a client that crashes, and 100 000
)

// designs in the order of the tables.
var designs = []simulation.Design{simulation.Alone, simulation.Batch, simulation.Pairs, simulation.Fields, simulation.Client}

// Results are all that is written.
type results struct {
	costs   cost.Table
	fleets  []steady
	crashes []death
}

type steady struct {
	simulation.Fleet
	loads map[simulation.Design]simulation.Load
}

type death struct {
	simulation.Crash
	simulation.Recovery
}

func simulate(costs cost.Table, largest int, seed uint64) results {
	r := results{costs: costs}
	for _, cluster := range []bool{false, true} {
		for locks := 100_000; locks <= largest; locks *= 10 {
			f := simulation.Fleet{Locks: locks, Clients: clients, Servers: servers, Cluster: cluster, Lease: lease, Backstop: backstop, Seed: seed}
			r.fleets = append(r.fleets, steady{f, f.Steady(costs)})
		}
	}
	for _, locks := range []int{crashed, 10 * crashed} {
		for _, c := range []simulation.Crash{
			{Design: simulation.Batch, Take: costs.Acquire},
			{Design: simulation.Client, Take: costs.Take},
			{Design: simulation.Client, Take: costs.Take, Cluster: true},
		} {
			c.Locks, c.Servers, c.Lease, c.Backstop, c.Seed = locks, servers, lease, backstop, seed
			c.Waiting, c.Wanted, c.Mean = 0.1, 0.5, 10*time.Minute
			r.crashes = append(r.crashes, death{c, c.Run()})
		}
	}
	return r
}

// write writes costs.json, results.md and the pictures.
func write(folder string, r results) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	costs, err := json.MarshalIndent(r.costs, "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "costs.json"), append(costs, '\n'), 0o644),
		os.WriteFile(filepath.Join(folder, "results.md"), []byte(r.markdown()), 0o644),
		r.draw(folder),
	)
}

func (r results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Client leases: costs and simulation\n\nBy `cd bench && go run ./clientlease`; `docs/client-leases.md` says what it means.\n\n")
	fmt.Fprintf(&b, "## Costs\n\nMeasured with %s: CPU time of the server for one lock, in pipelines of 1 000 commands.\n\n| | |\n| --- | --- |\n", r.costs.Server)
	for _, row := range r.costs.Rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	fmt.Fprintf(&b, "\n## While all is well\n\n%s clients, %d servers, leases of %v, a backstop of %v.\n", number(clients), servers, lease, backstop)
	for _, cluster := range []bool{false, true} {
		fmt.Fprintf(&b, "\n### %s\n\n| held locks | design | commands a second | renewals a second | Redis, a core of each server | memory of all | client leases |\n| --- | --- | --- | --- | --- | --- | --- |\n",
			simulation.Fleet{Servers: servers, Cluster: cluster})
		for _, s := range r.fleets {
			for _, d := range designs {
				l, measured := s.loads[d]
				if s.Cluster != cluster || !measured {
					continue
				}
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
					number(float64(s.Locks)), d, number(l.Commands), number(l.Renewals), percent(l.ServerCPU), bytes(l.Bytes), number(float64(l.Leases)))
			}
		}
	}
	b.WriteString("\n## A client crashes\n\nA tenth of its locks have a waiter; half of the others are asked for, on average after ten minutes.\n\n" +
		"| locks | | free from | half of them | all | the last waiter has its lock | most grants of a server in 10 ms | Redis in all | commands more | keys left after 1 min, 10 min, 30 min, 1 h |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, d := range r.crashes {
		var left []string
		for _, mark := range simulation.Marks {
			left = append(left, number(float64(d.Garbage[mark])))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %d | %s | %s | %s |\n", number(float64(d.Locks)), d.name(), seconds(d.FirstFree), seconds(d.MedianFree),
			seconds(d.LastFree), seconds(d.LastTaken), d.Burst, d.Busy.Round(time.Millisecond), number(float64(d.Extra)), strings.Join(left, ", "))
	}
	return b.String()
}

func (d death) name() string {
	switch {
	case d.Design != simulation.Client:
		return "leases of locks (rlock)"
	case d.Cluster:
		return "client leases, a Cluster"
	}
	return "client leases, servers"
}

// shown is how many held locks the titles and the bars are of.
const shown = 10_000_000

// draw draws the commands a second by the number of locks, and Redis' CPU for the locks that
// are shown; nothing if those were not simulated.
func (r results) draw(folder string) error {
	at := make(map[bool]map[simulation.Design]simulation.Load) // by whether it is a Cluster
	for _, s := range r.fleets {
		if s.Locks == shown {
			at[s.Cluster] = s.loads
		}
	}
	if len(at) < 2 {
		return nil
	}
	const alone, batch, pairs, client = simulation.Alone, simulation.Batch, simulation.Pairs, simulation.Client
	const setting = "1 000 clients, 50 servers, lease 30 s, backstop 1 h"
	commands := func(cluster bool, d simulation.Design) string { return number(at[cluster][d].Commands) }
	percent := func(cluster bool, d simulation.Design) float64 { return 100 * at[cluster][d].ServerCPU }
	return errors.Join(
		report.Lines(filepath.Join(folder, "commands.svg"), fmt.Sprintf(
			"10 million held locks, commands a second: rlock %s, client leases %s\n(in a Cluster %s and %s; %s)",
			commands(false, batch), commands(false, client), commands(true, batch), commands(true, client), setting),
			"held locks", []report.Line{
				r.line("one by one", false, alone),
				r.line("Cluster: batches of 32 (rlock), and client leases", true, client), // which send as many
				r.line("servers: batches of 32 (rlock)", false, batch),
				r.line("servers: client leases", false, client),
			}),
		report.Bars(filepath.Join(folder, "redis.svg"), fmt.Sprintf(
			"10 million held locks: rlock %.2g %% of a core of each server, client leases %.2g %%; in a Cluster %.2g and %.2g %%\n%s",
			percent(false, batch), percent(false, client), percent(true, batch), percent(true, client), setting),
			"% of a core", []report.Bar{
				{Name: "one by one", Value: percent(false, alone), Colour: report.Grey},
				{Name: "two plain commands", Value: percent(false, pairs), Colour: report.Grey},
				{Name: "Cluster: rlock", Value: percent(true, batch), Colour: report.Grey},
				{Name: "Cluster: client leases", Value: percent(true, client)},
				{Name: "servers: rlock", Value: percent(false, batch), Colour: report.Grey},
				{Name: "servers: client leases", Value: percent(false, client)},
			}),
	)
}

// line returns the commands a second of one design.
func (r results) line(name string, cluster bool, d simulation.Design) report.Line {
	line := report.Line{Name: name}
	for _, s := range r.fleets {
		if s.Cluster == cluster {
			line.Points = append(line.Points, [2]float64{float64(s.Locks), s.loads[d].Commands})
		}
	}
	return line
}
