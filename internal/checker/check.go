package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// Options are the limits. The zero value is usable.
type Options struct {
	// Patience is how long a lock may be free while an owner waits for it and nothing is
	// broken. Defaults to 10 s: waiters of rlock look after 5 s at most.
	Patience time.Duration

	// Late is how late a loss may be reported, beyond the time in which its process could not
	// run. Defaults to 0; the Report has the largest delay.
	Late time.Duration

	// Slow is how late a call may return after the end of its context, likewise. Defaults to 2 s.
	Slow time.Duration
}

// A check is one run.
type check struct {
	world
	options Options
	report  Report
}

// Check finds the violations in a history, whose events must be in the order of time (as
// [history.ReadFiles] returns them). An error means that the events are not a history.
func Check(events []history.Event, options Options) (Report, error) {
	options.Patience = cmp.Or(options.Patience, 10*time.Second)
	options.Slow = cmp.Or(options.Slow, 2*time.Second)
	c := &check{options: options}
	if err := c.read(events); err != nil {
		return Report{}, err
	}
	c.count()
	for _, n := range c.names {
		c.overlaps(n)
		c.tokens(n)
		c.losses(n)
		c.strandings(n)
	}
	c.returns()
	for _, e := range c.leftovers {
		c.violate(Leftover, &name{}, []history.Event{e}, nil, "%s", e.Leftover)
	}
	return c.report, nil
}

func (c *check) count() {
	r := &c.report
	r.Outcomes = make(map[history.Outcome]int)
	r.Faults = make(map[string]int)
	for _, o := range c.operations {
		r.Operations++
		r.Outcomes[o.outcome()]++
		if o.took() {
			r.LongestWait = max(r.LongestWait, o.returned.Sub(o.called))
		}
	}
	for _, f := range c.faults {
		r.Faults[f.What]++
	}
	for _, n := range c.names {
		r.Holds += len(n.holds)
	}
}

// returns finds calls that go on after the ends of their contexts.
func (c *check) returns() {
	for _, o := range c.operations {
		if o.Ends == 0 {
			continue
		}
		until := min(o.returned, c.processes[o.process].ended, c.last)
		late := until.Sub(max(o.Ends, o.called)) - c.stopped(o.process, o.Ends, until)
		c.report.LatestReturn = max(c.report.LatestReturn, late)
		if late > c.options.Slow {
			c.violate(Slow, &name{key: o.Name}, o.events, nil, "%s by %s goes on %v after the end of its context", o.Method, o.Owner, late)
		}
	}
}

func (c *check) violate(rule Rule, n *name, events []history.Event, excuse *fault, format string, args ...any) {
	c.add(Violation{Rule: rule, Name: n.key, What: fmt.Sprintf(format, args...), Events: slices.Clone(events)}, excuse)
}

func (c *check) add(v Violation, excuse *fault) {
	if excuse != nil {
		v.Excuse, v.Cause = excuse.What, cmp.Or(excuse.Kind, excuse.What)
		c.report.Excused = append(c.report.Excused, v)
		return
	}
	c.report.Violations = append(c.report.Violations, v)
}
