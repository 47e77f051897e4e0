// Command guardedset is Jepsen's test of etcd's locks for Redis: processes read, increment and write one value under a
// lock while they are stopped (SIGSTOP) for one to two leases, cut off from Redis, and killed, and while Sentinel fails
// over to a replica. The resource, a hash in another Redis, keeps each write: lost updates are its writes less its value,
// stale are the writes that found another value than the one that was read.
//
//	cd bench && go run ./guardedset         # twelve minutes; writes results/guardedset
//
// The faults meet the process that has the lock, so they are worse than in a service. Redisson's workers are JVMs; without
// Java and Maven they are left out.
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/bench/report"
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
	calm := flag.Duration("calm", 5*time.Second, "of each run, before the faults")
	scale := flag.Float64("scale", 1, "of the time with faults")
	atOnce := flag.Int("at-once", 4, "how many runs to play at a time, each with servers and processes of its own")
	named := flag.String("scenarios", "", "those to run, separated by commas; all by default")
	libraries := flag.String("libraries", "", "those to run, likewise")
	only := flag.String("forms", "", "those to run, likewise")
	add := flag.Bool("add", false, "keep the other results in the folder")
	seed := flag.Uint64("seed", 1, "of the faults' lengths")
	out := flag.String("out", filepath.Join("results", "guardedset"), "folder of the results")
	flag.Parse()

	there, absent := without(slices.DeleteFunc(forms(), func(f form) bool {
		return !among(*libraries, f.Library) || !among(*only, f.Form)
	}))
	var runs []*run
	for _, s := range scenarios() {
		for _, f := range there {
			if s.does(f) && among(*named, s.name) {
				long := time.Duration(*scale * float64(s.time))
				runs = append(runs, &run{form: f, scenario: s, lease: *lease, calm: *calm, time: long, random: rand.New(rand.NewPCG(*seed, 1))})
			}
		}
	}
	results, err := playAll(ctx, runs, *atOnce)
	if err != nil {
		return err
	}
	if *add {
		var before []result
		if err := report.Load(*out, &before); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		results = merge(before, results)
	}
	if err := report.Save(*out, results, text(results, *lease, absent)); err != nil {
		return err
	}
	return draw(results, *out)
}

// among reports whether the list, separated by commas, has the word or is empty.
func among(list, word string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), word)
}

func playAll(ctx context.Context, runs []*run, atOnce int) ([]result, error) {
	results, failed := make([]result, len(runs)), make([]error, len(runs))
	var all sync.WaitGroup
	turns := make(chan struct{}, max(atOnce, 1))
	for i, r := range runs {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if results[i], failed[i] = r.measure(ctx); failed[i] == nil {
				fmt.Printf("%+v\n", results[i])
			}
		})
	}
	all.Wait()
	return results, errors.Join(failed...)
}

// merge returns the results with those of earlier runs, in the order of the tables.
func merge(before, results []result) (merged []result) {
	for _, s := range scenarios() {
		for _, f := range forms() {
			is := func(r result) bool { return r.Scenario == s.name && r.Library == f.Library && r.Form == f.Form }
			for _, list := range [][]result{results, before} {
				if i := slices.IndexFunc(list, is); i >= 0 {
					merged = append(merged, list[i])
					break
				}
			}
		}
	}
	return merged
}
