package core

// A Lock is one lock as one client knows it: its owners here, its waiters here, and the tenures.
// Its methods are the events of the lock, and the caller serializes those of one [Client]. After
// each it takes [Client.Effects].
type Lock struct {
	Kind Kind
	Tag  any // the driver's

	client  *Client
	levels  levels
	line    line
	owner   *Tenure // that is Held, nil for none
	tenures tenures // all that are not over, with the owner

	hears   hearing // whether this client is told of grants
	reserve uint32  // how many fencing tokens the next tenure reserves; 0: one
	patient Time    // asking: until when to wait for the answer
	stays   Time    // until when the lock stays after its last level, 0 for not: see StayUntil
	abroad  abroad  // the state of foreign clients
}

// NewLock returns a lock without holder and waiter.
func (c *Client) NewLock(k Kind) *Lock {
	l := &Lock{}
	l.Reset(c, k)
	return l
}

// Reset makes a lock without holder and waiter in the memory of one that is idle.
func (l *Lock) Reset(c *Client, k Kind) {
	*l = Lock{Kind: k, Tag: l.Tag, client: c, levels: noLevels(l.levels.all)}
}

// Idle reports whether nothing is left of the lock, so that the client may forget it.
func (l *Lock) Idle() bool { return l.tenures.len == 0 && l.line.calls == 0 }

// Lock begins a call. Unless its outcome is known at once the call waits: its goroutine asks Next.
func (l *Lock) Lock(w *Call, now Now) Outcome {
	if !l.Nest(w, now) && l.AtOnce(w, now) == Waiting {
		l.Wait(w, now)
	}
	return w.Outcome
}

// Nest, AtOnce and Wait are the parts of Lock, for a driver. Only Wait retains w; until then w may live on the stack.

// Nest gives the call a level if its owner holds the lock already, and reports whether it does.
func (l *Lock) Nest(w *Call, now Now) bool {
	w.Began = now.Time
	l.lapse(now)
	if l.owner == nil || !l.Hosts(w.Owner, w.Guest) || l.exceeds(w) {
		return false
	}
	l.nest(w, ByNesting, now)
	return true
}

// AtOnce decides a call that needs no command; otherwise it returns Waiting. Nest must have returned false.
func (l *Lock) AtOnce(w *Call, now Now) Outcome {
	w.Outcome = Waiting
	switch owner := l.owner; {
	case l.client.closed:
		w.Outcome = Closed
	case owner != nil && l.Hosts(w.Owner, w.Guest):
		w.Outcome = Upgrades
	case owner != nil && l.mayJoin(w, now):
		l.nest(w, ByJoining, now)
	case !w.Waits && l.IsHeld():
		w.Outcome = Denied
	case !w.Waits && l.line.Len() > 0:
		w.attempt = tries
		w.Outcome, _ = l.decision(w, now)
	case w.Most != 0 && l.isFullHere(w):
		w.Outcome, w.Others = Full, int32(l.line.Len())
	}
	return w.Outcome
}

// Wait puts a call into the line that was not served at once.
func (l *Lock) Wait(w *Call, now Now) {
	l.begins(w, Locks, nil)
	w.attempt, w.overdue = tries, !w.Waits
	l.line.join(w)
	if l.hasOwnTicket(w) {
		l.seekFor(w, now)
	}
	l.Settle(now)
}

// nest gives the call a level beside those that there are.
func (l *Lock) nest(w *Call, way Way, now Now) {
	l.open(w, way, now)
	l.changed(now)
}

// Unlock closes the level of a handle, or the owner's innermost level of the mode, and returns it. If that takes a command
// it returns the tenure: the keeper sends the command, unless a call does: see Release.
func (l *Lock) Unlock(o OwnerID, m Mode, handle any, now Now) (was Level, releases *Tenure, ok bool) {
	l.lapse(now)
	t, i := l.owner, -1
	if t != nil {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		return was, nil, false
	}
	was = l.close(i)
	switch {
	case l.IsHeld():
		if l.isRead() && was.Mode == Alone {
			t.mode = Shared
			l.admitReaders(t.isOpen(), now)
		}
		l.changed(now)
	case now.Time < l.stays:
		releases = t
		l.leaveToLease(l.stays.Since(now.Time)) // as one that is passed on to no client
		l.stays = 0
	case l.handsOff(now):
	default:
		l.give(t, now)
		releases = t
	}
	l.Settle(now)
	return was, releases, true
}

// SetLease gives a level a lease from now on, 0 for one that is renewed until its Unlock.
func (l *Lock) SetLease(o OwnerID, m Mode, handle any, lease Span, now Now) bool {
	l.lapse(now)
	t, i := l.owner, l.levelOf(o, m, handle)
	if t == nil || i < 0 {
		return false
	}
	l.let(i, lease, false, now)
	l.changed(now)
	l.Settle(now)
	return true
}

// An Extension is the result of Extend.
type Extension uint8

const (
	EndMoves Extension = iota
	EndAsked           // Redis has to confirm the lease: it is asked by the next mirror, and IsShown says when it has
	NoEnd              // the level ends by its Unlock alone
	NoLevel            // there is no such level
)

