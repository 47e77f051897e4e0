package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/torture/plan"
	"github.com/go-rlock/rlock/internal/torture/probe"
	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
	"github.com/go-rlock/rlock/rlock"
)

// answerLimit is how long a worker may take to answer: longer than it waits for calls that
// hang, and for the goroutines of its clients to end.
const answerLimit = 4 * time.Minute

// An act is the time in which one server is up: rounds of faults, then measurements while
// nothing is broken, then the check of the history.
type act struct {
	options
	number int
	began  time.Time // the run
	until  time.Time // when no further round begins
	first  int       // round
	plan   plan.Plan
	report *report.Act

	dir      string // for all files of the act
	history  string // below it: a file for each life of a worker, and that of the faults
	stage    *stage.Stage
	recorder *history.Recorder
	probe    *probe.Probe
	reigns   []string     // of the primaries, at the last look
	looked   history.Time // the time of that look
}

// play runs the act. An error means that it could not begin, or could not be checked.
func (a *act) play(ctx context.Context) (err error) {
	began := time.Now()
	defer func() { a.report.Took = time.Since(began) }()
	a.dir = filepath.Join(a.out, fmt.Sprintf("act-%d", a.number))
	a.history = filepath.Join(a.dir, "history")
	if err := os.MkdirAll(a.history, 0o755); err != nil {
		return err
	}
	if a.recorder, err = history.Create(filepath.Join(a.history, "torture"), "torture"); err != nil {
		return err
	}
	if a.stage, err = stage.Open(a.plan.Topology, a.dir); err != nil {
		return err
	}
	a.say("%s is up", a.plan.Topology)
	if err := a.perform(ctx); err != nil {
		a.report.Violate("it could not go on: %v", err)
	}
	a.stage.Close()
	if err := a.recorder.Close(); err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	if len(a.report.Violations) > 0 {
		a.report.HistoryKept = a.dir
		return nil
	}
	return os.RemoveAll(a.dir)
}

// perform runs the rounds and the measurements. An error is that of a worker that has ended,
// or of servers that do not come to order.
func (a *act) perform(ctx context.Context) (err error) {
	for i := range a.processes {
		if _, err := a.stage.Hire(worker.Command, answerLimit, func(life int) any { return a.job(i, life) }); err != nil {
			return err
		}
	}
	if a.probe, err = probe.Start(rlock.Config{Redis: a.stage.Address().Servers()[0].Option(), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	defer a.probe.Close() // a second time if all goes well
	a.findFailover(false)
	for n := a.first; ctx.Err() == nil && (n == a.first || time.Now().Before(a.until)); n++ {
		if err := a.round(ctx, a.plan.Round(n)); err != nil {
			return err
		}
		a.report.Rounds++
		if len(a.report.Violations) > 0 {
			break // the other rounds would fail in the same way
		}
	}
	return a.close()
}

// job is the job of a worker's life.
func (a *act) job(number, life int) worker.Job {
	return worker.Job{
		Address: a.stage.Address(), Seed: a.seed + uint64(a.number), Worker: number, Life: life, Names: a.wide(number), Lease: a.lease,
		History: filepath.Join(a.history, workerName(number, life)),
	}
}

func workerName(number, life int) string { return worker.Job{Worker: number, Life: life}.Name() }

func (a *act) say(format string, args ...any) { say(a.began, format, args...) }
