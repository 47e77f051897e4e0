package history

import (
	"context"
	"time"
)

const (
	// beat is how often a pulse wakes, and skipped by how much later than it asked
	// for it must wake to note it.
	beat    = 20 * time.Millisecond
	skipped = beat
)

// Pulse notes, until ctx ends, each time at which the process could not run because
// the machine had no time for it: what it could have done meanwhile, it does later.
func (r *Recorder) Pulse(ctx context.Context) {
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for due := time.Now().Add(beat); ; due = time.Now().Add(beat) {
		timer.Reset(beat)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if stall := time.Since(due); stall > skipped {
			r.write(Event{At: Now(), Kind: Stalled, Stall: stall})
		}
	}
}
