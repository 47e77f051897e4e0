package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A scenario is one question.
type scenario struct {
	name    string // as in -run
	title   string
	asks    string // the question, and how to read the answer
	columns string // the names of the figures that answer it, see columns

	kind  string                  // of the contenders
	only  []string                // their names, whatever their kind; nil: all of kind
	takes func(c contender) error // why a contender takes no part; nil: all do
	apart bool                    // it takes a run of its own, and is measured only when it is named
	cells []cell
}

// A cell is a scenario at one setting: a row of figures for each contender.
type cell struct {
	setting string
	network distance
	others  []distance    // of more servers, for locks over several
	pause   time.Duration // if set, hand-overs are in round trips with that pause in between
	quick   bool          // -quick measures this cell too
	rounds  int           // measurements, 1 with -quick, that alternate with those of the other contenders
	job     job           // the work of each process, without its address and contender
}

// A distance from Redis is the time that a network adds to the loopback's round trip.
type distance time.Duration

const (
	us = time.Microsecond
	ms = time.Millisecond

	loopback = distance(0)
	near     = distance(500 * us)
	far      = distance(2 * ms)
)

var distances = []distance{loopback, near, far}

func (n distance) String() string {
	if n == loopback {
		return "loopback"
	}
	return fmt.Sprintf("%gms", time.Duration(n).Seconds()*1e3)
}

func waits(c contender) error {
	if c.wakes == "" {
		return fmt.Errorf("does not wait")
	}
	return nil
}

