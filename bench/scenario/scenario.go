// Package scenario defines the measurements: each scenario has a question, its settings, and
// the contenders that can take part.
package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/worker"
)

// A Scenario is one question.
type Scenario struct {
	Name  string // as in -run
	Kind  contender.Kind
	Title string
	Asks  string // the question, and how to read the answer

	// Apart: it takes a run of its own, and is measured only when it is named.
	Apart bool

	// Columns are the figures that answer it, by the names of package report.
	Columns []string

	cells func(Size) []Cell
	// compares are the names of the contenders, whatever their kind; nil: all of Kind.
	compares []string
	// takes reports whether a contender takes part; nil: all do. refuses says why one does not.
	takes   func(contender.Contender) bool
	refuses string
}

// A Cell is a scenario at one setting: one row of figures for each contender.
type Cell struct {
	Scenario string
	Setting  string
	Network  Network
	Others   []Network     // of more servers, for locks over several
	Pause    time.Duration // if set, hand-overs are in round trips with that pause in between
	Rounds   int           // measurements, alternating with those of the other contenders
	Job      worker.Job    // the work of each process, without its address and contender
}

// A Network is a distance from Redis.
type Network struct {
	Name      string
	RoundTrip time.Duration // added to the loopback's
}

// Networks are the networks of the measurements.
func Networks() []Network {
	return []Network{loopback, halfMillisecond, twoMilliseconds}
}

var (
	loopback        = Network{"loopback", 0}
	halfMillisecond = Network{"0.5ms", 500 * time.Microsecond}
	twoMilliseconds = Network{"2ms", 2 * time.Millisecond}
)

// A Size is the length and amount of the measurements.
type Size struct {
	Quick bool

	// Scale multiplies all times. Defaults to 1.
	Scale float64
	// Hold is how long 100 000 locks are held in the scenario hold. It defaults to 20 s, and
	// to 2 s for Quick.
	Hold time.Duration
	// Networks replaces those of each scenario, if there are any.
	Networks []Network
}

// All returns the scenarios in the order of the report.
func All() []Scenario {
	return []Scenario{
		uncontended(), nested(), oneProcess(), fourProcesses(), handover(), hold(), fair(), readWrite(), majority(), fleet(),
	}
}

// Select returns the scenarios whose names are in a comma-separated list; for ""
// all of them but those that take a run of their own.
func Select(list string) ([]Scenario, error) {
	if list == "" {
		return slices.DeleteFunc(All(), func(s Scenario) bool { return s.Apart }), nil
	}
	var chosen []Scenario
	for name := range strings.SplitSeq(list, ",") {
		all := All()
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
		if i < 0 {
			names := make([]string, len(all))
			for i, s := range all {
				names[i] = s.Name
			}
			return nil, fmt.Errorf("scenario: none is called %q: there are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Compares reports whether the contender is in the scenario's tables.
func (s Scenario) Compares(c contender.Contender) bool {
	if s.compares != nil {
		return slices.Contains(s.compares, c.Name)
	}
	return c.Kind == s.Kind && c.Only == ""
}

// Refuses returns why the contender takes no part, "" if it does.
func (s Scenario) Refuses(c contender.Contender) string {
	// Every cell of a scenario has the same kind of job.
	if c.Program != nil && !slices.Contains(c.Does, string(s.cells(Size{Quick: true})[0].Job.Kind)) {
		return "its program does not know how"
	}
	if s.takes == nil || s.takes(c) {
		return ""
	}
	return s.refuses
}

// Cells returns the cells to measure, in order.
func (s Scenario) Cells(size Size) []Cell {
	cells := s.cells(size)
	if len(size.Networks) > 0 {
		cells = onEach(size.Networks, cells)
	}
	for i := range cells {
		cells[i].Scenario = s.Name
		size.fill(&cells[i])
	}
	return cells
}

// onEach returns each setting once for each network.
func onEach(networks []Network, cells []Cell) []Cell {
	var seen []string
	var all []Cell
	for _, c := range cells {
		if slices.Contains(seen, c.Setting) {
			continue
		}
		seen = append(seen, c.Setting)
		for _, n := range networks {
			c.Network = n
			c.Others = slices.Repeat([]Network{n}, len(c.Others))
			all = append(all, c)
		}
	}
	return all
}

// fill sets the defaults of a cell.
func (s Size) fill(c *Cell) {
	scale := s.Scale
	if scale == 0 {
		scale = 1
	}
	j := &c.Job
	j.Processes = max(j.Processes, 1)
	j.Locks = max(j.Locks, 1)
	c.Rounds = max(c.Rounds, 1)
	if j.Kind != worker.Hold {
		j.Duration = time.Duration(float64(j.Duration) * scale)
	}
	j.WarmUp = cmp.Or(j.WarmUp, pick(s, 2_000, 10_000))
	// A stall is longer than the longest sleep between two tries, 512 ms.
	j.Stall = 1000 * time.Millisecond
	j.Drain = 1100 * time.Millisecond
}

// networks returns the first n of all networks, from near to far.
func networks(n int) []Network { return Networks()[:n] }

// pick returns quick or full.
func pick[T any](s Size, quick, full T) T {
	if s.Quick {
		return quick
	}
	return full
}

// window returns the length of a window, given in milliseconds.
func (s Size) window(quick, full int) time.Duration {
	return time.Duration(pick(s, quick, full)) * time.Millisecond
}
