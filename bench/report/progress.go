package report

import (
	"fmt"
	"io"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
)

// A Progress shows each measurement in a line.
type Progress struct {
	out      io.Writer
	expected []time.Duration // of each measurement
	done     int
	began    time.Time
}

// NewProgress returns a progress over measurements with these expected times.
func NewProgress(out io.Writer, expected []time.Duration) *Progress {
	return &Progress{out: out, expected: expected, began: time.Now()}
}

// Done shows the next measurement.
func (p *Progress) Done(r *arena.Result) {
	p.done++
	fmt.Fprintf(p.out, "[%d/%d, %s left] %s, %s, %s: %s: %s a second, faults: %s\n", p.done, len(p.expected), p.left().Round(time.Second),
		r.Scenario, r.Setting, r.Network, r.Contender, number(r.Rate()), faults(r))
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