// scenarios returns them in the order of the report.
func scenarios() []scenario {
	var uncontended, nested, one, four, handover, held, many, fleet []cell
	for _, n := range distances {
		uncontended = append(uncontended,
			cell{setting: "1 goroutine", network: n, quick: n == loopback, rounds: 2, job: job{Goroutines: 1, Duration: 150 * ms}},
			cell{setting: "64 goroutines, 64 locks", network: n, quick: n == loopback, rounds: 2, job: job{Goroutines: 64, Locks: 64, Duration: 150 * ms}})
		nested = append(nested, cell{setting: "depth 5", network: n, quick: n != far, rounds: 3, job: job{Goroutines: 1, Depth: 5, Duration: 300 * ms}})
		section := 5*ms + 5*time.Duration(n)
		handover = append(handover, cell{setting: "2 processes in turn", network: n, pause: section, quick: n == near,
			job: job{Processes: 2, Goroutines: 1, Turns: true, Section: section, Duration: time.Second}})
		for _, section := range []time.Duration{0, 50 * us, ms} {
			for _, goroutines := range []int{2, 16, 100, 1000} {
				if n == loopback || goroutines == 100 {
					one = append(one, cell{setting: fmt.Sprintf("%s goroutines, %s", count(goroutines), sections(section)), network: n,
						quick: goroutines == 2 && section == 0 || goroutines == 100 && section == 50*us && n == near,
						job:   job{Goroutines: goroutines, Section: section, Duration: 250 * ms}})
				}
			}
			c := cell{setting: "4 x 32, " + sections(section), network: n, job: job{Processes: 4, Goroutines: 32, Section: section, Duration: 500 * ms}}
			if n == near && section == 50*us {
				// A process keeps the lock for some 10 ms at a time: shares need many of these to
				// settle, and this is the setting to judge them at.
				c.quick, c.job.Duration = true, 2*time.Second
			}
			four = append(four, c)
		}
		for _, section := range []time.Duration{0, ms, 10 * ms} {
			for _, processes := range fleetSizes {
				if processes < 64 || section <= ms { // with longer sections a round takes most of a second, and shows the same
					fleet = append(fleet, fleetCell(n, processes, section, false))
				}
				if processes < 64 {
					fleet = append(fleet, fleetCell(n, processes, section, true))
				}
			}
		}
		if n != far {
			many = append(many, cell{setting: "64 readers, empty sections", network: n, quick: n == loopback, job: job{Goroutines: 64, Reads: 100, Duration: 500 * ms}})
		}
	}
	for _, locks := range []int{1_000, 10_000, 100_000} {
		// Few locks are not worth so much time: a little more than half of a short lease has one
		// renewal, of those that renew at a third and at a half.
		lease, duration := 9*time.Second, 4800*ms
		if locks == 100_000 {
			lease, duration = 30*time.Second, 20*time.Second
		}
		held = append(held, cell{setting: fmt.Sprintf("%s locks, %v lease", count(locks), lease), quick: locks == 1_000,
			job: job{Hold: true, Locks: locks, Lease: lease, Duration: duration}})
	}
	majorityOf := func(setting string, first distance, others ...distance) cell {
		return cell{setting: setting, network: first, others: others, quick: first == near, rounds: 2, job: job{Goroutines: 1, Duration: 1500 * ms}}
	}
	return []scenario{{
		name: "uncontended", title: "One caller alone", cells: uncontended,
		asks:    "What does a lock cost that is free? The time is that of Lock and Unlock together; the floor is two commands.",
		columns: "pair, rate, sent, client cpu, redis cpu, faults",
	}, {
		name: "nested", title: "Held already, by the caller", cells: nested,
		asks:    "What does a lock cost inside itself? Five levels deep; the time is that of one pair inside the outermost.",
		columns: "nested, pair, rate, sent, client cpu, faults",
		takes: func(c contender) error {
			if !c.reentrant {
				return fmt.Errorf("not reentrant: would wait for itself")
			}
			return nil
		},
	}, {
		name: "one-process", title: "Goroutines of one process want it", cells: one, takes: waits,
		asks:    "How many sections pass through one lock, and how long does a goroutine wait for its turn?",
		columns: "rate, wait, sent, client cpu, redis cpu, faults",
	}, {
		name: "four-processes", title: "Four processes of 32 goroutines want it", cells: four, takes: waits,
		asks:    "The same among real processes: what is left of the rate, and does each process get its share?",
		columns: "rate, wait, sent, client cpu, redis cpu, share, faults",
	}, {
		name: "handover", title: "From one process to another that waits", cells: handover, takes: waits,
		asks: "How long is the lock free? From the start of the Unlock to the other process holding it; in round trips as PING measures " +
			"them with pauses in between.",
		columns: "handover, sent, faults",
	}, {
		name: "hold", title: "Held for a long time", cells: held,
		asks:    "What does it cost to keep locks, and are they kept? CPU is in percent of one core.",
		columns: "client core, redis core, renewals, memory, lost, faults",
		takes: func(c contender) error {
			if !c.renews {
				return fmt.Errorf("does not renew")
			}
			return nil
		},
	}, {
		name: "fair", title: "First come, first served", kind: fair,
		asks: "Eight processes of 16 goroutines want a fair lock all the time. How long is it free, in round trips as PING measures them with pauses " +
			"in between; how many commands does a section take, of all clients; does each process get its share?",
		columns: "rate, handover, sent, share, wait, faults",
		// Little is computed here, and eight JVMs take long to warm up.
		cells: []cell{{setting: "8 x 16, empty sections", network: near, pause: 5 * ms, quick: true, job: job{Processes: 8, Goroutines: 16, Duration: 5 * time.Second, WarmUp: 1000}}},
	}, {
		name: "read-write", title: "Readers share it", kind: readWrite,
		asks: "What does it cost to read under a lock that others read under as well, and what is left of that when one section in ten writes? " +
			"Sections of 1 ms sleep.",
		columns: "rate, wait, sent, client cpu, redis cpu, share, faults",
		cells: append(many, cell{setting: "4 x 16, 9 of 10 read, 1ms sections", network: near, quick: true,
			job: job{Processes: 4, Goroutines: 16, Reads: 90, Section: ms, Duration: 2 * time.Second}}),
	}, {
		name: "majority", title: "Over five independent servers", kind: majority,
		asks:    "What does a lock cost that a majority of five servers has to grant? At the least two round trips to the third server.",
		columns: "pair, rate, faults",
		cells:   []cell{majorityOf("5 servers", near, near, near, near, near), majorityOf("5 servers, 1 to 5ms away", distance(ms), distance(2*ms), distance(3*ms), distance(4*ms), distance(5*ms))},
	}, {
		name: "fleet", title: "Many processes with one goroutine each want it", apart: true, cells: fleet,
		asks: "The lock moves to another process with almost every section. How much of the rate remains, how long does a process wait, and what does " +
			"a section cost Redis? A round is the time of as many sections as there are processes: a process that every other process precedes once " +
			"waits for about one round. Redis' time is the time of executing the commands (INFO commandstats), scripts with all commands that they call. " +
			"Sections of 1 ms and 10 ms sleep. With pauses, each process does something else for up to 8 sections (at least 8 ms) before it wants the lock again.",
		columns: "rate, share, wait, rounds, sent, redis time, redis cpu, client cpu, faults",
		only:    []string{"rlock", "rlock-fair", "redislock-5ms", "rueidislock-1"},
	}}
}

