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

	// Noted is the delay with which a goroutine may note the end of a hold's context. If only that
	// note shows an overlap, and the overlap is no longer than Noted, there is none. Defaults to 0.
	Noted time.Duration

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

// never is later than all known times.
const never = history.Time(1<<63 - 1)

// A world is the history, parsed.
type world struct {
	names     []*name // in alphabetical order
	processes map[string]*process
	faults    []*fault
	leftovers []history.Event

	operations  []*operation // in the order of their calls
	first, last history.Time // of all events
}

// A name is the part of the history about one lock.
type name struct {
	key     string
	forgets []*fault      // by which Redis may have forgotten the holder
	lease   time.Duration // the longest lease that was asked for
	takes   []*operation  // the operations that tried to take it, in the order of their calls
	holds   []*hold       // by their begins
}

// A process is the events of one recorder. A killed process ends at the kill; if that is not
// known, it never ends.
type process struct {
	last     history.Time // of its events
	ended    history.Time
	closes   history.Time // when its client is closed; never if it is not
	inOrder  bool
	stalls   []span // in which the machine did not run it
	accounts []*account
}

// An operation is one call, with its return if there was one.
type operation struct {
	history.Op
	process  string
	called   history.Time
	returned history.Time    // never, as far as is known, without a result
	result   *history.Result // nil if the outcome is unknown
	events   []history.Event // its call, its return
	level    *level          // that it took
}

func (o *operation) outcome() history.Outcome {
	if o.result == nil {
		return ""
	}
	return o.result.Outcome
}

// took reports whether the operation took a level.
func (o *operation) took() bool { return o.Method.Takes() && o.outcome() == history.Acquired }

// gives reports whether it gives one back.
func (o *operation) gives() bool {
	return o.Method == history.Unlock || o.Method == history.Release || o.Method == history.DoEnd
}

// A span is the time between two times.
type span struct{ from, to history.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

type key struct {
	process string
	number  uint64
}

// read parses the events, which must be in the order of time, and keeps the accounts.
func (c *check) read(events []history.Event) error {
	c.processes = make(map[string]*process)
	operations := make(map[key]*operation)
	faults := make(map[key]*fault)
	for i, e := range events {
		if i > 0 && e.At < events[i-1].At {
			return fmt.Errorf("checker: event %d, of process %s, is earlier than the one before: sort them by time", i, e.Process)
		}
		p := c.processes[e.Process]
		if p == nil {
			p = &process{ended: never, closes: never}
			c.processes[e.Process] = p
		}
		if i == 0 {
			c.first = e.At
		}
		c.last = e.At
		p.last = e.At
		k := key{e.Process, e.Number}
		switch e.Kind {
		case history.Called:
			o := &operation{Op: *e.Op, process: e.Process, called: e.At, returned: never, events: []history.Event{e}}
			operations[k] = o
			c.operations = append(c.operations, o)
		case history.Returned:
			o := operations[k]
			if o == nil {
				return fmt.Errorf("checker: process %s returned from call %d, which it never began", e.Process, e.Number)
			}
			o.returned, o.result = e.At, e.Result
			o.events = append(o.events, e)
			if e.Result.Owner != "" {
				o.Owner = e.Result.Owner
			}
		case history.Injected:
			f := &fault{Fault: *e.Fault, from: e.At, to: never}
			faults[k] = f
			c.faults = append(c.faults, f)
		case history.Healed:
			if f := faults[k]; f != nil {
				f.to = e.At
			}
		case history.Stalled:
			p.stalls = append(p.stalls, span{e.At.Add(-e.Stall), e.At})
		case history.Left:
			c.leftovers = append(c.leftovers, e)
		case history.Ended:
			p.ended, p.inOrder = e.At, true
		}
	}
	c.mourn()
	c.sortByName()
	c.keepAccounts(events, operations)
	return nil
}

// mourn sets the end of the processes that did not end in order: their last fault. For a
// process that was stopped and went on, it is its last event.
func (c *check) mourn() {
	for _, f := range c.faults {
		if p := c.processes[f.Victim]; p != nil && !p.inOrder {
			p.ended = max(p.last, f.to)
		}
	}
}

func (c *check) sortByName() {
	byKey := make(map[string]*name)
	for _, o := range c.operations {
		switch {
		case o.Method == history.ForceUnlock:
			c.faults = append(c.faults, c.forced(o))
		case !o.Method.Takes():
			if n := byKey[o.Name]; n != nil && o.result != nil && o.result.Until != 0 { // after the acquire
				n.lease = max(n.lease, o.result.Until.Sub(o.called))
			}
			continue
		}
		n := byKey[o.Name]
		if n == nil {
			n = &name{key: o.Name}
			byKey[o.Name] = n
			c.names = append(c.names, n)
		}
		if o.Method.Takes() {
			n.takes = append(n.takes, o)
			n.lease = max(n.lease, o.Lease)
		}
	}
	for _, f := range c.faults {
		for _, n := range c.names {
			if f.Forgets && f.concerns(n) {
				n.forgets = append(n.forgets, f)
			}
		}
	}
	slices.SortFunc(c.names, func(a, b *name) int { return cmp.Compare(a.key, b.key) })
}

// A fault is an injected fault, and its time.
type fault struct {
	history.Fault
	from, to history.Time // to is never, for one that was not healed
}

func (f *fault) concerns(n *name) bool { return f.Name == "" || f.Name == n.key }

// forced is the effect of a ForceUnlock on the holders of the lock.
func (c *check) forced(o *operation) *fault {
	f := &fault{
		Fault: history.Fault{What: string(o.Method), Forgets: o.outcome() != history.NotHeld, Name: o.Name},
		from:  o.called, to: o.returned,
	}
	if o.result == nil {
		f.to = o.called
	}
	if o.outcome() == history.Released {
		return f
	}
	for _, g := range c.faults { // it may be executed when the network is back
		if g.from <= f.to && f.from <= g.to {
			f.to = max(f.to, g.to)
		}
	}
	return f
}

// excuse returns the last fault by which Redis may have forgotten a grant, so that there may
// be two holders at some time between from and to; nil if there is none.
//
// A holder whose grant is forgotten learns it when it renews, or when its lease ends: a fault
// has effects for that long. A hand-off may begin a hold in the meantime, so that the holder
// during the fault is not enough to know.
func (c *check) excuse(n *name, from, to history.Time) (last *fault) {
	for _, f := range n.forgets {
		if f.from <= to && (f.to == never || from <= f.to.Add(n.lease)) && (last == nil || f.from >= last.from) {
			last = f
		}
	}
	return last
}

// stopped returns for how long between from and to the process could not run, since it was
// stopped, or the machine had no time for it.
func (c *check) stopped(process string, from, to history.Time) (length time.Duration) {
	stops := slices.Clone(c.processes[process].stalls)
	for _, f := range c.faults {
		if f.Victim == process {
			stops = append(stops, span{f.from, f.to})
		}
	}
	slices.SortFunc(stops, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range stops {
		if s = (span{max(s.from, from), min(s.to, to)}); s.length() > 0 {
			length += s.length()
			from = s.to
		}
	}
	return length
}
