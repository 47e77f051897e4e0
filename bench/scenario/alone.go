package scenario

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/worker"
)

// The scenarios without waiting.

func uncontended() Scenario {
	return Scenario{
		Name:    "uncontended",
		Title:   "One caller alone",
		Asks:    "What does a lock cost that is free? The time is that of Lock and Unlock together; the floor is two commands.",
		Columns: []string{"pair", "rate", "sent", "client cpu", "redis cpu", "faults"},
		cells: func(s Size) (cells []Cell) {
			window := s.window(100, 150)
			for _, n := range pick(s, networks(1), networks(3)) {
				cells = append(cells,
					Cell{Setting: "1 goroutine", Network: n, Rounds: pick(s, 1, 2), Job: worker.Job{Kind: worker.Loop, Goroutines: 1, Duration: window}},
					Cell{Setting: "64 goroutines, 64 locks", Network: n, Rounds: pick(s, 1, 2), Job: worker.Job{Kind: worker.Loop, Goroutines: 64, Locks: 64, Duration: window}})
			}
			return cells
		},
	}
}

func nested() Scenario {
	return Scenario{
		Name:    "nested",
		Title:   "Held already, by the caller",
		Asks:    "What does a lock cost inside itself? Five levels deep; the time is that of one pair inside the outermost.",
		Columns: []string{"nested", "pair", "rate", "sent", "client cpu", "faults"},
		takes:   func(c contender.Contender) bool { return c.Reentrant },
		refuses: "not reentrant: would wait for itself",
		cells: func(s Size) (cells []Cell) {
			for _, n := range pick(s, networks(2), networks(3)) {
				cells = append(cells, Cell{Setting: "depth 5", Network: n, Rounds: pick(s, 1, 3),
					Job: worker.Job{Kind: worker.Nest, Goroutines: 1, Depth: 5, Duration: s.window(200, 300)}})
			}
			return cells
		},
	}
}

func hold() Scenario {
	return Scenario{
		Name:  "hold",
		Title: "Held for a long time",
		Asks: "What does it cost to keep locks, and are they kept? CPU is in percent of one core; the latest renewal is the age of the oldest " +
			"lease seen, as a share of the lease (1 is too late).",
		Columns: []string{"client core", "redis core", "renewals", "memory", "goroutines", "latest", "lost", "faults"},
		takes:   func(c contender.Contender) bool { return c.Renews },
		refuses: "does not renew",
		cells: func(s Size) (cells []Cell) {
			duration, lease := cmp.Or(s.Hold, pick(s, 2*time.Second, 20*time.Second)), pick(s, 3*time.Second, 30*time.Second)
			for _, locks := range pick(s, []int{1_000}, []int{1_000, 10_000, 100_000}) {
				job := worker.Job{Kind: worker.Hold, Locks: locks, Lease: lease, Duration: duration}
				if locks < 100_000 && !s.Quick {
					// Few locks are not worth so much time: a little more than half of a
					// short lease has one renewal, of those that renew at a third and at a half.
					job.Lease = lease * 3 / 10
					job.Duration = min(duration, job.Lease*16/30)
				}
				cells = append(cells, Cell{Setting: fmt.Sprintf("%s locks, %v lease", count(locks), job.Lease), Network: loopback, Job: job})
			}
			return cells
		},
	}
}
