package core

// A Lock is one lock as one client knows it: its owners and its waiters in this client, and its
// tenures. Its methods are the events of the lock. The caller serializes the events of one
// [Client], and calls [Client.TakeEffects] after each.
type Lock struct {
	Kind Kind
	Tag  any // the driver's data

	client  *Client
	levels  levels
	line    line
	held    *Tenure // the tenure that is Held, which is nil if and only if the lock has no levels
	tenures tenures // the tenures that are not over, with held

	grants    subscription // the state of the subscription to the client's grants
	shortTurn bool         // the last turn was short, so that the next ticket is brief: see trust.go
	curious   bool         // a hold waits for the effect Wanted: see AskOthers
	yielding  yielding     // what the holders know of a ticket that takes the lock over: see takeover.go
	reserve   uint32       // the number of fencing tokens that the next tenure reserves; 0 for one
	patient   Time         // until when waiters wait for the subscription grants to be confirmed
	stays     Time         // the end of the least hold; 0 for none: see StayUntil
	yields    SafeTime     // the end of the holds that a takeover sets, if yielding says so
	foreign   foreignState // what this client knows of foreign clients
}

// NewLock returns a lock without holders and waiters.
func (c *Client) NewLock(k Kind) *Lock {
	l := &Lock{}
	l.Reset(c, k)
	return l
}

// Reset makes an idle lock a new one, whose memory it reuses.
func (l *Lock) Reset(c *Client, k Kind) {
	*l = Lock{Kind: k, Tag: l.Tag, client: c, levels: levels{l.levels.all[:0], sum(nil)}}
}

// Idle reports whether the lock has neither tenures nor calls, so that the client may forget it.
func (l *Lock) Idle() bool { return l.tenures.first == nil && l.line.calls == 0 }

// BeginLock begins a call for the lock. If it returns Waiting, the goroutine of the call asks Next.
func (l *Lock) BeginLock(w *Call, now Now) Outcome {
	if !l.Nest(w, now) && l.AtOnce(w, now) == Waiting {
		l.Wait(w, now)
	}
	return w.Outcome
}

// A driver calls Nest, AtOnce and Wait, the parts of BeginLock. Only Wait retains w: until then w
// may live on the stack.

// Nest gives the call a level if its owner holds the lock already, and reports whether it did.
func (l *Lock) Nest(w *Call, now Now) bool {
	w.Began = now.Time
	l.endLapsed(now)
	if !l.Hosts(w.Owner, w.Guest) || l.exceeds(w) {
		return false
	}
	l.openLevel(w, ByNesting, now)
	l.noteLevelsChanged(now)
	return true
}

// AtOnce returns the outcome of a call that needs no command, else Waiting. The caller has called
// Nest, which returned false.
func (l *Lock) AtOnce(w *Call, now Now) Outcome {
	w.Outcome = Waiting
	switch {
	case l.client.closed:
		w.Outcome = Closed
	case l.Hosts(w.Owner, w.Guest):
		w.Outcome = Upgrades
	case l.IsHeld() && l.spendHandoffOnReader(w, now):
		l.openLevel(w, ByJoining, now)
		l.noteLevelsChanged(now)
	case !w.Waits && l.IsHeld():
		w.Outcome = Denied
	case !w.Waits && l.line.Len() > 0:
		w.tries = 1
		w.Outcome, _ = l.decision(w, now)
	case w.Most != 0 && l.isFullHere(w):
		w.Outcome, w.Others = Full, int32(l.line.Len())
	}
	return w.Outcome
}

// Wait puts a call for which AtOnce has returned Waiting into the line.
func (l *Lock) Wait(w *Call, now Now) {
	l.beginCall(w, Locks, nil)
	w.tries, w.overdue = 1, !w.Waits
	l.line.add(w)
	if l.hasOwnTicket(w) {
		l.seekTicket(w, now)
	}
	l.Settle(now)
}

// Unlock closes the level of a handle, or the owner's innermost level of the mode, and returns it.
// If the lock has to be given back to Redis, releases is the tenure that leaves: the keeper sends
// the command, unless a call does (see BeginRelease). It reports false if there is no such level.
func (l *Lock) Unlock(o OwnerID, m Mode, handle any, now Now) (was Level, releases *Tenure, ok bool) {
	l.endLapsed(now)
	t, i := l.held, l.levelOf(o, m, handle)
	if i < 0 {
		return was, nil, false
	}
	was = l.closeLevel(i)
	switch w := l.line.first(); {
	case l.IsHeld():
		if l.isRead() && was.Mode == Alone {
			t.mode = Shared
			l.admitReaders(t.mayBeginHold(), now)
		}
		l.noteLevelsChanged(now)
	case now.Time >= l.stays && w != nil && (t.mode == w.Mode || t.mode == Alone) && l.spendHandoff(now): // only the first waiter is considered, so that a long line costs nothing
		t.contention.handedOff = true
		l.takeFromLine(w, now)
		l.beginHold(t, w, ByHandoff, now)
	default:
		l.endHolding(now)
		releases = t
	}
	l.Settle(now)
	return was, releases, true
}

