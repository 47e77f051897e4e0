package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/task"
)

// Redis tells a client that tracks a key when somebody else changes it: deletes or overwrites
// it, or lets it expire or evicts it. That is a reason to ask, and no proof: the answer to a
// mirror tells a loss, as always. Without any of this the next renewal tells it.
//
// Mirrors have the key tracked, see wire: each of them ends the tracking that there was, since
// it changes the key itself. A hold has to last for a while first, so that short holds cost
// nothing. Keys that other clients may change while this one holds its lock are not tracked:
// two readers would tell each other of their renewals for ever.

// trackAfter is how long a hold lasts before its key is tracked.
const trackAfter = 50 * time.Millisecond

// A tracking is whether Redis tells of changes of a tenure's key. The mirror that a change
// leads to does not have the key tracked, and no other is sent for that: so whatever happens,
// a key costs two mirrors a renewal at most.
type tracking uint8

const (
	untracked tracking = iota // no
	tracked                   // yes
	alarmed                   // it has told of one: the next mirror finds out which
	verified                  // that mirror was built: the next one has the key tracked again
)

// trackedFrom returns when the key is to be tracked; never if it is tracked, or is not to be.
func (t *tenure) trackedFrom() time.Time {
	if t.tracking != untracked || !t.trackable() {
		return never
	}
	return t.room.client.start.Add(t.levels[0].since + trackAfter)
}

// trackable reports whether nobody else changes the key as long as t holds the lock.
func (t *tenure) trackable() bool {
	return t.room.client.Redis.Tracks() && !t.shared && !t.room.name.kind().many && len(t.levels) > 0
}

// toTrack reports whether the hold has lasted long enough now.
func (t *tenure) toTrack(now time.Time) bool { return !now.Before(t.trackedFrom()) }

// buildTracked reports whether the mirror that is being built is to have the key tracked.
func (t *tenure) buildTracked(now time.Time) bool {
	was := t.tracking
	t.tracking = untracked
	switch {
	case was == alarmed:
		t.tracking = verified
	case was == verified && t.trackable() || t.toTrack(now):
		t.tracking = tracked
	}
	return t.tracking == tracked
}

// changed has Redis asked about the locks of these keys, or about all where there are none. It
// is called by the reader of a connection.
func (c *Client) changed(verify *task.Task, keys []string) {
	if len(keys) == 0 {
		verify.Ask()
		return
	}
	for _, key := range keys {
		for r := range c.roomsFor(key, "") {
			if t := r.tenure; t != nil && t.kept() && t.tracking == tracked {
				t.tracking = alarmed
				t.mirror()
			}
		}
		for _, b := range c.besides() {
			b.Changed(key)
		}
	}
}
