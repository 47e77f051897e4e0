// Command torture breaks Redis, its networks and its clients in many ways while processes run random programs (package
// together), and checks what callers were told: holds that overlap, losses that were not reported, calls that hang, errors that
// no function documents.
//
//	go run ./internal/torture                         two minutes, a random seed
//	go run ./internal/torture -duration 30m -seed 7   that seed's faults, in their order
//	go run ./internal/torture -names 2000             so many names, and goroutines, in every second process
//
// It starts its own servers and processes, shows progress, and prints a report. It exits with 1 after a violation; then the
// history is kept.
//
//	plan       when faults begin and end: a function of the seed
//	fault      the faults of servers and of processes; a process has those of its networks
//	stage      the servers, the processes
//	worker     a process
//	probe      how soon locks work again
//	report     the results
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/internal/torture/fault"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

func main() {
	worker.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	violations := 0
	if err == nil {
		violations, err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	seed       uint64
	duration   time.Duration
	topologies []stage.Topology
	faults     []string // all, if empty
	processes  int
	wideNames  int // of a wide process, besides
	lease      time.Duration
	out        string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	var topologies, faults string
	flags.Uint64Var(&o.seed, "seed", 0, "of the plan of faults; 0 chooses one")
	flags.DurationVar(&o.duration, "duration", 2*time.Minute, "of all together")
	flags.StringVar(&topologies, "topology", "", "comma-separated; default: all of "+strings.Join(names(stage.Topologies()), ","))
	flags.StringVar(&faults, "faults", "", "comma-separated; default: all of "+fault.Names())
	flags.IntVar(&o.processes, "processes", 4, "that lock")
	flags.IntVar(&o.wideNames, "names", 1500, "that every second process wants besides, with so many goroutines more: at most 10 000")
	flags.DurationVar(&o.lease, "lease", 1500*time.Millisecond, "of the clients")
	flags.StringVar(&o.out, "out", "", "folder for torture.md and the history of failures; default: a new one")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("torture: unknown argument %q: see -help", flags.Arg(0))
	}
	if o.processes < 1 {
		return o, errors.New("torture: -processes must be at least 1")
	}
	if o.wideNames < 0 || o.wideNames > 10_000 {
		return o, errors.New("torture: -names must be between 0 and 10 000")
	}
	if o.faults, err = fault.Parse(faults); err != nil {
		return o, err
	}
	o.topologies = stage.Topologies()
	if topologies != "" {
		o.topologies = nil
		for name := range strings.SplitSeq(topologies, ",") {
			t, err := stage.ParseTopology(name)
			if err != nil {
				return o, err
			}
			o.topologies = append(o.topologies, t)
		}
	}
	for _, t := range o.topologies {
		if len(fault.For(t, o.faults...)) == 0 {
			return o, fmt.Errorf("torture: none of these faults is for the topology %s: leave it out of -topology", t)
		}
	}
	for o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	return o, nil
}

// args are the arguments that repeat a run with the same plan.
func (o options) args() []string {
	args := strings.Fields(fmt.Sprintf("-seed %d -duration %v -processes %d -names %d -lease %v", o.seed, o.duration, o.processes, o.wideNames, o.lease))
	if len(o.topologies) < len(stage.Topologies()) {
		args = append(args, "-topology", strings.Join(names(o.topologies), ","))
	}
	if len(o.faults) > 0 {
		args = append(args, "-faults", strings.Join(o.faults, ","))
	}
	return args
}

func names[T ~string](all []T) []string {
	list := make([]string, len(all))
	for i, x := range all {
		list[i] = string(x)
	}
	return list
}