// SetLease sets a level's lease, counted from now, or 0 to renew it until its Unlock. It reports
// false if there is no such level.
func (l *Lock) SetLease(o OwnerID, m Mode, handle any, lease Span, now Now) bool {
	l.endLapsed(now)
	i := l.levelOf(o, m, handle)
	if i < 0 {
		return false
	}
	l.setEnd(i, lease, false, now)
	l.noteLevelsChanged(now)
	l.Settle(now)
	return true
}

// An Extension is the result of Extend.
type Extension uint8

const (
	EndMoves Extension = iota // the level ends later
	EndAsked                  // the next Mirror asks Redis for the lease; IsShown reports when Redis has confirmed it
	NoEnd                     // only Unlock ends the level
	NoLevel                   // there is no such level
)

// Extend moves the end of a level that ends by itself to d from now.
func (l *Lock) Extend(o OwnerID, m Mode, handle any, d Span, now Now) Extension {
	l.endLapsed(now)
	i := l.levelOf(o, m, handle)
	if i < 0 {
		return NoLevel
	}
	was := l.levels.all[i]
	if was.Until == NeverSafe {
		return NoEnd
	}
	l.setEnd(i, d, was.Capped, now)
	l.noteLevelsChanged(now)
	l.Settle(now)
	if was.Capped {
		return EndMoves
	}
	return EndAsked
}

// Close ends all holds and waits. All calls that lock return, even if a command of theirs is in
// flight, and the keeper releases the tenures that Redis shows. A Parted tenure ends with its
// lease.
func (l *Lock) Close(now Now) {
	l.client.closed = true
	for l.line.first() != nil {
		l.endWait(l.line.first(), Closed, now)
	}
	for t := l.tenures.first; t != nil; t = t.behind {
		if t.Agent != nil && t.Agent.Purpose == Locks { // a call of Resume, which does not wait in the line
			l.endWait(t.Agent, Closed, now)
		}
	}
	if l.held != nil {
		l.loseAll(ByClose, now)
	}
	l.Settle(now)
}

// A Config has the settings that callers choose, the values that the protocol fixes, and the times
// of a client. The explorer has a Config of its own, in ticks.
type Config struct {
	Lease     Span // the lease of a hold that is renewed until its Unlock
	Claim     Span // the lease of a ticket that is granted the lock, until its client asks for more
	Brief     Span // the lease of a brief ticket that is granted the lock; 0 if no ticket is brief
	QueueTime Span // the time for which Redis keeps a queue without a step
	Margin    Span // the time before the end of a lease, beside a hundredth of it, in which the lease is not believed

	LookTime        Span // the interval of the Looks for a ticket
	Slack           Span // the delay of a Look after the time at which a lease should have ended
	Retry, MaxRetry Span // the first and the longest pause after a command without an answer
	FirstPoll       Span // the first interval of the Looks for a ticket whose client is not subscribed; it doubles...
	LastPoll        Span // ...up to this one
	Silence         Span // the time for which a call whose time is up waits for an answer that decides whose the lock is
	Patience        Span // the time for which a waiter waits for its subscription before it polls
	LeastWait       Span // the shortest wait for which a ticket is taken
	ReadersTime     Span // the time for which a reader beside readers holds back before it takes a ticket
	ShortSection    Span // the age below which a hold that began with a claim is not renewed

	HandoffLimit int  // the largest number of hand-offs in this process while other clients wait
	HandoffTime  Span // the longest time for which the lock is handed off while other clients wait

	Foreign ForeignConfig

	Replicas bool // replicas have to confirm a grant; only the answers to an Acquire and a Look say whether they did

	// Jitter returns a random pause, at most as long as its argument, so that clients that
	// failed together do not retry together. If it is nil, pauses are exact.
	Jitter func(Span) Span
}

// doublings is the largest number of times that a pause doubles.
const doublings = 10

// pause returns the pause after n failures: first, doubled n times up to most, with jitter.
func (c *Config) pause(first, most Span, n int) Span {
	return c.jitter(min(first<<min(n, doublings), most))
}

