package driver

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// A clock reads the two clocks of package core: the monotonic one, and one that advances by the larger of
// what the monotonic and the wall clock advance. A monotonic clock stands still while the machine sleeps
// (golang/go#24595), and Redis does not.
type clock struct {
	start time.Time
	wall  int64 // what the wall clock has shown then, in nanoseconds

	// skew is by how much the wall clock was ahead of the monotonic one when that was last noted, and ahead
	// is the sum of all steps ahead that were noted: in nanoseconds.
	skew, ahead atomic.Int64
	mu          sync.Mutex // held to change both
}

// stepNoise is the largest step of the wall clock that is not noted: it is adjusted all the time, and the
// two clocks are not read at the same moment. The margin of a lease covers it.
const stepNoise = time.Millisecond / 2

// now reads the clocks. It is called with the mutex of a shard held: a goroutine that is delayed between
// the clock and the mutex would believe a lease that has ended.
func (c *clock) now() core.Now { return c.at(time.Now()) }

func (c *clock) at(t time.Time) core.Now {
	monotonic := int64(t.Sub(c.start))
	skew := t.UnixNano() - c.wall - monotonic
	if step := skew - c.skew.Load(); step > int64(stepNoise) || step < -int64(stepNoise) {
		c.note(skew)
	}
	return core.Now{Time: core.Time(monotonic), Safe: core.SafeTime(monotonic + c.ahead.Load())}
}

// note notes a step of the wall clock. A step back is no reason to believe a lease for longer.
func (c *clock) note(skew int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := skew - c.skew.Load()
	if step > 0 {
		c.ahead.Add(step)
	}
	c.skew.Store(skew)
}

// time returns what the monotonic clock shows as a time.
func (c *clock) time(t core.Time) time.Time { return c.start.Add(time.Duration(t)) }

// safe returns when the monotonic clock will show at least that much, as a time.
func (c *clock) safe(t core.SafeTime) time.Time {
	return c.start.Add(time.Duration(int64(t) - c.ahead.Load()))
}
