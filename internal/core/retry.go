package core

// When the next command of a tenure is due. These are times of the table's moves.

// leaves returns when a tenure that is Gone is to leave: until Redis has answered, and once more when it is over by
// itself, since the command that brought it in may have run after the last Leave.
func (t *Tenure) leaves(Now) Time { return min(t.again, t.ends()) }

// ends returns when a tenure that is Gone is over whatever Redis says.
func (t *Tenure) ends() Time {
	c := t.lock.client
	if t.place == InQueue {
		return t.since.After(c.QueueTime)
	}
	return max(t.since, t.late).After(max(c.Lease, t.trust.most))
}

// mayCome reports whether the command that brings the tenure in may run after the Leave that has not found it.
func (t *Tenure) mayCome(f flight, a Reply) bool {
	return t.place == Unsure && !a.Settled && f.at.Time < t.late && !t.lock.client.breaks(LeaveAgain)
}

// looks returns when a ticket is to be looked for.
func (t *Tenure) looks(Now) Time { return max(t.look, t.again) }

// looksNext notes when to look for a ticket that was just found in the queue.
func (t *Tenure) looksNext(a Reply, now Now) {
	l, c := t.lock, t.lock.client
	d := c.LookTime
	if c.breaks(Looks) {
		d = Forever
	}
	if (a.Holder != ID{} || a.Foreign) && a.TTL != NoTTL && a.TTL < d && !c.breaks(Looks) { // the holder may be dead, and those before the ticket
		d = min(d, a.TTL+c.Slack)
	}
	d = min(d, l.follow(t, a, now))
	if t.polls && l.hears != listening && !c.breaks(PollsOften) {
		d = min(d, c.pause(c.FirstPoll, c.LastPoll, int(t.polled)))
		t.polled = min(t.polled+1, doublings)
	}
	t.look = now.Time.After(d)
}

// mirrors returns when Redis is to be told of the levels: at once if it was told of others, else after a third of the
// lease.
func (t *Tenure) mirrors(now Now) Time {
	l, c := t.lock, t.lock.client
	if !l.shows(t, now) {
		return t.again
	}
	lease := t.atMost(c.Lease)
	if t.claim {
		lease = min(lease, t.trust.lease)
	}
	at := t.trust.seen.Time.After(lease / 3)
	if t.claim { // most sections that began with a claim are over by then
		at = max(at, t.turn.since.After(c.ShortSection))
	}
	return max(at, t.again)
}

// opens returns when a step is to let in others after a downgrade.
func (t *Tenure) opens(Now) Time {
	if t.step {
		return t.again
	}
	return Never
}

// passes returns when the Mirror is to be sent that passes the lock on.
func (t *Tenure) passes(Now) Time {
	if t.within > 0 {
		return 0
	}
	return Never
}

// resumes returns when a lock that was passed on is to be taken: again if there was no answer, since a Resume that has run
// finds its own tenure.
func (t *Tenure) resumes(Now) Time { return t.again }

// unmarks returns when the mark of a detached tenure is to be taken out.
func (t *Tenure) unmarks(Now) Time {
	if t.marked && !t.lock.client.breaks(DetachUnmarks) {
		return t.again
	}
	return Never
}

// endsItself returns when the lease of a detached tenure has ended.
func (t *Tenure) endsItself(Now) Time { return t.trust.seen.Time.After(t.trust.most) }

// hurries has a tenure that is Gone leave at once, though its last Leave had no answer.
func (l *Lock) hurries(t *Tenure) {
	t.fails, t.again = 0, 0
	l.touch(t)
}

// rests notes that a command has no answer, so that nothing is sent for a while.
func (t *Tenure) rests(now Now) {
	c := t.lock.client
	t.again = now.Time.After(c.pause(c.Retry, c.MaxRetry, int(t.fails)))
	t.fails++
}
