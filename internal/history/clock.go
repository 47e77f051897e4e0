package history

import "time"

// A Time is a moment on the clock of the machine, in nanoseconds: processes of
// one machine may compare theirs. The zero Time means that there is none.
//
// On Linux it is CLOCK_MONOTONIC. Elsewhere it is the wall clock at the start of the
// process, plus the monotonic time since.
type Time int64

// epoch is one moment on both clocks, Go's and the machine's. Go's monotonic clock
// has an origin of its own in each process, but runs as the machine's does.
var epoch, machineEpoch = readEpoch()

// readEpoch reads the clocks one after the other, and keeps the closest of a few
// readings, since the process may be stopped in between.
func readEpoch() (now time.Time, at int64) {
	closest := time.Duration(1<<63 - 1)
	for range 10 {
		before := time.Now()
		read := machine()
		if took := time.Since(before); took < closest {
			closest, now, at = took, before, read
		}
	}
	return now, at
}

// Now returns the time. In a testing/synctest bubble it is virtual, and may be
// compared with other times of the bubble only.
func Now() Time { return At(time.Now()) }

// At returns the time of the machine's clock at t, which must be a time that
// this process read, or was computed from one. The zero time is the zero Time.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(machineEpoch + int64(t.Sub(epoch)))
}

// Sub returns the time that passed from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Add returns the time d after t.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }
