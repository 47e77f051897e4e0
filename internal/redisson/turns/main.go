// Command turns has programs of both languages take turns over Redisson's semaphores and latches, by package rlock/redisson
// in Go and by Redisson in Java, while processes are killed and connections are cut.
//
//	go run ./internal/redisson/turns                              a minute for each kind and version
//	go run ./internal/redisson/turns -kinds latch -redisson 4.7.0 -duration 10m
//
// It starts a server, two processes in Go and one in Java, and calls by their threads, so it knows the holders of permits:
// from the answer to an acquire until before the release is asked for. After each fault all turns end, and the keys are
// counted. A violation is
//
//   - more holders than permits, or an open latch whose count is not zero;
//   - a waiter in Go that still sleeps two seconds after a permit was free, or the count zero, and so much as -slack;
//   - permits that are lost or gained, but for calls whose outcome is unknown, or leases that do not end;
//   - a key that is left at the end.
//
// Redisson's waiters have time limits, since Redisson may lose their wake-ups. The connections of Redisson 3.17.7 are not cut
// while it uses a semaphore: it sends a release again that has run, and makes permits by that.
//
//	fleet.go     the server, the processes, the faults
//	member.go    a process in Go
//	run.go       turns until the next fault, and the count after it
//	permits.go, latch.go   a turn of each kind
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
)

func main() {
	beMember()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	violations := 0
	if err == nil {
		t := &redistest.Program{}
		violations, err = runAll(t, o, os.Stdout)
		t.Close()
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
	kinds    []string
	versions []redisson.Version
	duration time.Duration // of each kind with each version
	faults   int           // ends a kind after so many, 0: by the duration
	turns    int64         // before a fault
	slack    time.Duration
	seed     uint64
}

var kinds = []string{"semaphore", "permits", "latch"}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("turns", flag.ContinueOnError)
	var names, versions string
	flags.StringVar(&names, "kinds", strings.Join(kinds, ","), "comma-separated")
	flags.StringVar(&versions, "redisson", string(redisson.Oldest)+","+string(redisson.V4), "versions, comma-separated")
	flags.DurationVar(&o.duration, "duration", time.Minute, "for each kind with each version")
	flags.IntVar(&o.faults, "faults", 0, "for each kind with each version, in place of -duration")
	flags.Int64Var(&o.turns, "turns", 300, "before the next fault")
	flags.DurationVar(&o.slack, "slack", 2*time.Second, "how long a waiter may take besides the two seconds of its look")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "of the faults and pauses")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.kinds = strings.Split(names, ",")
	for _, kind := range o.kinds {
		if !slices.Contains(kinds, kind) {
			return o, fmt.Errorf("turns: unknown kind %q: use some of %s", kind, strings.Join(kinds, ","))
		}
	}
	for version := range strings.SplitSeq(versions, ",") {
		o.versions = append(o.versions, redisson.Version(version))
	}
	return o, nil
}

// runAll runs each kind with each version, and returns the number of violations.
func runAll(t *redistest.Program, o options, out io.Writer) (violations int, err error) {
	fmt.Fprintf(out, "seed %d\n", o.seed)
	for _, version := range o.versions {
		f, err := newFleet(t, version, o)
		if err != nil {
			return violations, err
		}
		for _, kind := range o.kinds {
			r := newRun(f, kind, o)
			r.run()
			fmt.Fprintln(out, r)
			violations += len(r.violations)
		}
		f.close()
	}
	return violations, nil
}
