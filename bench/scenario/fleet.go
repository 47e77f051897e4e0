package scenario

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/bench/worker"
)

// FleetSizes are the numbers of processes of the scenario fleet, from small to
// large.
func FleetSizes() []int { return []int{2, 8, 32, 64} }

// FleetSetting is the setting of so many processes in the scenario fleet, without
// pauses.
func FleetSetting(processes int, section time.Duration) string {
	return fmt.Sprintf("%s x 1, %s", count(processes), sectionOf(section))
}

// fleetRounds is the number of sections of each process of a fleet in a window, so that
// shares settle: with ten, one section more or less is a tenth.
const fleetRounds = 20

func fleet() Scenario {
	return Scenario{
		Name:  "fleet",
		Apart: true,
		Title: "Many processes with one goroutine each want it",
		Asks: "The lock moves to another process with almost every section. What is left of the rate, how long does a process wait, and what does " +
			"a section cost Redis? A round is the time of as many sections as there are processes: the wait of a process that every other one precedes " +
			"once is about 1. The same by sections counts those that began during the wait, whatever time they took: what it lacks is the machine's. Redis' time is that of executing the commands (INFO commandstats), scripts with all that they call. Sections of 1 ms and 10 ms sleep. " +
			"With pauses, each process does something else for up to 8 sections (at least 8 ms) before it wants the lock again.",
		Columns:  []string{"rate", "process share", "wait", "rounds", "turns", "sent", "redis time", "redis cpu", "client cpu", "faults"},
		compares: []string{"rlock", "rlock-fair", "redislock-5ms", "rueidislock-1"},
		cells: func(s Size) (cells []Cell) {
			add := func(n Network, processes int, section time.Duration, pauses bool, rounds int) {
				c := Cell{Setting: FleetSetting(processes, section), Network: n, Rounds: rounds, Job: worker.Job{Kind: worker.Loop, Processes: processes, Goroutines: 1, Section: section}}
				if pauses {
					c.Setting += ", pauses"
					c.Job.Pause = 8 * max(section, time.Millisecond)
				}
				round := max(time.Duration(processes)*(section+n.RoundTrip+500*time.Microsecond), section+c.Job.Pause)
				c.Job.Duration = max(s.window(700, 1000), fleetRounds*round)
				cells = append(cells, c)
			}
			const ms = time.Millisecond
			if s.Quick {
				for _, processes := range FleetSizes()[:3] {
					add(loopback, processes, ms, false, 1)
					add(halfMillisecond, processes, ms, false, 1)
				}
				add(loopback, 2, 0, false, 1)
				add(loopback, 8, 0, false, 1)
				add(halfMillisecond, 8, 0, false, 1)
				add(halfMillisecond, 8, 10*ms, false, 1)
				add(twoMilliseconds, 8, ms, false, 1)
				add(loopback, 8, ms, true, 1)
				add(halfMillisecond, 8, ms, true, 1)
				return cells
			}
			for _, n := range Networks() {
				for _, section := range []time.Duration{0, ms, 10 * ms} {
					for _, processes := range FleetSizes() {
						switch {
						case processes == 64 && section > ms: // a round takes most of a second, and shows the same as with 32
						case (processes == 8 || processes == 32) && section == ms && n != twoMilliseconds:
							add(n, processes, section, false, 3) // the settings of the targets
							add(n, processes, section, true, 1)
						case processes == 64:
							add(n, processes, section, false, 1)
						default:
							add(n, processes, section, false, 1)
							add(n, processes, section, true, 1)
						}
					}
				}
			}
			return cells
		},
	}
}
