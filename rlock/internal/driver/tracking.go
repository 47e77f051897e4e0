package driver

import (
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Redis notifies a client that tracks a key when another client deletes or overwrites it, and when
// it expires or is evicted. That is a reason to ask and no proof: a loss is known by the answer to
// a Mirror, as always. A Mirror tracks the key from then on, and is itself a change that ends the
// tracking by the Mirror before. Tracking begins when a hold has lasted for a while, so that short
// holds cost nothing, and the number of tracked keys of a client is bounded for the sake of the
// server.

const (
	// trackAfter is the age of a hold at which its key is tracked.
	trackAfter = 50 * time.Millisecond
	// trackAgain is the pause before a key is tracked again after a change that left the lock to
	// its holder. So a key costs at most two Mirrors a second, however often it changes.
	trackAgain = time.Second
)

// A tracking is the state of the tracking of a tenure's key. From due on the key counts as tracked:
// the number of tracked keys of a client is bounded.
type tracking uint8

const (
	untracked tracking = iota // the key is not tracked
	putOff                    // too many keys are tracked, or Redis refuses: the next Mirror tries again
	due                       // a Mirror that tracks the key is about to be sent
	tracked                   // the key is tracked
	alarmed                   // Redis reported a change: the next Mirror, which does not track, finds out what it was
	verified                  // the next Mirror was built, at verifiedAt: a later one tracks the key again
)

// setTracking changes the tracking to t, or to putOff if t is not possible.
//
// REQUIRES: shard.mu.
func (k *work) setTracking(t tracking) {
	c, counts := k.lock.shard.client, k.tracking >= due
	if t >= due && !counts {
		counts = c.tracked.taken.Add(1) <= c.tracked.most
		if !counts {
			c.tracked.taken.Add(-1)
		}
	}
	if t >= due && !(counts && c.wire.Tracks()) {
		t = putOff
	}
	if counts && t < due {
		c.tracked.taken.Add(-1)
	}
	k.tracking = t
}

// trackedKeys counts the tracked keys of a client.
type trackedKeys struct {
	most  int64
	taken atomic.Int64
}

// Tracked returns the number of tracked keys.
func (c *Client) Tracked() int64 {
	if !c.wire.Tracks() {
		return 0
	}
	return min(c.tracked.taken.Load(), c.tracked.most) // one too many is counted for a moment
}

// trackedFrom returns when the key of a tenure is to be tracked; Never if it is tracked, or is not
// to be.
//
// REQUIRES: shard.mu.
func (l *lockState) trackedFrom(k *work) core.Time {
	switch {
	case k.tenure != l.Held():
	case k.tracking == untracked:
		return l.trackableFrom()
	case k.tracking == verified && l.trackableFrom() != core.Never:
		return k.verifiedAt.After(core.Span(trackAgain))
	}
	return core.Never
}

// trackableFrom returns when the hold has lasted for long enough to be tracked. A hold with a wish
// to be told of other waiters is tracked at once, with its queue. trackableFrom returns Never if
// there is nothing to track.
//
// REQUIRES: shard.mu.
func (l *lockState) trackableFrom() core.Time {
	switch {
	case l.shard.client.tracked.most == 0:
		return core.Never
	case l.IsCurious():
		return l.Levels()[0].Since
	case l.isKeyOurs():
		return l.Levels()[0].Since.After(core.Span(trackAfter))
	}
	return core.Never
}

// isKeyOurs reports whether no other client changes the key of the lock while this client holds the
// lock.
//
// REQUIRES: shard.mu.
func (l *lockState) isKeyOurs() bool { return !l.kind().permits && l.IsWritten() }

// decideTracking decides whether the Mirror that is being built tracks the key, and reports that.
//
// REQUIRES: shard.mu.
func (k *work) decideTracking(now core.Now) bool {
	switch from := k.lock.trackableFrom(); {
	case k.tracking == alarmed:
		k.setTracking(verified)
		k.verifiedAt = now.Time
	case from <= now.Time, k.tracking == verified && from != core.Never:
		k.setTracking(tracked)
	default:
		k.setTracking(untracked)
	}
	return k.tracking == tracked
}

// noteKeyChanged deals with a change of a tracked key or queue that Redis has reported.
func (c *Client) noteKeyChanged(key string) {
	if lock, is := wire.LockOfQueue(key); is {
		c.noteKeyChanged(lock)
	}
	s := c.shardOfKey(key)
	s.enterEach(s.named(key), func(l *lockState, now core.Now) {
		if t := l.Held(); t != nil {
			if k := s.workOf(l, t); k.tracking == tracked {
				k.setTracking(alarmed)
				l.Confirm(now)
			}
		}
	})
}
