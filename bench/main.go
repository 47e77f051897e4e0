// Command bench measures distributed locks side by side: this library, its peers, and the floor, a
// lower bound.
//
//	cd bench && go run .            everything, in less than fifteen minutes
//	cd bench && go run . -quick     a look, in under two
//	cd bench && go run . -beside 50 uncontended locks in one process, in turns
//
// It starts its own redis-server and the processes that it needs, shows progress, prints tables, and
// writes results/: results.md and plots.
//
// Contenders are interleaved: each is measured once at a setting before any is measured there again,
// in an order that changes, since machines drift.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	asRole()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	switch {
	case err != nil:
	case o.rounds > 0:
		err = beside(ctx, o, os.Stdout)
	default:
		err = run(ctx, o)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	addr, out  string
	quick      bool
	scale      float64
	hold       time.Duration
	networks   []distance
	scenarios  []scenario
	contenders []contender
	rounds     int // beside
	goroutines int
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.addr, "addr", "", "host:port of a Redis to use; default: start a redis-server")
	flags.StringVar(&o.out, "out", "results", "folder for results.md and the plots")
	flags.BoolVar(&o.quick, "quick", false, "fewer settings and rounds")
	flags.Float64Var(&o.scale, "scale", 1, "multiplies the length of all measurements but hold's")
	flags.DurationVar(&o.hold, "hold", 0, "how long the scenario hold holds 100 000 locks; default 20s")
	flags.IntVar(&o.rounds, "beside", 0, "compare uncontended locks in this process instead, in so many rounds of blocks that take turns")
	flags.IntVar(&o.goroutines, "goroutines", 1, "with -beside, how many there are, each with a lock of its own")
	o.scenarios = slices.DeleteFunc(scenarios(), func(s scenario) bool { return s.apart })
	o.contenders = contenders()
	some(flags, "run", "scenario", scenarios(), &o.scenarios)
	some(flags, "contenders", "contender", append(contenders(), broken()), &o.contenders)
	some(flags, "net", "network", distances, &o.networks)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("bench: unknown argument %q: see -help", flags.Arg(0))
	}
	return o, nil
}

// some defines a flag for some of all.
func some[T fmt.Stringer](flags *flag.FlagSet, name, what string, all []T, to *[]T) {
	flags.Func(name, "comma-separated, of "+names(all), func(list string) (err error) {
		*to, err = named(what, list, all)
		return err
	})
}

// run measures, prints and writes. When ctx ends it stops after the current measurement, and reports
// the results so far.
func run(ctx context.Context, o options) error {
	began := time.Now()
	a, err := openArena(ctx, o.addr)
	if err != nil {
		return err
	}
	defer a.close()
	results, schedule := plan(o)
	for i, r := range schedule {
		if ctx.Err() != nil {
			break
		}
		a.measure(context.WithoutCancel(ctx), r)
		fmt.Fprintf(os.Stderr, "[%d/%d] %s, %s, %s: %s: %.0f a second, faults: %s\n", i+1, len(schedule),
			r.scenario, r.cell.setting, r.cell.network, r.contender, r.rate(), r.faults())
	}
	return report(o.out, results, a, time.Since(began), ctx.Err() == nil)
}

// plan returns the results in their order, without figures, and the rounds in theirs.
func plan(o options) (results, schedule []*result) {
	for _, s := range o.scenarios {
		for _, cell := range s.fit(o) {
			var row []*result
			for _, c := range o.contenders {
				if !s.compares(c) {
					continue
				}
				r := &result{scenario: s, cell: cell, contender: c, skipped: s.refuses(c)}
				results = append(results, r)
				if r.skipped == "" {
					row = append(row, r)
				}
			}
			for round := range cell.rounds {
				for i := range row { // not always after the same one
					schedule = append(schedule, row[(i+round*(len(row)/2+1))%len(row)])
				}
			}
		}
	}
	return results, schedule
}
