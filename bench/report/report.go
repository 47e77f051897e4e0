// Package report formats results: tables in Markdown, plots as SVG, and the raw data as
// JSON. A fault of a contender (a lock held twice, a waiter never woken, an
// error) is shown in its row, and once more in a list of its own.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
)

// ours is the contender that is compared with its peers.
const ours = "rlock"

// A Report is one run.
type Report struct {
	Machine    Machine
	Took       time.Duration
	Complete   bool                     // false: the run was ended early
	RoundTrips map[string]time.Duration // of the networks, as measured
	Results    []*arena.Result
}

// A Machine is the machine of the measurement.
type Machine struct {
	When      time.Time
	Go, Redis string
	OS, Arch  string
	CPU       string
	CPUs      int
}

// Write writes results.md, results.json and the plots into a folder, and makes
// it if need be.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	plots, err := r.plot(folder)
	if err != nil {
		return err
	}
	return Save(folder, r, r.Markdown(plots))
}

// of returns the results of a cell in order.
func (r *Report) of(scenario, setting, network string) (of []*arena.Result) {
	for _, res := range r.Results {
		if res.Scenario == scenario && res.Setting == setting && res.Network == network {
			of = append(of, res)
		}
	}
	return of
}

// Save writes the results of a run into a folder, and makes it if need be: results.json has the
// data, and results.md the text.
func Save(folder string, data any, text string) error {
	raw, err := json.MarshalIndent(data, "", "\t")
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "results.json"), append(raw, '\n'), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "results.md"), []byte(text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
