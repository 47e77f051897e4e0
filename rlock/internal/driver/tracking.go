package driver

import (
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/enum"
	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Redis tells a client that tracks a key when another client changes it: deletes or overwrites it,
// or lets it expire or evicts it. That is a reason to ask, and no proof: the answer to a mirror
// tells a loss, as always. Mirrors track the key; each of them ends the tracking of the last, since
// it changes the key itself. A hold has to last for a while first, so that short holds cost
// nothing, and so many keys of a client are tracked at most, so that no server pays for many.

const (
	// trackAfter is how long a hold lasts before its key is tracked.
	trackAfter = 50 * time.Millisecond
	// trackAgain is how long after a change that has left the lock to its holder the key is tracked again. So a key
	// costs two mirrors a second at most, however often it changes.
	trackAgain = time.Second
)

// A tracking says whether Redis tells of changes of a tenure's key. The mirror after a change does
// not track the key. From due on the key has one of those that the client may track.
type tracking uint8

const (
	untracked tracking = iota // no
	putOff                    // as many keys are tracked as may be, or Redis refuses: the next mirror tries again
	due                       // not yet: a mirror that tracks the key is about to be sent
	tracked                   // yes
	alarmed                   // a change was reported: the next mirror finds out what it was
	verified                  // that mirror was built, at verifiedAt: a later one tracks the key again
)

func (t tracking) String() string {
	return enum.Name(t, "tracking", "untracked", "putOff", "due", "tracked", "alarmed", "verified")
}

// track changes the tracking to t, or puts it off.
func (k *work) track(t tracking) {
	c, had := k.lock.shard.client, k.tracking >= due
	if t >= due && !(c.wire.traits().tracks && (had || c.tracked.enter())) {
		t = putOff
	}
	if had && t < due {
		c.tracked.leave()
	}
	k.tracking = t
}

// trackedKeys counts the keys of a client that are tracked.
type trackedKeys struct {
	all   int64
	taken atomic.Int64
}

func (p *trackedKeys) enter() bool {
	if p.taken.Add(1) <= p.all {
		return true
	}
	p.leave()
	return false
}

func (p *trackedKeys) leave() { p.taken.Add(-1) }

// Tracked returns how many keys are tracked.
func (c *Client) Tracked() int64 {
	if !c.wire.traits().tracks {
		return 0
	}
	return min(c.tracked.taken.Load(), c.tracked.all) // one too many is counted for a moment
}

// trackedFrom returns when the key is to be tracked; never if it is tracked, or is not to be.
func (l *lock) trackedFrom(k *work) core.Time {
	switch {
	case !l.trackable():
	case k.tracking == untracked:
		return l.lastsFrom()
	case k.tracking == verified:
		return k.verifiedAt.After(core.Span(trackAgain))
	}
	return core.Never
}

// lastsFrom returns when the hold has lasted long enough.
func (l *lock) lastsFrom() core.Time { return l.Levels()[0].Since.After(core.Span(trackAfter)) }

// trackable reports whether no other client changes the key as long as this one holds the lock.
func (l *lock) trackable() bool {
	s := l.shard
	return s.client.tracked.all > 0 && !l.kind().permits && l.IsWritten()
}

// track sends a mirror that tracks the key, if the hold has lasted long enough now.
func (l *lock) track(k *work, now core.Now) {
	if k.tenure != l.Owner() || l.trackedFrom(k) > now.Time {
		return
	}
	if k.track(due); k.tracking == due {
		l.Confirm(now)
	}
}

// buildTracked reports whether the mirror that is being built is to track the key.
func (k *work) buildTracked(now core.Now) bool {
	switch l := k.lock; {
	case k.tracking == alarmed:
		k.track(verified)
		k.verifiedAt = now.Time
	case l.trackable() && (k.tracking == verified || l.lastsFrom() <= now.Time):
		k.track(tracked)
	default:
		k.track(untracked)
	}
	return k.tracking == tracked
}

// changed deals with a change of a tracked key that Redis has reported.
func (c *Client) changed(key string) {
	s := c.shardOfKey(key)
	s.visit(s.named(key), func(l *lock, now core.Now) {
		if t := l.Owner(); t != nil {
			if k := s.workOf(l, t); k.tracking == tracked {
				k.track(alarmed)
				l.Confirm(now)
			}
		}
	})
}
