// Command faults breaks the locks of each library, one sort of fault at a time, and says which keep
// their promise.
//
//	cd bench && go run ./faults                                          # a quarter of an hour; writes results/faults
//	cd bench && go run ./faults -only '^holder.*/rlock' -out /tmp/faults   # a part of it
//
// It is Jepsen's test of etcd's locks for Redis: processes read, increment and write one value
// under a lock, on a stage of torture (internal/torture/stage), which has the servers and the
// processes, while something breaks. The resource keeps each write: lost updates are its writes
// less its value, and stale ones found another value than the one that was read. What it keeps also
// tells how long nobody wrote, and who did not write any more when nothing was broken.
//
// Without Java and Maven, Redisson is left out.
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
	"regexp"
	"sync"
	"syscall"
	"time"
)

func main() {
	asWorker()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context) error {
	lease := flag.Duration("lease", 2*time.Second, "of all locks; twice as long where commands break")
	length := flag.Duration("time", 30*time.Second, "of the faults of each run; a failover ends in any case")
	atOnce := flag.Int("at-once", 4, "how many runs to play at a time, each with servers and processes of its own")
	only := flag.String("only", "", "the runs to play, as a regular expression of `fault/library/form`; all by default")
	out := flag.String("out", filepath.Join("results", "faults"), "folder of the results")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var runs []*run
	absent := ""
	for _, s := range sorts {
		for i, f := range forms {
			r := &run{form: f, sort: s, lease: *lease * time.Duration(s.leases), time: *length, random: rand.New(rand.NewPCG(1, uint64(i)))}
			if !s.does(f) || !chosen.MatchString(r.String()) {
				continue
			}
			if _, err := f.command(); err != nil {
				absent = fmt.Sprintf("%s (%v)", f.library, err)
				continue
			}
			runs = append(runs, r)
		}
	}
	results, failed := make([]result, len(runs)), make([]error, len(runs))
	var group sync.WaitGroup
	turns := make(chan struct{}, max(*atOnce, 1))
	for i, r := range runs {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			if results[i], failed[i] = r.play(ctx); failed[i] == nil {
				fmt.Printf("%+v\n", results[i])
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*out, "results.md"), []byte(text(results, *lease, absent)), 0o644)
}
