package elect

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// The first and the longest pause between attempts that Redis refuses; each is twice the one
// before.
const firstPause, lastPause = 500 * time.Millisecond, 10 * time.Second

// warnEvery is the least time between two messages about refused attempts.
const warnEvery = time.Minute

// A retry paces the attempts of one call while Redis refuses them, for example because a right is
// missing: an operator may cure this at any time.
type retry struct {
	name   string        // the name of the lock
	pause  time.Duration // the pause before the next attempt; 0 after an attempt that succeeded
	warned time.Time     // the time of the last message
}

// isFinal reports whether no later attempt can succeed.
func isFinal(err error) bool {
	return errors.Is(err, rlock.ErrClosed) || errors.Is(err, rlock.ErrInvalidName)
}

// wait logs the error of an attempt, and pauses, or returns sooner if ctx ends.
func (r *retry) wait(ctx context.Context, err error) {
	r.pause = min(max(2*r.pause, firstPause), lastPause)
	if time.Since(r.warned) >= warnEvery {
		r.warned = time.Now()
		slog.Warn("elect: the lock cannot be used; trying again", "lock", r.name, "err", err)
	}
	select {
	case <-time.After(r.pause):
	case <-ctx.Done():
	}
}

// reset notes an attempt that succeeded.
func (r *retry) reset() { r.pause = 0 }
