// Command bench measures distributed locks side by side: this library, its peers, older
// designs, and the floor, a lower bound.
//
//	cd bench && go run .            everything, in less than fifteen minutes
//	cd bench && go run . -quick     a look, in under two
//
// It starts its own redis-server and the processes that it needs, shows progress,
// prints tables, and writes results/: results.md, results.json and plots.
//
// Contenders are interleaved: each is measured once at a setting before any is
// measured there again, in an order that changes, since machines drift.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/report"
	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
)

func main() {
	worker.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, options)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	addr       string
	out        string
	size       scenario.Size
	scenarios  []scenario.Scenario
	contenders []contender.Contender
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var scenarios, contenders, networks string
	flags.StringVar(&o.addr, "addr", "", "host:port of a Redis to use; default: start a redis-server")
	flags.StringVar(&o.out, "out", "results", "folder for results.md, results.json and the plots")
	flags.BoolVar(&o.size.Quick, "quick", false, "fewer settings and shorter measurements")
	flags.StringVar(&scenarios, "run", "", "scenarios, comma-separated; default: "+names(scenario.All(), func(s scenario.Scenario) string { return s.Name }))
	flags.StringVar(&contenders, "contenders", "", "contenders, comma-separated; default: "+names(contender.All(), func(c contender.Contender) string { return c.Name }))
	flags.StringVar(&networks, "net", "", "networks for every setting, comma-separated, of "+
		names(scenario.Networks(), func(n scenario.Network) string { return n.Name })+"; default: what each scenario chooses")
	flags.Float64Var(&o.size.Scale, "scale", 1, "multiplies the length of all measurements but hold's")
	flags.DurationVar(&o.size.Hold, "hold", 0, "how long the scenario hold holds 100 000 locks (default 20s, 2s with -quick)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("bench: unknown argument %q: see -help", flags.Arg(0))
	}
	if o.scenarios, err = scenario.Select(scenarios); err != nil {
		return o, err
	}
	o.contenders = contender.All()
	if contenders != "" {
		o.contenders = nil
		for name := range strings.SplitSeq(contenders, ",") {
			c, err := contender.Find(name)
			if err != nil {
				return o, err
			}
			o.contenders = append(o.contenders, c)
		}
	}
	if networks != "" {
		for name := range strings.SplitSeq(networks, ",") {
			all := scenario.Networks()
			i := slices.IndexFunc(all, func(n scenario.Network) bool { return n.Name == name })
			if i < 0 {
				return o, fmt.Errorf("bench: no network is called %q", name)
			}
			o.size.Networks = append(o.size.Networks, all[i])
		}
	}
	return o, nil
}

func names[T any](all []T, name func(T) string) string {
	list := make([]string, len(all))
	for i, x := range all {
		list[i] = name(x)
	}
	return strings.Join(list, ",")
}

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
