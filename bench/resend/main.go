// Command resend loses, doubles, repeats and delays each command of each library's lock, one at a time, and reports the consequences:
// a lock that nothing releases, two holders, or a call that waits for ever.
//
//	cd bench && go run ./resend         # two minutes; writes results/resend
//
// The commands pass the faulty network of rlock's own tests (internal/network). Each case has a lock of its own. Without
// Java and Maven, Redisson is left out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/report"
	"github.com/go-rlock/rlock/internal/redistest/standin"
)

// maxCommands is how many commands of an operation are met by a fault, each in a case of its own.
const maxCommands = 4

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context) error {
	lease := flag.Duration("lease", 2*time.Second, "of all locks")
	atOnce := flag.Int("at-once", 8, "how many cases to play at a time")
	only := flag.String("library", "", "the one to play, all by default")
	out := flag.String("out", filepath.Join("results", "resend"), "folder of the results")
	flag.Parse()
	addr, stop, err := standin.Redis()
	if err != nil {
		return err
	}
	defer stop()
	pairs := &pairs{config: contender.Config{Addr: addr, Lease: *lease}}
	defer pairs.close()
	there, absent := libraries(*only)
	var outcomes []*outcome
	var all sync.WaitGroup
	turns := make(chan struct{}, max(*atOnce, 1))
	for _, l := range there {
		for _, op := range operations {
			if op == renewal && !l.Renews {
				continue
			}
			for _, f := range faults {
				for nth := range maxCommands {
					if f == none && nth > 0 {
						break
					}
					o := &outcome{Library: l.Name, Operation: op, Fault: f, Nth: nth + 1}
					outcomes = append(outcomes, o)
					turns <- struct{}{}
					all.Go(func() {
						defer func() { <-turns }()
						c := &trial{outcome: o, addr: addr, lease: *lease, made: l, pairs: pairs}
						c.play(ctx)
					})
				}
			}
		}
	}
	all.Wait()
	said := table(outcomes, *lease, absent)
	fmt.Print(said)
	return report.Save(*out, outcomes, said)
}