func (c *Config) jitter(d Span) Span {
	if c.Jitter == nil {
		return d
	}
	return c.Jitter(d)
}

// A Client is the state shared by the locks of a client that are under one mutex.
type Client struct {
	Config
	ID        uint32
	NewNumber func() uint64 // returns the number of a new tenure; if it is nil, tenures are counted
	Effects   []Effect      // the effects that the driver has not taken yet

	// Changed is called when the want or the place of a tenure has changed, with the want and the
	// place before. It must not change anything. It may be nil.
	Changed func(t *Tenure, want Want, place Place)

	closed   bool
	last     uint64   // the number of tenures so far
	spare    *Tenure  // a tenure that is over, whose memory is reused
	partings partings // the forgotten tenures that Redis may still show: see tenure.go
	taken    []Effect // the effects that the driver took last, whose memory is reused
}

// Closed reports whether the client has closed.
func (c *Client) Closed() bool { return c.closed }

// A Kind has the differences between the kinds of lock. A read-write lock is a plain lock whose
// readers have the mode Shared. A semaphore has a Lock for each owner.
type Kind struct {
	Strict  bool  // waiters of all clients are served in their order: each has a ticket, and no hand-off overtakes it
	Fenced  bool  // each hold has a fencing token
	Permits int32 // the number of permits of a semaphore; 0 for other locks
}

// What a driver reads.

// Client returns the client of the lock.
func (l *Lock) Client() *Client { return l.client }

// Held returns the tenure by which this client holds the lock, nil if it does not.
func (l *Lock) Held() *Tenure { return l.held }

// Levels returns the open levels, which the caller must not change.
func (l *Lock) Levels() []Level { return l.levels.all }

// FirstWaiter returns the first waiter, or nil.
func (l *Lock) FirstWaiter() *Call { return l.line.first() }

// Waiters calls yield with each waiter in order. The waiter may leave meanwhile.
func (l *Lock) Waiters(yield func(*Call) bool) {
	for w := range l.line.All {
		if !yield(w.Value) {
			return
		}
	}
}

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

// Holds reports whether the owner has a level, and its hold may be believed.
func (l *Lock) Holds(o OwnerID, now Now) bool {
	return l.IsHeld() && now.Safe < l.ValidUntil(o)
}

// ValidUntil returns the end of the time for which the owner's hold may be believed.
func (l *Lock) ValidUntil(o OwnerID) SafeTime {
	return min(l.TrustedUntil(), l.askedBy(o), l.yieldsAt())
}

// Want returns what this client wants of the tenure.
func (t *Tenure) Want() Want { return t.want }

// Place returns where Redis has the tenure.
func (t *Tenure) Place() Place { return t.place }

// OpInFlight returns the command of the tenure that is in flight, or None.
func (t *Tenure) OpInFlight() Op { return t.flight.op }

// More returns the number of permits beside the first that the tenure takes.
func (t *Tenure) More() int32 { return t.more }

// IsHeld reports whether an owner in this client holds the lock.
func (l *Lock) IsHeld() bool { return len(l.levels.all) > 0 }

// IsWritten reports whether an owner in this client holds the lock and is not only a reader.
func (l *Lock) IsWritten() bool { return l.levels.writes > 0 }

// IsShown reports whether Redis has confirmed that it shows the present levels.
func (l *Lock) IsShown(now Now) bool {
	t := l.held
	return t != nil && t.flight.op != Mirror && l.isMirrored(t, now)
}

// A guarded write is a command of a user that Redis executes only if the tenure has the lock. It
// sets no lease and changes no place, so that any number of them may be in flight beside the one
// command of the table.
//
// A guarded write that is executed late, or twice, must not run in a later hold. So no other hold
// begins in a tenure with a guarded write: the lock is not handed off, no reader joins, and none is
// let in after a downgrade. The next hold asks Redis.

// UnlockWith is Unlock with a guarded write, which the call of the release carries: see
// Call.Carries. Only the first Leave has the write: a repeated one would not find the tenure. No
// other hold begins in the tenure, so that there is always a release. UnlockWith reports false, and
// changes nothing, if there are other levels or a least hold.
func (l *Lock) UnlockWith(o OwnerID, m Mode, handle any, now Now) (was Level, releases *Tenure, alone bool) {
	l.endLapsed(now)
	i := -1
	if len(l.levels.all) == 1 && l.stays <= now.Time {
		i = l.levelOf(o, m, handle)
	}
	if i < 0 {
		l.Settle(now)
		return was, nil, false
	}
	l.levels.all[i].wrote = true
	return l.Unlock(o, m, handle, now)
}
