package core

// A trust says for how long Redis' answers about a tenure may be believed. It is counted on the
// clock that never runs behind Redis, from before the command was sent.
type trust struct {
	until SafeTime // the end of the time for which the tenure may be believed to have the lock
	lease Span     // the lease that Redis last confirmed
	seen  Now      // the time of the last command that found the tenure in the queue or in the lock
	least Span     // the shortest lease that an exact Mirror asked for, since that may run last; 0 if there was none
	most  Span     // the longest lease that Redis may show
}

// The trust of a tenure changes here, and only here, as does its claim.

// trusted returns the time for which a lease is believed.
func (c *Config) trusted(lease Span) Span {
	return lease - lease/100 - c.Margin
}

// atMost returns the lease, or the shortest one that an exact Mirror asked for: a command without
// an answer may run late, and one that was answered may run again, if a proxy sends it twice.
func (t *Tenure) atMost(lease Span) Span {
	if t.trust.least > 0 {
		return min(lease, t.trust.least)
	}
	return lease
}

// noteSending notes that the flight's command is about to be sent. Of all commands only an exact
// Mirror shortens the lease: it may do so whatever becomes of its answer, and whenever it is
// executed. So no later lease of the tenure is trusted for longer (LeastLease):
//
//	this client                 Redis                          another client
//	exact Mirror of 3 s: lost   (still on its way)
//	Mirror of 30 s              a lease of 30 s
//	reads: t has the lock       the exact Mirror: 3 s are left
//	                            3 s later the lease ends       Acquire: it has the lock, and so believes this client
func (t *Tenure) noteSending(f flight) {
	c := t.lock.client
	t.trust.most = max(t.trust.most, f.lease)
	if f.exact {
		t.trust.until = min(t.trust.until, f.at.Safe.After(c.trusted(f.lease)))
		t.trust.least = t.atMost(f.lease)
	}
	if f.op == Mirror {
		t.trust.seen, t.claim = f.at, false
	}
}

// believe notes that the tenure had the lock when Redis executed the flight's command.
func (t *Tenure) believe(f flight, now Now) {
	c, from := t.lock.client, f.at.Safe
	lease := t.atMost(f.lease)
	t.trust.until, t.trust.lease = max(t.trust.until, from.After(c.trusted(lease))), lease
	if f.exact {
		t.trust.most = f.lease
	}
	t.claim = t.claim || f.op == Join
	t.trust.seen = f.at
}

// believeGrant notes that a ticket in the queue was granted the lock for a claim, and reports
// whether a hold may begin.
func (t *Tenure) believeGrant(now Now) bool {
	c := t.lock.client
	lease, from := t.atMost(t.claimed()), t.trust.seen.Safe
	t.trust.until, t.trust.lease, t.claim = from.After(c.trusted(lease)), lease, true
	return t.isClaimLongEnough(now) && !t.tokens.missing()
}

// A client that is paused when it is granted the lock costs the others its claim. So a ticket is
// brief, and asks for a shorter claim, if the last turn of its client was short: another turn as
// long would need no further command. It would need a Look if less than half of the claim were left
// at the grant, and a Mirror if a third of it were over before the release. A client that is late
// takes the long claim again.

// noteTurn notes the length of a turn, from the Join of the ticket to its release.
func (l *Lock) noteTurn(turn Span) { l.shortTurn = l.client.Brief > 0 && turn <= l.client.Brief/4 }

// LastTurnWasShort reports whether the next ticket is brief. NoteShortTurn restores that for a lock
// that was forgotten meanwhile.
func (l *Lock) LastTurnWasShort() bool { return l.shortTurn }

func (l *Lock) NoteShortTurn() { l.shortTurn = l.client.Brief > 0 }

// claimed returns the length of the tenure's claim.
func (t *Tenure) claimed() Span {
	if t.brief {
		return t.lock.client.Brief
	}
	return t.lock.client.Claim
}

// noteSeenInQueue notes that the flight's command has found the ticket in the queue.
func (t *Tenure) noteSeenInQueue(f flight) { t.trust.seen = f.at }

// noteShownFor notes that Redis shows a tenure that was passed on for the lease, counted from now, and
// no longer.
func (t *Tenure) noteShownFor(lease Span, now Now) { t.trust.seen, t.trust.most = now, lease }

// isClaimLongEnough reports whether a hold may begin with the rest of a claim. Otherwise a Look
// comes first: if less than half of the claim is left, since the delay of one command might end the
// hold; and if replicas have to confirm the grant, which only the answer to a Look says.
func (t *Tenure) isClaimLongEnough(now Now) bool {
	return 2*t.trust.until.Since(now.Safe) > t.claimed() && !t.lock.client.Replicas
}

// isLeaseLongEnough reports whether a tenth of the lease is left, which is enough to start another
// hold.
func (t *Tenure) isLeaseLongEnough(now Now) bool {
	return t.trust.until.Since(now.Safe) > min(t.lock.client.Lease, t.trust.lease)/10
}
