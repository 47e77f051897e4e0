package scenario

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/worker"
)

// The scenarios in which many callers want the same lock.

var sections = []time.Duration{0, 50 * time.Microsecond, time.Millisecond}

func oneProcess() Scenario {
	return Scenario{
		Name:    "one-process",
		Title:   "Goroutines of one process want it",
		Asks:    "How many sections pass through one lock, and how long does a goroutine wait for its turn?",
		Columns: []string{"rate", "wait", "sent", "client cpu", "redis cpu", "goroutine share", "faults"},
		takes:   contender.Contender.Waits,
		refuses: "does not wait",
		cells: func(s Size) (cells []Cell) {
			add := func(n Network, goroutines int, section time.Duration) {
				cells = append(cells, Cell{
					Setting: fmt.Sprintf("%s goroutines, %s", count(goroutines), sectionOf(section)), Network: n,
					Job: worker.Job{Kind: worker.Loop, Goroutines: goroutines, Section: section, Duration: s.window(150, 250)}})
			}
			if s.Quick {
				add(loopback, 2, 0)
				add(loopback, 100, 0)
				add(halfMillisecond, 100, sections[1])
				return cells
			}
			for _, goroutines := range []int{2, 16, 100, 1000} {
				for _, section := range sections {
					add(loopback, goroutines, section)
				}
			}
			for _, n := range Networks()[1:] {
				for _, section := range sections {
					add(n, 100, section)
				}
			}
			return cells
		},
	}
}

func fourProcesses() Scenario {
	return Scenario{
		Name:    "four-processes",
		Title:   "Four processes of 32 goroutines want it",
		Asks:    "The same among real processes: what is left of the rate, and does each process get its share?",
		Columns: []string{"rate", "wait", "sent", "client cpu", "redis cpu", "process share", "goroutine share", "faults"},
		takes:   contender.Contender.Waits,
		refuses: "does not wait",
		cells: func(s Size) (cells []Cell) {
			for _, n := range pick(s, []Network{halfMillisecond}, networks(3)) {
				for _, section := range pick(s, sections[1:2], sections) {
					window := s.window(300, 500)
					if section == sections[1] && n == halfMillisecond {
						// A process keeps the lock for some 10 ms at a time: shares need
						// many of these to settle, and this is the setting to judge them at.
						window = s.window(600, 2000)
					}
					cells = append(cells, Cell{Setting: "4 x 32, " + sectionOf(section), Network: n,
						Job: worker.Job{Kind: worker.Loop, Processes: 4, Goroutines: 32, Section: section, Duration: window}})
				}
			}
			return cells
		},
	}
}

func handover() Scenario {
	return Scenario{
		Name:  "handover",
		Title: "From one process to another that waits",
		Asks: "How long is the lock free? From the start of the Unlock to the other process holding it; in round trips as PING measures " +
			"them with pauses in between.",
		Columns: []string{"handover", "round trips", "sent", "faults"},
		takes:   contender.Contender.Waits,
		refuses: "does not wait",
		cells: func(s Size) (cells []Cell) {
			for _, n := range pick(s, []Network{halfMillisecond}, networks(3)) {
				section := 5*time.Millisecond + 5*n.RoundTrip
				cells = append(cells, Cell{Setting: "2 processes in turn", Network: n, Pause: section,
					Job: worker.Job{Kind: worker.Handover, Processes: 2, Goroutines: 1, Section: section, Duration: s.window(400, 1000)}})
			}
			return cells
		},
	}
}

func sectionOf(d time.Duration) string {
	if d == 0 {
		return "empty sections"
	}
	return d.String() + " sections"
}

// count writes a number with its thousands apart.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
