package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/report"
	"github.com/go-rlock/rlock/bench/scenario"
)

// run measures, prints and writes. When ctx ends it stops after the current measurement, and
// reports the results so far.
func run(ctx context.Context, o options) error {
	began := time.Now()
	a, err := arena.Open(ctx, o.addr)
	if err != nil {
		return err
	}
	defer a.Close()

	r := &report.Report{Machine: report.Machine{
		When: began, Go: runtime.Version(), Redis: a.Version,
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: processor(), CPUs: runtime.NumCPU(),
	}}
	schedule := plan(o, r)
	for i, m := range schedule {
		if ctx.Err() != nil {
			break
		}
		// An error is kept in the result, and the run goes on.
		_ = a.Measure(context.WithoutCancel(ctx), m.cell, m.contender, m.result)
		fmt.Fprintf(os.Stderr, "[%d/%d] %s, %s, %s: %s: %.0f a second, faults: %s\n", i+1, len(schedule),
			m.result.Scenario, m.result.Setting, m.result.Network, m.contender.Name, m.result.Rate(), report.Faults(m.result))
	}
	r.Complete = ctx.Err() == nil
	r.Took = time.Since(began)
	r.RoundTrips = a.RoundTrips()

	fmt.Println(r.Markdown(nil))
	return r.Write(o.out)
}

// A measurement is one round of one contender in one cell.
type measurement struct {
	cell      scenario.Cell
	contender contender.Contender
	result    *arena.Result
}

// plan returns the measurements in their order, and makes the results, in
// theirs.
func plan(o options, r *report.Report) (schedule []measurement) {
	for _, s := range o.scenarios {
		for _, cell := range s.Cells(o.size) {
			var row []measurement
			for _, c := range o.contenders {
				if !s.Compares(c) {
					continue
				}
				result := arena.NewResult(cell, c)
				r.Results = append(r.Results, result)
				if result.Skipped = cmp.Or(s.Refuses(c), c.Absent()); result.Skipped == "" {
					row = append(row, measurement{cell, c, result})
				}
			}
			for round := range cell.Rounds {
				for i := range row {
					// Not always after the same one.
					schedule = append(schedule, row[(i+round*(len(row)/2+1))%len(row)])
				}
			}
		}
	}
	return schedule
}

// processor returns Linux's name of the CPU.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown CPU"
}