var fleetSizes = []int{2, 8, 32, 64}

// fleetSetting is the setting of so many processes in the scenario fleet, without pauses.
func fleetSetting(processes int, section time.Duration) string {
	return fmt.Sprintf("%d x 1, %s", processes, sections(section))
}

// fleetCell is measured for twenty sections of each process, so that shares settle: with ten, one
// section more or less is a tenth.
func fleetCell(n distance, processes int, section time.Duration, pauses bool) cell {
	c := cell{setting: fleetSetting(processes, section), network: n, job: job{Processes: processes, Goroutines: 1, Section: section}}
	switch {
	case processes < 64 && section == ms && !pauses && n != far: // the settings of the targets
		c.quick, c.rounds = true, 3
	case processes == 2:
		c.quick = section == 0 && n == loopback && !pauses
	case processes == 8:
		c.quick = section == ms || !pauses && (section == 0 && n != far || section == 10*ms && n == near)
	}
	if pauses {
		c.setting += ", pauses"
		c.job.Pause = 8 * max(section, ms)
	}
	round := max(time.Duration(processes)*(section+time.Duration(n)+500*us), section+c.job.Pause)
	c.job.Duration = max(time.Second, 20*round)
	return c
}

// fit returns the cells that a run measures, complete, with its options.
func (s scenario) fit(o options) (cells []cell) {
	var seen []string
	for _, c := range s.cells {
		if o.quick && !c.quick || len(o.networks) > 0 && slices.Contains(seen, c.setting) {
			continue
		}
		seen = append(seen, c.setting)
		j := &c.job
		j.Processes, j.Locks, j.Depth, c.rounds = max(j.Processes, 1), max(j.Locks, 1), max(j.Depth, 1), max(c.rounds, 1)
		j.WarmUp = cmp.Or(j.WarmUp, 10_000)
		if o.quick {
			c.rounds, j.WarmUp = 1, min(j.WarmUp, 2_000)
		}
		if !j.Hold {
			j.Duration = time.Duration(float64(j.Duration) * o.scale)
		} else if j.Locks == 100_000 {
			j.Duration = cmp.Or(o.hold, j.Duration)
		}
		if len(o.networks) == 0 {
			cells = append(cells, c)
		}
		for _, n := range o.networks { // each setting once for each
			c.network, c.others = n, slices.Repeat([]distance{n}, len(c.others))
			cells = append(cells, c)
		}
	}
	return cells
}

// compares reports whether the contender is in the scenario's tables.
func (s scenario) compares(c contender) bool {
	if s.only != nil {
		return slices.Contains(s.only, c.name)
	}
	return c.kind == s.kind && c.name != "redislock-5ms"
}

// refuses returns why a contender takes no part, "" if it does.
func (s scenario) refuses(c contender) string {
	if s.takes != nil {
		if err := s.takes(c); err != nil {
			return err.Error()
		}
	}
	return c.absent()
}

func (s scenario) String() string { return s.name }

// named returns those of all whose names are in a comma-separated list.
func named[T fmt.Stringer](what, list string, all []T) (chosen []T, err error) {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(x T) bool { return x.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("bench: no %s is called %q: there are %s", what, name, names(all))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func names[T fmt.Stringer](all []T) string {
	list := make([]string, len(all))
	for i, x := range all {
		list[i] = x.String()
	}
	return strings.Join(list, ",")
}

func sections(d time.Duration) string {
	if d == 0 {
		return "empty sections"
	}
	return d.String() + " sections"
}

// count writes a number with its thousands apart.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
