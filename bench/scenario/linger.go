package scenario

import (
	"time"

	"github.com/go-rlock/rlock/bench/worker"
)

// linger compares a lock that lingers with one that does not.
func linger() Scenario {
	return Scenario{
		Name:  "linger",
		Apart: true,
		Title: "A lock that comes back",
		Asks: "What does Config.Linger gain where a process uses a name again and again, and what does it cost where another one wants it? " +
			"The last columns are about the locks of names that are another process's own.",
		Columns:  []string{"rate", "pair", "sent", "away", "handover", "client cpu", "redis cpu", "faults"},
		compares: []string{"rlock", "rlock-linger"},
		cells: func(s Size) (cells []Cell) {
			for _, n := range networks(2) {
				rounds := pick(s, 1, 3)
				cells = append(cells,
					Cell{Setting: "1 goroutine, one name", Network: n, Rounds: rounds,
						Job: worker.Job{Kind: worker.Loop, Goroutines: 1, Duration: s.window(300, 1000)}},
					Cell{Setting: "20 processes, 1000 names, 95 % its own", Network: n, Rounds: rounds,
						Job: worker.Job{Kind: worker.Loop, Processes: 20, Goroutines: 1, Locks: 1000, Home: 95, Duration: s.window(1000, 3000)}},
					Cell{Setting: "the same, pauses of up to 20ms", Network: n, Rounds: rounds,
						Job: worker.Job{Kind: worker.Loop, Processes: 20, Goroutines: 1, Locks: 1000, Home: 95, Pause: 20 * time.Millisecond, Duration: s.window(1000, 3000)}},
					Cell{Setting: "2 processes in turn", Network: n, Rounds: rounds,
						Job: worker.Job{Kind: worker.Handover, Processes: 2, Goroutines: 1, Section: time.Millisecond, Duration: s.window(1000, 3000)}},
					Cell{Setting: "2 processes, empty sections", Network: n, Rounds: rounds,
						Job: worker.Job{Kind: worker.Loop, Processes: 2, Goroutines: 1, Duration: s.window(1000, 3000)}},
					Cell{Setting: "2 processes, pauses of up to 5ms", Network: n, Rounds: rounds,
						Job: worker.Job{Kind: worker.Loop, Processes: 2, Goroutines: 1, Pause: 5 * time.Millisecond, Duration: s.window(1000, 3000)}})
			}
			return cells
		},
	}
}
