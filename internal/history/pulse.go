package history

import (
	"context"
	"time"
)

const (
	// beat is the interval of a pulse, and skipped the delay that it notes.
	beat    = 20 * time.Millisecond
	skipped = beat
)

// Pulse notes, until ctx ends, each time at which the process could not run because the
// machine had no time for it: its work of that time is done later.
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
