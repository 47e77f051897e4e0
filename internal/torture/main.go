// Command torture breaks a Redis, its network and its clients in many ways while processes
// lock, and checks their histories for violations: holds that overlap, losses that were not
// reported, calls that hang.
//
//	go run ./internal/torture                         two minutes, a random seed
//	go run ./internal/torture -duration 30m -seed 7   that seed's faults, in their order
//	go run ./internal/torture -kinds rw,fair          two kinds of lock; all of them otherwise
//	go run ./internal/torture -names 2000             so many names, and goroutines, in every second process
//	go run ./internal/torture -losses untracked       Redis does not tell of keys that are gone
//
// It starts its own servers and processes, shows progress, and prints a report. It exits with
// 1 after a violation; then the history is kept.
//
//	plan       when faults begin and end: a function of the seed
//	fault      the faults
//	stage      the servers, the networks, the processes
//	worker     the work of the processes
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
	"slices"
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
	kinds      []string // of lock
	processes  int
	workers    int // goroutines of a process
	locks      int
	wideNames  int // of a wide process, besides
	lease      time.Duration
	section    time.Duration
	losses     worker.Losses
	out        string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	var topologies, faults, kinds, losses string
	flags.Uint64Var(&o.seed, "seed", 0, "of the plan of faults; 0 chooses one")
	flags.DurationVar(&o.duration, "duration", 2*time.Minute, "of all together")
	flags.StringVar(&topologies, "topology", "", "comma-separated; default: all of "+strings.Join(names(stage.Topologies()), ","))
	flags.StringVar(&faults, "faults", "", "comma-separated; default: all of "+fault.Names())
	flags.StringVar(&kinds, "kinds", "", "of lock, comma-separated; default: all of "+strings.Join(worker.Kinds, ","))
	flags.IntVar(&o.processes, "processes", 4, "that lock")
	flags.IntVar(&o.workers, "workers", 6, "goroutines of each process")
	flags.IntVar(&o.locks, "locks", 5, "that they want")
	flags.IntVar(&o.wideNames, "names", 1500, "that every second process wants besides, with so many goroutines more: at most 10 000")
	flags.DurationVar(&o.lease, "lease", 1500*time.Millisecond, "of the clients")
	flags.DurationVar(&o.section, "section", 3*time.Millisecond, "for how long most holds last at most")
	flags.StringVar(&losses, "losses", string(worker.ByDefault), "how clients learn of them, one of "+worker.LossesNames())
	flags.StringVar(&o.out, "out", "", "folder for torture.md and the history of failures; default: a new one")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("torture: unknown argument %q: see -help", flags.Arg(0))
	}
	if o.processes < 1 || o.workers < 1 || o.locks < 1 {
		return o, errors.New("torture: -processes, -workers and -locks must be at least 1")
	}
	if o.wideNames < 0 || o.wideNames > 10_000 {
		return o, errors.New("torture: -names must be between 0 and 10 000")
	}
	if o.faults, err = fault.Parse(faults); err != nil {
		return o, err
	}
	if o.kinds, err = worker.ParseKinds(kinds); err != nil {
		return o, err
	}
	if o.losses, err = worker.ParseLosses(losses); err != nil {
		return o, err
	}
	o.topologies = slices.DeleteFunc(stage.Topologies(), func(t stage.Topology) bool { return len(worker.Fit(o.kinds, t)) == 0 })
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
		if len(worker.Fit(o.kinds, t)) == 0 {
			return o, fmt.Errorf("torture: none of these kinds of lock is for the topology %s: leave it out of -topology", t)
		}
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
	args := strings.Fields(fmt.Sprintf("-seed %d -duration %v -processes %d -workers %d -locks %d -names %d -lease %v -section %v",
		o.seed, o.duration, o.processes, o.workers, o.locks, o.wideNames, o.lease, o.section))
	if o.losses != worker.ByDefault {
		args = append(args, "-losses", string(o.losses))
	}
	if len(o.topologies) < len(stage.Topologies()) {
		args = append(args, "-topology", strings.Join(names(o.topologies), ","))
	}
	if len(o.kinds) < len(worker.Kinds) {
		args = append(args, "-kinds", strings.Join(o.kinds, ","))
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