// Extend moves the end of a level that ends by itself: it is so long from now on.
func (l *Lock) Extend(o OwnerID, m Mode, handle any, d Span, now Now) Extension {
	l.lapse(now)
	t, i := l.owner, l.levelOf(o, m, handle)
	if t == nil || i < 0 {
		return NoLevel
	}
	was := l.levels.all[i]
	if was.Until == NeverSafe {
		return NoEnd
	}
	l.let(i, d, was.Capped, now)
	l.changed(now)
	l.Settle(now)
	if was.Capped {
		return EndMoves
	}
	return EndAsked
}

// Close ends everything: calls return, also those whose command is in flight, and what Redis shows yet is released. A
// tenure that was parted with is left to its lease.
func (l *Lock) Close(now Now) {
	l.client.closed = true
	for l.line.first() != nil {
		l.leave(l.line.first(), Closed, now)
	}
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.Agent != nil && t.Agent.Purpose == Locks { // that of a Resume does not wait in the line
			l.leave(t.Agent, Closed, now)
		}
	}
	if l.owner != nil {
		l.lose(ByClose, now)
	}
	l.Settle(now)
}

// A Config has what callers choose, what the protocol fixes, and the times of a client. The explorer has its own, in
// ticks.
type Config struct {
	Lease     Span // of a hold that is renewed until its Unlock
	Claim     Span // that a ticket is granted unless its client asks for more
	QueueTime Span // for how long Redis keeps a queue without a step
	Margin    Span // a lease is believed for so much less, and for a hundredth less

	LookTime        Span // how often a ticket is looked for
	Slack           Span // a ticket is looked for so long after a lease should have ended
	Retry, MaxRetry Span // the first and the longest pause after a command without an answer
	FirstPoll       Span // how soon a ticket that polls is looked for, doubling...
	LastPoll        Span // ...to this
	Silence         Span // for how long the answer to an abandoned command is waited for beyond a call's time
	Patience        Span // for how long a waiter waits for its subscription before it polls
	LeastWait       Span // a shorter wait is not worth a ticket
	ReadersTime     Span // for how long a reader is held back beside readers before it takes a ticket
	ShortSection    Span // a hold that began with a claim is not renewed sooner

	HandoffLimit int  // how often the lock is handed off inside the process while others wait...
	HandoffTime  Span // ...and for how long

	Foreign ForeignConfig

	Replicas bool // only the answers to an Acquire and to a Look say that replicas have the grant

	// Jitter returns a pause between retries and polls that is no longer than the one given, at random, so that clients
	// that have failed together do not come back together. nil: the pause itself.
	Jitter func(Span) Span
}

// doublings is how often a pause doubles at most.
const doublings = 10

// pause returns the pause after n tries that have brought nothing: first, doubling up to most, with jitter.
func (c *Config) pause(first, most Span, n int) Span {
	return c.jitter(min(first<<min(n, doublings), most))
}

func (c *Config) jitter(d Span) Span {
	if c.Jitter == nil {
		return d
	}
	return c.Jitter(d)
}

// A Client is what the locks of a client under one mutex share.
type Client struct {
	Config
	ID      uint32
	Tenure  func() uint64 // returns the number of a new tenure; nil: they are counted
	Effects []Effect      // that the driver has not taken yet, by TakeEffects

	// Changed is called with each tenure whose want or place is another one now, and with what they were; nil: for none. It may
	// only look.
	Changed func(t *Tenure, want Want, place Place)

	closed   bool
	last     uint64   // number of a tenure
	spare    *Tenure  // one that is over, to be used again
	partings partings // those that Redis may show yet: see tenure.go
	taken    []Effect // that the driver has taken last: the memory is used again
}

// Closed reports whether the client has closed.
func (c *Client) Closed() bool { return c.closed }

func (c *Client) number() uint64 {
	if c.Tenure != nil {
		return c.Tenure()
	}
	c.last++
	return c.last
}

// A Kind is what tells one kind of lock from another.
//
// A read-write lock is of no kind of its own: its readers have the mode Shared. A semaphore has a Lock for each owner.
type Kind struct {
	Strict  bool  // the locks are granted in the order of all waiters of all clients: each has a ticket, and no hand-off passes one
	Fenced  bool  // each hold has a fencing token
	Permits int32 // how many permits of a semaphore may be held at once; 0 for other locks
}

// What a driver reads, and what it does besides the events of calls and answers.

// Client returns the client of the lock.
func (l *Lock) Client() *Client { return l.client }

// Owner returns the tenure by which the lock is held here, nil for none.
func (l *Lock) Owner() *Tenure { return l.owner }

// Levels returns the open levels, which the caller must not change.
func (l *Lock) Levels() []Level { return l.levels.all }

// Waiters calls yield with each waiter in order. That one may leave meanwhile.
func (l *Lock) Waiters(yield func(*Call) bool) {
	for w := range l.line.All {
		if !yield(w.Value) {
			return
		}
	}
}

