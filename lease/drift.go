package lease

import "time"

// Drift is how much less than ttl a lease of that length is believed to last: a hundredth of ttl
// and 2 ms, as in the Redlock algorithm, for clocks that run at different rates, and one tick of
// the wheel, since that is how late the keeper may report to the holder that the lease is over.
//
// A lease no longer than its drift is never valid.
func Drift(ttl, tick time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond + tick
}
