package scenario

import (
	"cmp"
	"fmt"
	"strconv"
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
		Asks: "The lock moves to another process with almost every section. How much of the rate remains, how long does a process wait, and what does " +
			"a section cost Redis? A round is the time of as many sections as there are processes: a process that every other process precedes once " +
			"waits for about one round. \"The same by sections\" counts the sections that began during the wait instead of their time: where it is less, " +
			"the machine was slow. Redis' time is the time of executing the commands (INFO commandstats), scripts with all commands that they call. " +
			"Sections of 1 ms and 10 ms sleep. With pauses, each process does something else for up to 8 sections (at least 8 ms) before it wants the lock again.",
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
