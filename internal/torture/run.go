package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/together"
	"github.com/go-rlock/rlock/internal/torture/fault"
	"github.com/go-rlock/rlock/internal/torture/plan"
	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

const (
	// longestAct is how long a server is kept: its history has to fit into memory.
	longestAct = 2 * time.Minute
	// closing is the time that the end of an act takes.
	closing = 12 * time.Second
)

// run goes through the topologies, an act each, until the time is over, and returns the
// number of violations.
func run(ctx context.Context, o options) (violations int, err error) {
	if err := o.makeOut(); err != nil {
		return 0, err
	}
	began := time.Now()
	r := &report.Report{Seed: o.seed, Command: "go run ./internal/torture " + strings.Join(o.args(), " "), When: began, Machine: fmt.Sprintf("%d CPUs, %s", runtime.NumCPU(), runtime.Version())}
	say(began, "%s", r.Command)

	length := o.duration / time.Duration(len(o.topologies))
	for length > longestAct {
		length /= 2
	}
	rounds := make(map[stage.Topology]int) // rounds that it has had
	for n := 0; ctx.Err() == nil && (n < len(o.topologies) || time.Since(began) < o.duration-length/2); n++ {
		topology := o.topologies[n%len(o.topologies)]
		a := &act{
			options: o, number: n, began: began,
			until: began.Add(time.Duration(n+1)*length - closing),
			first: rounds[topology],
			plan: plan.Plan{
				Seed: o.seed, Topology: topology, Kinds: fault.For(topology, o.faults...),
				Scene: fault.Scene{Workers: o.processes, Names: together.Names, Lease: o.lease},
			},
			report: &report.Act{Topology: string(topology), Faults: make(map[string]report.Count), Excused: make(map[string][]time.Duration)},
		}
		r.Acts = append(r.Acts, a.report)
		if err := a.play(ctx); err != nil {
			return 0, fmt.Errorf("torture: act %d, %s: %w", n, topology, err)
		}
		rounds[topology] += a.report.Rounds
	}
	r.Complete = ctx.Err() == nil
	r.Took = time.Since(began)
	fmt.Println(r.Markdown())
	if err := r.Write(o.out); err != nil {
		return 0, err
	}
	say(began, "written to %s", o.out)
	return r.Violations(), nil
}

// makeOut makes the folder of the output, a new one if none is given.
func (o *options) makeOut() (err error) {
	if o.out == "" {
		o.out, err = os.MkdirTemp("", "torture")
	} else if o.out, err = filepath.Abs(o.out); err == nil { // the servers have other working directories
		err = os.MkdirAll(o.out, 0o755)
	}
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	return nil
}

// wide returns how many names a process wants besides: every second process is wide.
func (o options) wide(number int) int {
	if number%2 == 0 {
		return o.wideNames
	}
	return 0
}

// say shows progress.
func say(began time.Time, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}
