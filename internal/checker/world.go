package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

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
			p = &process{ended: never}
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
