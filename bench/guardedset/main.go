// Command guardedset is Jepsen's test of etcd's locks for Redis: processes read, increment and write one value under a
// lock while they are stopped (SIGSTOP) for one to two leases, cut off from Redis, and killed, and while Redis fails
// over. The resource, a hash in another Redis, counts: lost updates are its writes less its value, stale are the writes
// that found another value than the one that was read.
//
//	cd bench && go run ./guardedset         # three and a half minutes; writes results/guardedset
//
// The faults meet the process that has the lock, so they are worse than in a service.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	if job := os.Getenv(role); job != "" {
		if err := work(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context) error {
	lease := flag.Duration("lease", 2*time.Second, "of all locks")
	duration := flag.Duration("time", 48*time.Second, "of each run, with faults")
	atOnce := flag.Int("at-once", 3, "how many runs to play at a time, each with servers and processes of its own")
	libraries := flag.String("libraries", "", "those to run, separated by commas; all by default")
	only := flag.String("form", "", "the form to run, all by default")
	seed := flag.Uint64("seed", 1, "of the faults' lengths")
	out := flag.String("out", filepath.Join("results", "guardedset"), "folder of the results")
	flag.Parse()
	var runs []*run
	for _, f := range forms() {
		if *libraries != "" && !strings.Contains(","+*libraries+",", ","+f.Library+",") || *only != "" && *only != f.Form {
			continue
		}
		runs = append(runs, &run{form: f, lease: *lease, duration: *duration, random: rand.New(rand.NewPCG(*seed, 1))})
	}
	results := make([]result, len(runs))
	failed := make([]error, len(runs))
	var all sync.WaitGroup
	turns := make(chan struct{}, max(*atOnce, 1))
	for i, r := range runs {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			results[i], failed[i] = r.measure(ctx)
			fmt.Printf("%s, %s: %+v\n", r.form.Library, r.form.Form, results[i])
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(results, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*out, "results.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*out, "results.md"), []byte(table(results, *lease)), 0o644); err != nil {
		return err
	}
	return draw(results, filepath.Join(*out, "guardedset.svg"))
}
