// Command torture breaks Redis, its networks and its clients in many ways while processes run
// random programs (package programs), and checks what callers were told: holds that overlap, losses
// that were not reported, calls that hang, errors that no function documents.
//
//	go run ./internal/torture                         two minutes, a random seed
//	go run ./internal/torture -duration 30m -seed 7   that seed's faults, in their order
//	go run ./internal/torture -names 2000             2000 names, and goroutines, in every second process
//	go run ./internal/torture -beside ../torture      the second half of the processes run that program, of another commit
//
// It starts its own servers and processes (package stage), shows progress, and prints a report. It
// exits with 1 after a violation; then the history is kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

func main() {
	asWorker()
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
	kinds      []string // all, if empty
	processes  int
	wideNames  int // the number of names that a wide process wants besides
	lease      time.Duration
	beside     string // the program that the second half of the processes run, "" for this one
	out        string
	again      string // the arguments that repeat a run with the same plan
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "of the plan of faults")
	flags.DurationVar(&o.duration, "duration", 2*time.Minute, "of all together")
	some(flags, "topology", stage.Topologies, &o.topologies)
	some(flags, "faults", stage.FaultNames(), &o.kinds)
	flags.IntVar(&o.processes, "processes", 4, "that lock")
	flags.IntVar(&o.wideNames, "names", 1500, "that every second process wants besides, with so many goroutines more: at most 10 000")
	flags.DurationVar(&o.lease, "lease", 1500*time.Millisecond, "of the clients")
	flags.StringVar(&o.beside, "beside", "", "torture as another commit builds it: the second half of the processes run that, as in a fleet that is upgraded")
	flags.StringVar(&o.out, "out", "", "folder for torture.md and the history of failures; default: a new one")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.again = strings.Join(args, " ")
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), "seed") }) {
		o.again = fmt.Sprintf("-seed %d %s", o.seed, o.again)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("torture: unknown argument %q: see -help", flags.Arg(0))
	case o.processes < 1:
		return o, errors.New("torture: -processes must be at least 1")
	case o.wideNames < 0 || o.wideNames > 10_000:
		return o, errors.New("torture: -names must be between 0 and 10 000")
	case o.topologies == nil:
		o.topologies = stage.Topologies
	}
	for _, t := range o.topologies {
		if len(stage.For(t, o.kinds...)) == 0 {
			return o, fmt.Errorf("torture: none of these faults is for the topology %s: leave it out of -topology", t)
		}
	}
	return o, nil
}

// some defines a flag whose value is some of the names.
func some[T ~string](flags *flag.FlagSet, name string, of []T, to *[]T) {
	flags.Func(name, fmt.Sprint("comma-separated; default: all of ", of), func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			if !slices.Contains(of, T(one)) {
				return fmt.Errorf("there is none of that name: %q", one)
			}
			*to = append(*to, T(one))
		}
		return nil
	})
}

// program returns the program that a process runs, "" for this one.
func (o options) program(number int) string {
	if number >= (o.processes+1)/2 {
		return o.beside
	}
	return ""
}

// wide returns how many names a process wants besides: every second process is wide.
func (o options) wide(number int) int {
	if number%2 == 0 {
		return o.wideNames
	}
	return 0
}

const (
	// longestAct is how long a server is kept: its history has to fit into memory.
	longestAct = 2 * time.Minute
	// closing is the time that the end of an act takes.
	closing = 12 * time.Second
)

// run goes through the topologies, an act each, until the time is over, and returns the number of
// violations.
func run(ctx context.Context, o options) (violations int, err error) {
	if o.out == "" {
		o.out, err = os.MkdirTemp("", "torture")
	} else if o.out, err = filepath.Abs(o.out); err == nil { // the servers have other working directories
		err = os.MkdirAll(o.out, 0o755)
	}
	if err != nil {
		return 0, fmt.Errorf("torture: %w", err)
	}
	began := time.Now()
	r := &report{
		seed: o.seed, command: "go run ./internal/torture " + o.again, when: began,
		machine: fmt.Sprintf("%d CPUs, %s", runtime.NumCPU(), runtime.Version()),
		faults:  make(map[string]count), excused: make(map[string][]time.Duration),
	}
	say(began, "%s", r.command)

	length := o.duration / time.Duration(len(o.topologies))
	for length > longestAct {
		length /= 2
	}
	rounds := make(map[stage.Topology]int) // the number of rounds of each topology so far
	for n := 0; ctx.Err() == nil && (n < len(o.topologies) || time.Since(began) < o.duration-length/2); n++ {
		topology := o.topologies[n%len(o.topologies)]
		a := &act{
			options: o, number: n, run: r,
			until:   began.Add(time.Duration(n+1)*length - closing),
			first:   rounds[topology],
			plan:    plan{o.seed, topology, stage.For(topology, o.kinds...), stage.Scene{Workers: o.processes, Names: programs.Names, Lease: o.lease}},
			figures: figures{topology: topology},
		}
		if err := a.play(ctx); err != nil {
			return 0, fmt.Errorf("torture: act %d, %s: %w", n, topology, err)
		}
		r.acts = append(r.acts, &a.figures)
		rounds[topology] += a.rounds
		violations += len(a.violations)
	}
	r.complete, r.took = ctx.Err() == nil, time.Since(began)
	text := r.markdown()
	fmt.Println(text)
	if err := os.WriteFile(filepath.Join(o.out, "torture.md"), []byte(text), 0o644); err != nil {
		return 0, fmt.Errorf("torture: %w", err)
	}
	say(began, "written to %s", o.out)
	return violations, nil
}

func say(began time.Time, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}
