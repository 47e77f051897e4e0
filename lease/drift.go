package lease

import "time"

// Drift returns the time by which a lease of length ttl must be believed to be shorter. It is the
// sum of a hundredth of ttl and 2 ms, as in the Redlock algorithm, for clocks that run at different
// rates; and of one tick of the wheel, the delay with which the keeper may tell the holder that its
// lease is over.
//
// A lease no longer than its drift is never valid.
func Drift(ttl, tick time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond + tick
}
