package lease

import "time"

// Drift returns by how much a lease of length ttl must be believed to be shorter: a hundredth of
// ttl and 2 ms, as in the Redlock algorithm, for clocks that run at different rates, and one tick
// of the wheel, since the keeper may report so late to the holder that the lease is over.
//
// A lease no longer than its drift is never valid.
func Drift(ttl, tick time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond + tick
}
