package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/torture/report"
)

// late is how late a loss may be reported, beyond the time in which the worker could not run:
// several goroutines report it, one after the other.
const late = time.Second

// check runs the checker over the history of all processes.
func (a *act) check() error {
	a.report.Cancels = report.NewLatency(a.cancels)
	paths, err := filepath.Glob(filepath.Join(a.history, "*"))
	if err != nil {
		return err
	}
	events, err := history.ReadFiles(paths...)
	if err != nil {
		return err
	}
	a.say("checking %d events", len(events))
	checked, err := checker.Check(events, checker.Options{Late: late, Pictures: a.dir})
	if err != nil {
		return err
	}
	if int64(checked.Operations) < a.report.Calls {
		return fmt.Errorf("the history has %d operations of at least %d: the missing ones cannot be judged", checked.Operations, a.report.Calls)
	}
	a.report.Holds, a.report.Undecided, a.report.LatestLoss = checked.Holds, checked.Undecided, checked.LatestLoss
	a.report.Overlaps = checked.Broken(checker.Overlap)
	for _, v := range checked.Violations {
		a.report.Violate("%s of %q: %s", v.Rule, v.Name, v.What)
	}
	for _, v := range checked.Excused {
		if v.Rule == checker.Overlap {
			a.report.Excused[v.Cause] = append(a.report.Excused[v.Cause], v.Both)
		}
	}
	if len(checked.Violations) > 0 {
		text := filepath.Join(a.dir, "checker.txt")
		if err := os.WriteFile(text, []byte(checked.String()), 0o644); err != nil {
			return err
		}
	}
	a.say("%d violations", len(a.report.Violations))
	return nil
}
