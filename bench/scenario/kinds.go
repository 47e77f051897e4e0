package scenario

import (
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/worker"
)

// The scenarios of locks with further properties than exclusion.

func fair() Scenario {
	return Scenario{
		Name:  "fair",
		Kind:  contender.Fair,
		Title: "First come, first served",
		Asks: "Eight processes of 16 goroutines want a fair lock all the time. How long is it free, in round trips as PING measures them with pauses " +
			"in between; how many commands does a section take, of all clients; does each process get its share?",
		Columns: []string{"rate", "handover", "round trips", "sent", "process share", "goroutine share", "wait", "faults"},
		cells: func(s Size) []Cell {
			// Little is computed here, and eight JVMs take long to warm up.
			job := worker.Job{Kind: worker.Loop, Processes: 8, Goroutines: 16, Duration: s.window(1000, 5000), WarmUp: 1000}
			if s.Quick {
				job.Processes = 4
			}
			return []Cell{{Setting: count(job.Processes) + " x 16, empty sections", Network: halfMillisecond, Pause: 5 * time.Millisecond, Job: job}}
		},
	}
}

func readWrite() Scenario {
	return Scenario{
		Name:  "read-write",
		Kind:  contender.ReadWrite,
		Title: "Readers share it",
		Asks: "What does it cost to read under a lock that others read under as well, and what is left of that when one section in ten writes? " +
			"Sections of 1 ms sleep.",
		Columns: []string{"rate", "wait", "sent", "client cpu", "redis cpu", "process share", "faults"},
		cells: func(s Size) (cells []Cell) {
			for _, n := range pick(s, networks(1), networks(2)) {
				cells = append(cells, Cell{Setting: "64 readers, empty sections", Network: n,
					Job: worker.Job{Kind: worker.Loop, Goroutines: 64, Reads: 100, Duration: s.window(300, 500)}})
			}
			return append(cells, Cell{Setting: "4 x 16, 9 of 10 read, 1ms sections", Network: halfMillisecond,
				Job: worker.Job{Kind: worker.Loop, Processes: 4, Goroutines: 16, Reads: 90, Section: time.Millisecond, Duration: s.window(500, 2000)}})
		},
	}
}

func majority() Scenario {
	return Scenario{
		Name:    "majority",
		Kind:    contender.Majority,
		Title:   "Over five independent servers",
		Asks:    "What does a lock cost that a majority of five servers has to grant? At the least two round trips to the third server.",
		Columns: []string{"pair", "rate", "faults"},
		cells: func(s Size) (cells []Cell) {
			add := func(near Network, others ...Network) {
				cells = append(cells, Cell{Setting: "5 servers", Network: near, Others: others, Rounds: pick(s, 1, 2),
					Job: worker.Job{Kind: worker.Loop, Goroutines: 1, Duration: s.window(600, 1500)}})
			}
			add(halfMillisecond, halfMillisecond, halfMillisecond, halfMillisecond, halfMillisecond)
			if !s.Quick {
				add(Network{"1 to 5ms", time.Millisecond}, away(2), away(3), away(4), away(5))
			}
			return cells
		},
	}
}

func away(ms int) Network {
	d := time.Duration(ms) * time.Millisecond
	return Network{d.String(), d}
}
