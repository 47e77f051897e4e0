package scenario

import (
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/worker"
)

// Estimate returns how long one measurement of the contender in the cell takes, by
// what runs have taken: the window, and what comes before and after. It is for the
// time that is left, and for the limits of a whole run.
func (c Cell) Estimate(who contender.Contender) time.Duration {
	j := c.Job
	took := j.Duration + 50*time.Millisecond // processes begin and end
	if who.Program != nil {
		took += 500*time.Millisecond + time.Duration(j.Processes)*150*time.Millisecond + 100*c.Network.RoundTrip
	}
	switch j.Kind {
	case worker.Hold:
		each := 60 * time.Microsecond // to take a lock and to give it back
		if who.Program != nil {
			each *= 3
		}
		return took + time.Duration(j.Locks)*each
	case worker.Handover:
		return took + 50*(j.Section+c.Network.RoundTrip) // round trips to compare with
	}
	switch rivals := j.Processes * j.Goroutines / j.Locks; {
	case rivals < 2:
		return took
	case rivals > 16 && who.Wakes == "sleep":
		return took + j.Drain // not in any order: some still wait when the time is up
	default:
		return took + j.Drain/8
	}
}

// Prepare returns how long it takes, once, to have the processes that the contender
// needs in any of the cells.
func Prepare(who contender.Contender, cells []Cell) time.Duration {
	processes := 0
	for _, c := range cells {
		processes = max(processes, c.Job.Processes)
	}
	if who.Program == nil || processes == 0 {
		return 0
	}
	return time.Duration(processes) * (2*time.Second + time.Duration(cells[0].Job.WarmUp)*200*time.Microsecond)
}
