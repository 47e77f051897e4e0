package report

import (
	"fmt"
	"os"
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
