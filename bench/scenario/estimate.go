package scenario

import (
	"time"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/worker"
)

// Estimate returns how long one measurement of the contender in the cell takes, from the
// times of earlier runs: the window, and the work before and after. It is for the remaining
// time, and for the limits of a whole run.
func (c Cell) Estimate(who contender.Contender) time.Duration {
	j := c.Job
	took := j.Duration + 50*time.Millisecond + time.Duration(j.Processes-1)*10*time.Millisecond // processes begin and end
	if who.Program != nil {
		took += 500*time.Millisecond + time.Duration(j.Processes)*150*time.Millisecond + 100*c.Network.RoundTrip
	}
	took += 30 * (c.Pause + c.Network.RoundTrip)
	if j.Kind == worker.Hold {
		each := 60 * time.Microsecond // to take a lock and to give it back
		if who.Program != nil {
			each *= 3
		}
		return took + time.Duration(j.Locks)*each
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

// Prepare returns how long it takes to start the processes of a contender's own program, as
// many as the cells need at a time.
func Prepare(cells []Cell) (took time.Duration) {
	processes := 0
	for _, c := range cells {
		for ; processes < c.Job.Processes; processes++ {
			took += 1500*time.Millisecond + time.Duration(c.Job.WarmUp)*200*time.Microsecond
		}
	}
	return took
}
