package report

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
)

// A Progress shows the current measurement: on a terminal in one line that it overwrites,
// elsewhere in a line for each measurement.
type Progress struct {
	out      io.Writer
	terminal bool
	expected []time.Duration // of each measurement
	done     int
	began    time.Time
}

// NewProgress returns a progress over measurements with these expected times.
func NewProgress(out *os.File, expected []time.Duration) *Progress {
	info, err := out.Stat()
	return &Progress{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, expected: expected, began: time.Now()}
}

// Begin shows the next measurement.
func (p *Progress) Begin(r *arena.Result) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\033[K%s", p.line(r))
	}
}

// Done shows its result.
func (p *Progress) Done(r *arena.Result) {
	p.done++
	if !p.terminal {
		fmt.Fprintf(p.out, "%s: %s a second, faults: %s\n", p.line(r), number(r.Rate()), faults(r))
		return
	}
	if what := faults(r); what != "none" {
		fmt.Fprintf(p.out, "\r\033[K%s, %s, %s, %s: %s\n", r.Contender, r.Scenario, r.Setting, r.Network, what)
	}
}

// End clears the line.
func (p *Progress) End() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\033[K")
	}
}

func (p *Progress) line(r *arena.Result) string {
	return fmt.Sprintf("[%d/%d, %s left] %s, %s, %s: %s", p.done, len(p.expected), p.left().Round(time.Second), r.Scenario, r.Setting, r.Network, r.Contender)
}

// left returns the expected time of the remaining measurements, corrected by how much the
// earlier ones differed from their expectation.
func (p *Progress) left() time.Duration {
	before, left := sum(p.expected[:p.done]), sum(p.expected[p.done:])
	if before == 0 {
		return left
	}
	return time.Duration(float64(left) * float64(time.Since(p.began)) / float64(before))
}

func sum(all []time.Duration) (sum time.Duration) {
	for _, d := range all {
		sum += d
	}
	return sum
}
