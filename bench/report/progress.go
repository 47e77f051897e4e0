package report

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
)

// A Progress tells on a terminal what is being measured, on one line that it
// writes over; on anything else, a line for each measurement.
type Progress struct {
	out      io.Writer
	terminal bool
	total    int
	done     int
	began    time.Time
}

// NewProgress returns a progress over so many measurements.
func NewProgress(out *os.File, total int) *Progress {
	info, err := out.Stat()
	return &Progress{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, total: total, began: time.Now()}
}

// Begin says what is measured next.
func (p *Progress) Begin(r *arena.Result) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\033[K%s", p.line(r))
	}
}

// Done says what came of it.
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
	left := ""
	if p.done > 0 {
		each := time.Since(p.began) / time.Duration(p.done)
		left = fmt.Sprintf(", %s left", (each * time.Duration(p.total-p.done)).Round(time.Second))
	}
	return fmt.Sprintf("[%d/%d%s] %s, %s, %s: %s", p.done, p.total, left, r.Scenario, r.Setting, r.Network, r.Contender)
}
