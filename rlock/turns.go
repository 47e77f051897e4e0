package rlock

import "time"

// How clients that keep waiting take turns, without a queue in Redis. A turn is a
// tenure: it is passed on inside the process for as long as others can be asked to
// wait, and then the lock is freed, and the others go first.

const (
	// yieldTime is how long the head waits for the message of its own client's
	// release before it asks all the same.
	yieldTime = 50 * time.Millisecond
	// letTime is how long the head that lets others pass waits for them.
	letTime = 2 * time.Millisecond
	// After nobody came it lets nobody pass for letTime, doubling up to aloneTime
	// until somebody comes.
	aloneTime = 100 * time.Millisecond

	// foreignTime is for how long a foreign holder is remembered. It is met again
	// whenever it is faster than the head, which is often.
	foreignTime = time.Second
)

// mayPass reports whether the tenure may go on with the next local waiter: what
// is left of it is worth having, there is a token for it, and other clients have not waited long enough.
func (t *tenure) mayPass(now time.Time, req request) bool {
	r, c := t.room, t.room.client
	left := t.trust.Until().Sub(now)
	if t.tokens.spent() || !t.trust.Valid(now) || left < min(c.leaseOf(req)/10, time.Second) || c.closed.Load() {
		return false
	}
	if !t.contested {
		return true
	}
	r.subscribe()
	if r.withForeign(now) || t.passes >= c.config.HandoffLimit || now.Sub(t.contestedAt) >= c.config.HandoffTime {
		return false
	}
	t.passes++
	return true
}

// heard decides what the head does at a message: it asks, or lets others pass.
func (r *room) heard(v *visit) {
	switch {
	case r.yielding:
		r.yielding = false // the message was that of this client's release
	case r.behind > 0:
		if r.behind--; r.behind == 0 {
			r.absent = 0
		}
	}
	v.due = r.behind == 0
	v.sleep = letTime // if it does not ask
}

// ahead notes a grant. If there were others to let pass who have not all come, they
// are not let pass for a while.
func (r *room) ahead(now time.Time) {
	if r.behind > 0 {
		r.behind, r.alone = 0, now.Add(min(letTime<<min(r.absent, 10), aloneTime))
		r.absent++
	}
}

// met notes who holds the lock.
func (r *room) met(holder string, now time.Time) {
	if !isOurs(holder) {
		r.foreign = now
	}
}

// withForeign reports whether a client that is not ours contends for the lock.
// Redisson frees the lock after each section, though a crowd of its threads may
// wait: with longer turns here it would have one section in twenty.
func (r *room) withForeign(now time.Time) bool {
	return !r.foreign.IsZero() && now.Sub(r.foreign) < foreignTime
}
