package driver

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
)

// Redis tells a client that tracks a key when another client changes it: deletes or overwrites it,
// or lets it expire or evicts it. That is a reason to ask, and no proof: the answer to a mirror
// tells a loss, as always. Mirrors track the key; each of them ends the tracking of the last, since
// it changes the key itself. A hold has to last for a while first, so that short holds cost
// nothing.

// trackAfter is how long a hold lasts before its key is tracked.
const trackAfter = 50 * time.Millisecond

// A tracking says whether Redis tells of changes of a tenure's key. The mirror after a change does
// not track the key, and no other is sent for that: so whatever happens, a key costs two mirrors a
// renewal at most.
type tracking uint8

const (
	untracked tracking = iota // no
	tracked                   // yes
	alarmed                   // it has told of one: the next mirror finds out which
	verified                  // that mirror was built: the next one tracks the key again
)

// trackedFrom returns when the key is to be tracked; never if it is tracked, or is not to be.
func (l *lock) trackedFrom(k *work) core.Time {
	if k.tracking != untracked || k.tracks || !l.trackable() {
		return core.Never
	}
	return l.Levels()[0].Since.After(core.Span(trackAfter))
}

// trackable reports whether no other client changes the key as long as this one holds the lock.
func (l *lock) trackable() bool {
	s := l.shard
	return s.client.wire.Tracks() && !s.kind.permits && l.IsHeld() && !l.IsRead()
}

// track sends a mirror that tracks the key, if the hold has lasted long enough now.
func (l *lock) track(k *work, now core.Now) {
	if k.tenure == l.Owner() && l.trackedFrom(k) <= now.Time {
		k.tracks = true
		l.Confirm(now)
	}
}

// buildTracked reports whether the mirror that is being built is to track the key.
func (k *work) buildTracked(now core.Now) bool {
	was, l := k.tracking, k.lock
	k.tracking, k.tracks = untracked, false
	switch {
	case was == alarmed:
		k.tracking = verified
	case was == verified && l.trackable() || l.trackedFrom(k) <= now.Time:
		k.tracking = tracked
	}
	return k.tracking == tracked
}

// Changed implements [client.Locks].
func (c *Client) Changed(key string) {
	c.locksOf(key, "", func(l *lock, now core.Now) {
		if t := l.Owner(); t != nil {
			if k := l.shard.workOf(l, t); k.tracking == tracked {
				k.tracking = alarmed
				l.Confirm(now)
			}
		}
	})
}

// mirrored deals with what the answer to a mirror says beside the trust in it.
func (l *lock) mirrored(k *work, sent *call, alive bool, now core.Now) {
	if t := k.tenure; alive && t != nil && sent.answer.Found == core.Holds && sent.answer.Others > 0 && t.ID.Lingers && !t.Called() {
		l.backOff(0, lastBackoff, now) // foreign clients wait, who cannot call
	}
	if l.mirrorsIn != nil {
		close(l.mirrorsIn)
		l.mirrorsIn = nil
	}
}
