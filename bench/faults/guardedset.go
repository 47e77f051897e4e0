package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-rlock/rlock/bench/report"
)

// guardedSet makes the table of the guarded set.
func guardedSet(ctx context.Context, flag *flag.FlagSet, args []string) error {
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
	_ = flag.Parse(args) // it exits

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

func playAll(ctx context.Context, runs []*run, atOnce int) ([]result, error) {
	results, failed := make([]result, len(runs)), make([]error, len(runs))
	each(runs, atOnce, func(i int, r *run) {
		if results[i], failed[i] = r.measure(ctx); failed[i] == nil {
			fmt.Printf("%+v\n", results[i])
		}
	})
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
