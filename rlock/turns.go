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

	// lookTime is how often the head that waits behind readers here, to which it
	// would be let but for others, has Redis asked whether there are others.
	lookTime = time.Second
)

// mayPass reports whether the tenure may go on with the next local waiter: what is
// left of it is worth having, there is a token for it, and other clients have not
// waited long enough.
func (t *tenure) mayPass(now time.Time, req request) bool {
	r, c := t.room, t.room.client
	left, least := t.trust.Until().Sub(now), min(c.leaseOf(req)/10, time.Second)
	if t.shared {
		least = min(least, t.lease/10) // the mirror of who joins asks for more
	}
	switch {
	case t.tokens.spent(), !t.trust.Valid(now), left < least, c.closed.Load():
		return false
	case t.shared && !req.shared:
		return false // others may read
	}
	strict := r.line != nil && c.config.HandoffLimit == 0
	if !strict && !t.contested {
		return true
	}
	if !t.shared {
		r.subscribe()
	}
	if strict || r.withForeign(now) || int(t.passes) >= c.config.HandoffLimit || now.Sub(t.contestedAt) >= c.config.HandoffTime {
		return false
	}
	t.passes++
	return true
}

// yield prepares the release of a tenure for which others wait: who has just had
// the lock goes behind them.
func (r *room) yield(t *tenure, now time.Time) {
	if r.line != nil {
		return // who is first there has it next
	}
	r.yielding = t.contested && r.queue.Len() > 0
	if r.yielding && now.After(r.alone) {
		r.behind = t.others
	}
	switch {
	case !r.yielding:
	case t.shared:
		r.yielding = false // see letPass
	default:
		// The message to come is that of this release, not an older one.
		r.subscribe()
		select {
		case <-r.sub.C():
		default:
		}
	}
}

// letPass has the head wait for others after readers made way for them. They may be
// Redisson's writers, which do not say that they wait. It does not listen meanwhile: who listens is taken for one who waits for readers to go, and
// the readers of two clients would make way for each other. Where readers of others
// go on it waits for longer than their turn takes, since a writer needs all readers
// to be away at once.
func (r *room) letPass(reply int64) {
	if w := r.queue.Head(); w != nil {
		w.Value.due, w.Value.sleep = false, letTime
		if reply > 1 {
			w.Value.sleep = min(3*r.client.config.HandoffTime, yieldTime)
		}
		w.Wake()
	}
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
