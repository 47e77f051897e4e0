package wire

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// leastPatience is the patience of a client with the timeouts that suit locks.
const leastPatience = 3 * time.Second

// patienceOf returns how long a command may take before its outcome counts as unknown.
// It is a little more than what a peer is given before the connection is cut, so that
// the reason is known more often. A longer ConnWriteTimeout makes it longer.
func patienceOf(o rueidis.ClientOption) time.Duration {
	return max(leastPatience, o.ConnWriteTimeout+time.Second)
}

// freshness is how long a deadline hands out the same context.
const freshness = time.Second

// A deadline hands out contexts that end by themselves after its patience or up to
// freshness later, and not before: an Unlock must not end with the caller's context.
// Many commands share one, since a timer for each would cost more than all the
// rest that the client does for an Unlock.
type deadline struct {
	patience time.Duration

	mu     sync.Mutex // protects following
	ctx    context.Context
	cancel context.CancelFunc
	fresh  time.Time // until when ctx may be handed out
	closed bool      // only contexts that have ended are handed out
}

func (d *deadline) context(now time.Time) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || !d.closed && now.After(d.fresh) {
		// The former one is left to its timer: commands may be under way with it.
		d.fresh = now.Add(freshness)
		d.ctx, d.cancel = context.WithDeadline(context.Background(), d.fresh.Add(d.patience))
		if d.closed {
			d.cancel()
		}
	}
	return d.ctx
}

// stop ends the context handed out last, with what still uses it, and every one that
// is handed out from now on.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.cancel != nil {
		d.cancel()
	}
}

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
	if err == nil {
		return nil // without a look for its cause, which takes a mutex
	}
	if cause := context.Cause(ctx); cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
