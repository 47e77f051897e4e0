package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
)

// late is how late a loss may be reported, beyond the time in which the worker could not run:
// several goroutines report it, one after the other.
const late = time.Second

// check runs the checker over the history of all processes.
func (a *act) check() error {
	paths, err := filepath.Glob(filepath.Join(a.history, "*"))
	if err != nil {
		return err
	}
	events, err := history.ReadFiles(paths...)
	if err != nil {
		return err
	}
	a.say("checking %d events", len(events))
	checked, err := checker.Check(events, checker.Options{Late: late})
	if err != nil {
		return err
	}
	a.report.Calls, a.report.Acquired, a.report.Lost = checked.Operations, checked.Outcomes[history.Acquired], checked.LossesTold
	a.report.Holds, a.report.LatestLoss, a.report.LatestReturn, a.report.LongestWait = checked.Holds, checked.LatestLoss, checked.LatestReturn, checked.LongestWait
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
