package checker

import (
	"cmp"
	"fmt"
	"maps"
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

	// Noted is the delay with which a goroutine may note the end of a hold's context, beyond the time
	// in which its process could not run. If only that note shows an overlap, and the overlap is no
	// longer than Noted, there is none. Defaults to 0.
	Noted time.Duration
}

// slow is how late a call may return after the end of its context, beyond the time in which its
// process could not run.
const slow = 2 * time.Second

// A check is the state of one call of Check: the parsed history, and the report.
type check struct {
	options Options
	report  Report

	names       map[string]*name
	processes   map[string]*process
	accounts    map[id]*account
	faults      []*fault
	calls       []*call      // in the order of their beginnings
	first, last history.Time // of all events
}

// Check finds the violations in a history. It sorts the events by time.
func Check(events []history.Event, options Options) Report {
	options.Patience = cmp.Or(options.Patience, 10*time.Second)
	c := &check{options: options, names: make(map[string]*name), processes: make(map[string]*process), accounts: make(map[id]*account)}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	calls := c.read(events)
	c.keepAccounts(events, calls)
	for _, key := range slices.Sorted(maps.Keys(c.names)) {
		n := c.names[key]
		c.overlaps(n)
		c.tokens(n)
		c.losses(n)
		c.strandings(n)
	}
	for _, o := range c.calls {
		c.report.Calls++
		if o.took() {
			c.report.Acquired++
			c.report.LongestWait = max(c.report.LongestWait, o.returned.Sub(o.called))
		}
		c.returns(o)
	}
	return c.report
}

// returns finds a call that goes on after the end of its context.
func (c *check) returns(o *call) {
	if o.Ends == 0 {
		return
	}
	until := min(o.returned, o.process.ended, c.last)
	late := until.Sub(max(o.Ends, o.called)) - c.stopped(o.process, o.Ends, until)
	c.report.LatestReturn = max(c.report.LatestReturn, late)
	if late > slow {
		c.violate(Slow, o.name, o.events, nil, "%s by %s goes on %v after the end of its context", o.Method, o.Owner, late)
	}
}

func (c *check) violate(rule Rule, n *name, events []history.Event, excuse *fault, format string, args ...any) {
	c.add(Violation{Rule: rule, Name: n.key, What: fmt.Sprintf(format, args...), Events: slices.Clone(events)}, excuse)
}

func (c *check) add(v Violation, excuse *fault) {
	if excuse != nil {
		v.Excuse = cmp.Or(excuse.Kind, excuse.What)
		c.report.Excused = append(c.report.Excused, v)
		return
	}
	c.report.Violations = append(c.report.Violations, v)
}

// never is later than all known times.
const never = history.Time(1<<63 - 1)

// A name is the part of the history about one lock.
type name struct {
	key   string
	lease time.Duration // the longest lease that was asked for
	calls []*call       // in the order of their beginnings
	holds []*hold       // by their begins
}

// A process is the events of one recorder. A killed process ends at the kill; if that is not
// known, it never ends.
type process struct {
	name    string
	last    history.Time // of its events
	ended   history.Time
	closes  history.Time // when its client is closed; never if it is not
	inOrder bool
	stalls  []span // the times in which the machine did not run the process
}

// A call is one call for a lock, with its return if there was one; one for several locks is a call
// for each. If it took the lock, it stands for a level of it.
type call struct {
	history.Op
	name     *name
	process  *process
	called   history.Time
	returned history.Time    // never, as far as is known, without a result
	result   *history.Result // nil if the outcome is unknown
	events   []history.Event // its call, its return

	// The following are of a level.
	hold   *hold
	given  *giving        // how it is given back; nil: it is not
	closed bool           // given back by the end of its client
	missed *history.Event // the first look that found it lost
	told   *history.Event // the report of its loss
}

func (o *call) outcome() history.Outcome { return outcome(o.result) }

func outcome(r *history.Result) history.Outcome {
	if r == nil {
		return ""
	}
	return r.Outcome
}

// took reports whether the call took a level.
func (o *call) took() bool { return o.outcome() == history.Acquired }

// A giving is the call that gives a level back.
type giving struct {
	called   history.Time
	returned history.Time    // never, as far as is known, without a result
	result   *history.Result // nil if the outcome is unknown
	event    history.Event   // its call
}

// A span is the time between two times.
type span struct{ from, to history.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// A key is that of a call, or of a fault.
type key struct {
	process string
	number  uint64
}

// read parses the events, and returns the calls.
func (c *check) read(events []history.Event) map[key][]*call {
	calls, faults := make(map[key][]*call), make(map[key]*fault)
	for i, e := range events {
		p := c.processes[e.Process]
		if p == nil {
			p = &process{name: e.Process, ended: never, closes: never}
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
			for _, of := range e.Op.Names {
				n := c.names[of]
				if n == nil {
					n = &name{key: of}
					c.names[of] = n
				}
				o := &call{Op: *e.Op, name: n, process: p, called: e.At, returned: never, events: []history.Event{e}}
				calls[k], c.calls, n.calls = append(calls[k], o), append(c.calls, o), append(n.calls, o)
				n.lease = max(n.lease, o.Lease)
			}
		case history.Returned:
			for _, o := range calls[k] {
				o.returned, o.result = e.At, e.Result
				o.events = append(o.events, e)
			}
		case history.Gives:
			for _, o := range calls[k] {
				o.given = &giving{called: e.At, returned: never, event: e}
			}
		case history.Gave:
			for _, o := range calls[k] {
				o.given.returned, o.given.result = e.At, e.Result
				if e.Result.Until != 0 {
					o.name.lease = max(o.name.lease, e.Result.Until.Sub(o.given.called))
				}
			}
		case history.Injected:
			f := &fault{Fault: *e.Fault, from: e.At, to: never}
			faults[k] = f
			c.faults = append(c.faults, f)
		case history.Healed:
			faults[k].to = e.At
		case history.Stalled:
			p.stalls = append(p.stalls, span{e.At.Add(-e.Stall), e.At})
		case history.Ended:
			p.ended, p.inOrder = e.At, true
		}
	}
	// A process that did not end in order ended by its last fault. For one that was stopped and
	// went on, it is its last event.
	for _, f := range c.faults {
		if p := c.processes[f.Victim]; p != nil && !p.inOrder {
			p.ended = max(p.last, f.to)
		}
	}
	return calls
}

// A fault is an injected fault, and its time.
type fault struct {
	history.Fault
	from, to history.Time // to is never, for one that was not healed
}

func (f *fault) concerns(n *name) bool { return f.Name == "" || f.Name == n.key }

// excuse returns the last fault by which Redis may have forgotten a grant, so that there may
// be two holders at some time between from and to; nil if there is none.
//
// A holder whose grant is forgotten learns it when it renews, or when its lease ends: a fault
// has effects for that long. A hand-off may begin a hold in the meantime, so that the holder
// during the fault is not enough to know.
func (c *check) excuse(n *name, from, to history.Time) (last *fault) {
	for _, f := range c.faults {
		if f.Forgets && f.concerns(n) && f.from <= to && (f.to == never || from <= f.to.Add(n.lease)) {
			last = f
		}
	}
	return last
}

// stopped returns for how long between from and to the process could not run, since it was
// stopped, or the machine had no time for it.
func (c *check) stopped(p *process, from, to history.Time) (length time.Duration) {
	stops := slices.Clone(p.stalls)
	for _, f := range c.faults {
		if f.Victim == p.name {
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