// Len returns how many calls wait.
func (l *Lock) Len() int { return l.line.Len() }

// Tenures calls yield with each tenure that is not over.
func (l *Lock) Tenures(yield func(*Tenure) bool) {
	for t := l.tenures.first; t != nil; {
		next := t.behind
		if !yield(t) {
			return
		}
		t = next
	}
}

// Holds reports whether the owner holds the lock: with a level of its own, by a tenure that is valid.
func (l *Lock) Holds(o OwnerID, now Now) bool {
	return l.owner != nil && l.IsHeld() && now.Safe < l.TrustedUntil() && now.Safe < l.askedBy(o)
}

// KeepsOut reports whether a waiting reader could join the readers here: an invariant of the explorer.
func (l *Lock) KeepsOut(now Now) bool {
	w, t := l.line.first(), l.owner
	return t != nil && w != nil && w.Mode == Shared && l.isRead() && !t.share.contested && t.isOpen() && !l.client.closed && t.worth(now) && now.Safe < l.TrustedUntil()
}

// ValidUntil returns until when the owner's hold may be believed.
func (l *Lock) ValidUntil(o OwnerID) SafeTime { return min(l.TrustedUntil(), l.askedBy(o)) }

// Want, Place and InFlight return the state of a tenure.
func (t *Tenure) Want() Want   { return t.want }
func (t *Tenure) Place() Place { return t.place }
func (t *Tenure) InFlight() Op { return t.flight.op }

// More returns how many permits of a semaphore the tenure takes beside the first.
func (t *Tenure) More() int32 { return t.more }

// IsHeld reports whether an owner holds the lock here, IsWritten whether one does that is no reader, and IsKept whether it is
// renewed until an Unlock.
func (l *Lock) IsHeld() bool    { return len(l.levels.all) > 0 }
func (l *Lock) IsWritten() bool { return l.levels.writes > 0 }
func (l *Lock) IsKept() bool    { return l.IsHeld() && l.levels.asked == NeverSafe }

// IsShown reports whether Redis has confirmed that it shows the levels as they are.
func (l *Lock) IsShown(now Now) bool {
	t := l.owner
	return t != nil && t.flight.op != Mirror && l.isMirrored(t, now)
}

// Claimed reports whether Redis was asked for no more than a claim.
func (t *Tenure) Claimed() bool { return t.claim }

// A guarded write is a command of a user that Redis executes only while it has the lock for the tenure. It sets no lease
// and moves no place, so that any number may be in flight beside the one command of the table.
//
// One that is executed late, or once more after its answer, must not run in a later hold. So the tenure of a hold that has
// sent one begins no other: it is neither handed off nor kept, no reader joins it, and after a downgrade none is let in.
// Redis is asked for the next one.

// mayWrite reports whether the level of the call holds the lock. It ends the holds whose time is over.
func (l *Lock) mayWrite(c *Call, now Now) bool {
	l.lapse(now)
	held := l.owner != nil && l.levelOf(c.Owner, c.Mode, c.Handle) >= 0
	l.Settle(now)
	return held
}

// guarded returns the guarded write of the call's level. If it follows no other command about the tenure it may use a
// connection of its own.
func (l *Lock) guarded(c *Call, now Now) Command {
	l.writes(l.levelOf(c.Owner, c.Mode, c.Handle))
	return Command{Op: Write, Ticket: Ticket{ID: l.owner.ID, Mode: c.Mode, Owner: l.owner.shown.owner}, Follows: l.owner.follows(now)}
}

// UnlockWith is Unlock with a guarded write, which the call of the release carries: see Call.Carries. The first Leave of that
// call has the write, and no other command: one that is repeated does not find the tenure. The tenure begins no other hold, so
// that there is a release. It reports false, and changes nothing, unless the level is the only one of a lock that does not stay.
func (l *Lock) UnlockWith(o OwnerID, m Mode, handle any, now Now) (was Level, releases *Tenure, alone bool) {
	l.lapse(now)
	i := -1
	if l.owner != nil && len(l.levels.all) == 1 && l.stays <= now.Time {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		l.Settle(now)
		return was, nil, false
	}
	l.writes(i)
	return l.Unlock(o, m, handle, now)
}

// wrote notes the answer to a guarded write of a hold in that mode. Found says whether it was executed.
// A tenure whose write was refused leaves Redis: a part of it may be there, as of a reader whose lease is gone.
func (l *Lock) wrote(id ID, m Mode, a Reply, now Now) {
	t := l.Find(id)
	if t != nil && t == l.owner && a.Fault == Answered && a.Found != Holds && (m == Shared || l.levels.writes > 0) {
		l.lose(KeyGone, now)
	}
}

// forced notes the answer to the Leave of a holder that is released by force.
func (l *Lock) forced(id ID, a Reply, now Now) {
	switch t := l.owner; {
	case t == nil || t.ID != id:
	case a.Fault != Answered:
		l.Confirm(now) // which finds out
	case a.Left:
		t.forcedOut()
		l.lose(ByForce, now)
	}
}
