package wire

import (
	"context"
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
