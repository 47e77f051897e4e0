package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/torture/probe"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

// Limits that the figures are held against.
const (
	// CancelLimit is how late half of the calls may return after their contexts have
	// ended, while nothing is broken, beyond what the machine itself was late, and
	// LatestCancel how late any of them may. Both are below what a call would be late
	// that waits for something: a lease, or its next look. What a machine that is
	// very busy needs for a crowd is less.
	CancelLimit  = time.Second / 2
	LatestCancel = 2 * time.Second
	// RecoveryLimit is how soon locks should work again after a server's return.
	RecoveryLimit = time.Second
)

// A Report is one run.
type Report struct {
	Seed     uint64
	Command  string // that repeats it
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
	Longest               worker.Wait
	LatestLoss            time.Duration // told so long after Redis could grant the lock to another
	Cancels               Latency       // while something was broken
	QuietCancels          Latency       // while nothing was
	QuietBare             Latency       // the machine's share of those
	Recoveries            []Recovery

	Holds       int                        // that the checker found
	Overlaps    int                        // of valid holds, that nothing excuses
	Excused     map[string][]time.Duration // for how long both believed in each overlap that a fault must cause, by its kind
	Undecided   int                        // parts of the history that the model did not finish
	Violations  []string
	HistoryKept string // where the history is, if there are violations
}

// A Count is how often a fault was injected, and how often another was in its way.
type Count struct{ Injected, Missed int }

// A Recovery is how soon locks worked again after the faults of a round.
type Recovery struct {
	After string
	probe.Recovery
}

// A Latency is what remains of many measurements.
type Latency struct {
	N               int
	P50, P99, Worst time.Duration
}

// NewLatency returns that of some measurements, whose order it changes.
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

// Violations returns those of all acts.
func (r *Report) Violations() (n int) {
	for _, a := range r.Acts {
		n += len(a.Violations)
	}
	return n
}

// Write writes torture.md and torture.json into a folder, and makes it if need be.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for name, text := range map[string]string{"torture.json": string(raw) + "\n", "torture.md": r.Markdown()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}
