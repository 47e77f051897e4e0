package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/torture/probe"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

// Limits of the figures.
const (
	// CancelLimit is how late half of the calls may return after their contexts have ended,
	// while nothing is broken, beyond the delay of the machine itself, and LatestCancel how
	// late any of them may. Both are shorter than the delay of a call that waits for a lease
	// or for its next look, and longer than the delay of a crowd on a very busy machine.
	CancelLimit  = time.Second / 2
	LatestCancel = 2 * time.Second
	// RecoveryLimit is how soon locks should work again after a server's return.
	RecoveryLimit = time.Second
)

// A Report is one run.
type Report struct {
	Seed     uint64
	Command  string // repeats the run
	When     time.Time
	Took     time.Duration
	Complete bool // false: it was ended early
	Machine  string
	Acts     []*Act
}

// An Act is the time in which one server was up.
type Act struct {
	Topology string
	Took     time.Duration
	Rounds   int
	Faults   map[string]Count // by the name of their kind
	Deaths   int              // of workers, on purpose

	Calls, Acquired, Lost int64
	Most                  int64 // levels that one worker held at once
	Longest               worker.Wait
	LatestLoss            time.Duration // after Redis could grant the lock to another owner
	Cancels               Latency       // during faults
	QuietCancels          Latency       // without faults
	QuietBare             Latency       // the machine's share of those
	Recoveries            []Recovery

	Holds       int                        // that the checker found
	Overlaps    int                        // of valid holds, without an excuse
	Excused     map[string][]time.Duration // for how long both believed in each overlap that a fault explains, by the kind of fault
	Undecided   int                        // parts of the history that the model did not finish
	Violations  []string
	HistoryKept string // where the history is, if there are violations
}

// A Count tells how often a fault was injected, and how often another one prevented it.
type Count struct{ Injected, Missed int }

// A Recovery tells how soon locks worked again after the faults of a round.
type Recovery struct {
	After string
	probe.Recovery
}

// A Latency summarizes many measurements.
type Latency struct {
	N               int
	P50, P99, Worst time.Duration
}

// NewLatency summarizes measurements, whose order it changes.
func NewLatency(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	at := func(share float64) time.Duration { return all[int(share*float64(len(all)-1))] }
	return Latency{N: len(all), P50: at(0.5), P99: at(0.99), Worst: all[len(all)-1]}
}

// Violate adds a violation.
func (a *Act) Violate(format string, args ...any) {
	a.Violations = append(a.Violations, fmt.Sprintf(format, args...))
}

// Violations returns the violations of all acts.
func (r *Report) Violations() (n int) {
	for _, a := range r.Acts {
		n += len(a.Violations)
	}
	return n
}

// Write writes torture.md into a folder, which it makes if necessary.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "torture.md"), []byte(r.Markdown()), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
