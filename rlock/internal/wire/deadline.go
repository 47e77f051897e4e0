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

// leastPatience is the patience of a client with rlock's default timeouts.
const leastPatience = 3 * time.Second

// patienceOf returns the time after which the outcome of a command counts as unknown. It is a
// little longer than the time after which rueidis ends a silent connection: the error of rueidis
// says more.
func patienceOf(o rueidis.ClientOption) time.Duration {
	return max(leastPatience, o.ConnWriteTimeout+time.Second)
}

// freshness is the time for which a deadline returns the same context.
const freshness = time.Second

// A deadline makes contexts that end after its patience, or up to freshness later, for commands
// that must not end with their caller's context. Many commands share a context: a timer for each
// would cost more than the rest of an Unlock.
type deadline struct {
	patience time.Duration

	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelFunc
	fresh  time.Time // the end of the time for which context returns ctx
	closed bool      // all contexts have ended
}

func (d *deadline) context(now time.Time) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || !d.closed && now.After(d.fresh) {
		// The timer of the former context is not stopped, since commands may use the context.
		d.fresh = now.Add(freshness)
		d.ctx, d.cancel = context.WithDeadline(context.Background(), d.fresh.Add(d.patience))
		if d.closed {
			d.cancel()
		}
	}
	return d.ctx
}

// stop ends the last context, and all that context returns from now on.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.cancel != nil {
		d.cancel()
	}
}

// FirstRetry and LastRetry are the first and the longest pause before a retry.
const FirstRetry, LastRetry = 10 * time.Millisecond, 500 * time.Millisecond

// Jitter returns a random time between half of d and d, so that waiters that failed together do not
// retry together.
func Jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// Milliseconds converts ms to a Duration, or to the longest one: the lease of another program may
// be longer than any Duration.
func Milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// TimeUp returns the error of a wait that ctx has ended. It has last, the last error of Redis,
// unless last is nil.
func TimeUp(ctx context.Context, last error) error {
	if last == nil {
		return Over(ctx)
	}
	return fmt.Errorf("%w; last error: %w", Over(ctx), last)
}

// Over returns the error of ctx, and its cause if the cause is another error, for example of the
// context of a lost hold. It returns nil if ctx has not ended.
func Over(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil // context.Cause would take a mutex
	}
	if cause := context.Cause(ctx); cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
