package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/report"
	"github.com/go-rlock/rlock/internal/redistest"
)

// maxCommands is how many commands of an operation are met by a fault, each in a case of its own.
const maxCommands = 4

// resend makes the table of commands that are lost, doubled, repeated and late.
func resend(ctx context.Context, flag *flag.FlagSet, args []string) error {
	lease := flag.Duration("lease", 2*time.Second, "of all locks")
	atOnce := flag.Int("at-once", 8, "how many cases to play at a time")
	only := flag.String("libraries", "", "those to play, separated by commas; all by default")
	out := flag.String("out", filepath.Join("results", "resend"), "folder of the results")
	_ = flag.Parse(args) // it exits
	addr, stop, err := redistest.Redis()
	if err != nil {
		return err
	}
	defer stop()
	pairs := &pairs{config: contender.Config{Addr: addr, Lease: *lease}}
	defer pairs.close()
	there, absent := libraries(*only)
	var cases []*trial
	var outcomes []*outcome
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
					cases = append(cases, &trial{outcome: o, addr: addr, lease: *lease, made: l, pairs: pairs})
				}
			}
		}
	}
	each(cases, *atOnce, func(_ int, t *trial) { t.play(ctx) })
	said := resendTable(outcomes, *lease, absent)
	fmt.Print(said)
	return report.Save(*out, outcomes, said)
}
