package wire

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// After a fault that waiting may cure, a command is sent again after FirstRetry, doubling to
// LastRetry.
const FirstRetry, LastRetry = 10 * time.Millisecond, 500 * time.Millisecond

// Jitter returns between half of d and d, so that waiters that failed together
// do not come back together.
func Jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// Milliseconds is as long as a Duration can be at most: others' leases may be
// longer.
func Milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// TimeUp says why a wait is over, and what Redis said last if that was an error.
func TimeUp(ctx context.Context, last error) error {
	if last == nil {
		return Over(ctx)
	}
	return fmt.Errorf("%w; Redis said last: %w", Over(ctx), last)
}

// Over returns why ctx is over, nil if it is not: its error, and its cause if that says
// more, as for the context of a hold that was lost.
func Over(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
