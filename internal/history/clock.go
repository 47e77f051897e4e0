package history

import "time"

// A Time is a moment in nanoseconds since 1970: processes of one machine may compare theirs. The
// zero Time means that there is none.
//
// It is the wall clock at the start of the process, plus the monotonic time since: all processes
// have one clock, as long as the machine's is not set between the starts of two of them.
type Time int64

var epoch = time.Now()

// Now returns the time. In a testing/synctest bubble it is virtual, and may be
// compared with other times of the bubble only.
func Now() Time { return At(time.Now()) }

// At returns t, which must be a time that this process read, or was computed from one. The zero
// time is the zero Time.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(epoch.UnixNano() + int64(t.Sub(epoch)))
}

// Sub returns the time that passed from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Add returns the time d after t.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }
