package engine

import "time"

// A turn is the part of a tenure in which other clients wait: the lock is handed off inside
// the process for as long as others can be asked to wait, and then it is released, and
// Redis grants it to the first in the queue.

// mayPass reports whether the tenure may go on with the next local waiter: what is
// left of it is worth having, there is a token for it, and other clients have not
// waited long enough.
func (t *tenure) mayPass(now time.Time, req Request) bool {
	r, c := t.room, t.room.client
	left, least := t.trust.Until().Sub(now), min(c.leaseOf(req)/10, time.Second)
	if t.shared || t.claimed {
		least = min(least, t.lease/10) // the mirror of the next hold asks for more
	}
	switch {
	case t.tokens.spent(), !t.trust.Valid(now), left < least, c.Closed.Load():
		return false
	case t.shared && !req.Shared:
		return false // others may read
	case r.name.kind().strict:
		return false
	case !t.contested():
		return true
	}
	r.subscribe() // the next ticket can join with the release then
	if int(t.passes) >= c.Config.HandoffLimit || now.Sub(t.contestedAt) >= c.Config.HandoffTime {
		return false
	}
	t.passes++
	return true
}

// contested reports whether other clients are known to wait.
func (t *tenure) contested() bool { return !t.contestedAt.IsZero() }

// heardOfOthers begins or ends the time in which the lock is handed off here while
// others wait for it, as many as Redis has counted.
func (t *tenure) heardOfOthers(now time.Time, others int64) {
	if others == 0 {
		t.contestedAt = time.Time{}
		return
	}
	if !t.contested() {
		t.contestedAt, t.passes = now, 0
	}
}
