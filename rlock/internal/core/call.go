package core

import (
	"github.com/go-rlock/rlock/waitqueue"
)

// A Purpose is what a call waits for.
type Purpose uint8

const (
	Locks    Purpose = iota // the lock
	Releases                // the answer to the command that ends its tenure: the first Leave, or the Mirror that passes it on
	Writes                  // the answer to a guarded write
	Forces                  // the answer to the Leave of a holder that is released by force
)

// A Call is a caller that waits. It is a state machine, and its shell is a goroutine of the driver,
// which asks Next, does what Next says, and gives the reply to Answer. The keeper sends the
// commands that no call sends.
//
//	Wait, BeginResume, BeginRelease, ──► Next ─┬─► Sends    Command, carry it, Answer; then Next
//	BeginWrite, BeginForce                     ├─► Queues   for a slot; then Next, with the slot
//	                                           ├─► Sleeps   until a time or an effect; then Next
//	                 End: its caller has left ─┴─► Returns  it has its Outcome
//
// Between two calls of Next anything may happen to the lock. The caller sets the first fields. It
// may reuse the memory once Next has said Returns or the call has acquired the lock, and must not
// give Answer a call that has returned.
type Call struct {
	Owner      OwnerID
	Mode       Mode
	More       int32  // the number of permits of a semaphore beside the first
	Lease      Span   // the lease of the hold; 0 if the hold is renewed until Unlock
	Waits      bool   // the call waits in line; else it has one attempt
	Until      Time   // the end of the wait; Never if only End ends the wait
	Part       bool   // the level belongs to a part of a multi or red lock, which is reported in place of its parts
	Guest      bool   // the caller is a guest of the owner
	Repeats    bool   // the owner is not a goroutine, and may have several calls at once
	Capped     bool   // Lease is the longest time of the hold: until its end the hold is renewed
	Handle     any    // the handle of the level; nil for a level that its owner unlocks
	Info       any    // the driver's data, for the level
	Note       *Note  // the note of the hold; nil for none
	Grace      Span   // the time that a holder has left when the call takes the lock over; 0 for a call that waits for its turn
	Answerable bool   // a release may answer the call while its ticket waits
	Most       int32  // the number of callers that may wait, this one included; 0 for any number, negative for none
	Carries    bool   // the Leave of the release carries a guarded write: see UnlockWith
	Named      ID     // the tenure that Resume replaces, or that Force releases
	Inherits   uint64 // the fencing token of the lock that Resume takes; 0 for none
	Tag        any    // the driver's data

	// The lock sets these, and the caller reads them.
	Purpose Purpose
	Outcome Outcome
	Began   Time    // when a call for the lock began
	Tenure  *Tenure // the tenure whose commands the call sends, which is its ticket if it waits for the lock; or nil
	Grant
	Result

	asleep   bool // the goroutine waits for an effect, or for alarm; else it asks Next by itself
	inFlight bool // a command is in flight; unused if Purpose is Locks: see Tenure.flight
	alarm    Time // the time at which a goroutine that is asleep asks Next by itself
	waiting
}

// A Grant is what a call for the lock gets.
type Grant struct {
	Way    Way    // how it acquired the lock
	Token  uint64 // the fencing token of its level; 0 for a lock without tokens
	Others int32  // the number of callers that wait, as far as this client knows, if the outcome is Full
}

// A Result is the result of a call that is Done.
type Result struct {
	Cause Cause // the result of a release
	Fault Fault // the reason why there is no answer
	Found bool  // Redis had the tenure when it executed the command
}

// waiting is the part of a call that waits for the lock.
type waiting struct {
	tried    int8                    // the number of Acquires of the call that have an answer, or may get one
	tries    int8                    // the number of Acquires that the call may send: one, or two after allowRetry
	counted  bool                    // the line's repeats count the call
	overdue  bool                    // the time of the call is up, and it waits for an answer in flight
	admitted bool                    // the ticket has been in the queue: the bound no longer counts
	fails    int                     // the number of consecutive commands without an answer
	victims  []victim                // the holders that have to give way to the call
	letBy    Span                    // the grace with which a message lets the call through, until Redis confirms that
	rest     Time                    // the time before which no command is sent for the call
	position waitqueue.Waiter[*Call] // the place of the call in the line
}

// A Todo is what the goroutine of a call does next.
type Todo uint8

const (
	Returns Todo = iota // return: the call has its Outcome
	Sleeps              // sleep until a time, or until an effect wakes it
	Queues              // sleep as well, or get a slot among the commands in flight; with the slot, ask Next again
	Sends               // send the command, in its slot
)

// An Action is the result of Next.
type Action struct {
	Do    Todo
	Op    Op   // the command to send, which Command builds
	Until Time // the end of a sleep
}

// Alarm returns when the goroutine of the call asks Next by itself.
func (w *Call) Alarm() Time { return w.alarm }

// beginCall makes c a new call. The lock is not idle until the call has returned or acquired the
// lock.
func (l *Lock) beginCall(c *Call, p Purpose, t *Tenure) {
	c.Purpose, c.Tenure, c.Outcome, c.asleep, c.inFlight = p, t, Waiting, false, false
	l.line.calls++
}

// BeginRelease begins a call that sends the last command of a tenure which Unlock or Pass has just
// returned: the first Leave, or the Mirror that passes the lock on. Without such a call the keeper
// sends it.
func (l *Lock) BeginRelease(t *Tenure, c *Call) {
	l.beginCall(c, Releases, t)
	t.Agent = c
}

// BeginWrite begins a guarded write. Owner, Mode and Handle name its level.
func (l *Lock) BeginWrite(c *Call) { l.beginCall(c, Writes, nil) }

// BeginForce begins a call that releases the tenure Named by force.
func (l *Lock) BeginForce(c *Call) { l.beginCall(c, Forces, nil) }

// Next advances the call, and returns what its goroutine does now. slot says whether it has a slot
// among the commands in flight, which it uses if Next says Sends, and gives back otherwise.
func (l *Lock) Next(c *Call, slot bool, now Now) Action {
	c.asleep = false
	l.advance(c, now)
	if c.Outcome != Waiting {
		if c.Outcome != Acquired {
			l.line.calls--
		}
		if l.grants != unsubscribed && l.Idle() {
			l.unsubscribe()
		}
		return Action{Do: Returns}
	}
	op, at := None, Never
	switch {
	case c.Tenure != nil:
		op, at = c.Tenure.nextCommand(now)
	case c.inFlight:
	case c.Purpose == Writes:
		op = Write
	case c.Purpose == Forces:
		op = Leave
	}
	switch {
	case op == None:
		c.asleep, c.alarm = true, min(at, c.alarm)
		return Action{Do: Sleeps, Until: c.alarm}
	case !slot:
		c.asleep = true
		return Action{Do: Queues, Until: c.alarm}
	}
	return Action{Do: Sends, Op: op}
}

// advance ends the call if its time is up, or if it has nothing left to do.
func (l *Lock) advance(c *Call, now Now) {
	switch {
	case c.Outcome != Waiting:
	case c.Purpose == Locks:
		if c.alarm = l.Wakes(c, now); c.alarm <= now.Time {
			l.advanceWaiter(c, now)
			c.alarm = l.Wakes(c, now)
		}
	case c.inFlight:
		c.alarm = Never
	case c.Purpose == Writes:
		l.Settle(now) // the hold may be over
		if c.alarm = c.Until; l.levelOf(c.Owner, c.Mode, c.Handle) < 0 {
			c.finish(Answered, false, KeyGone)
		}
	case c.Purpose == Releases && c.Tenure.want == Parted && c.Tenure.place != Owner: // Redis no longer has the lock to pass on
		t := c.Tenure
		t.Agent = nil
		c.finish(Answered, false, KeyGone)
		l.makeGone(t, now)
	case now.Time >= c.Until:
		l.End(c, TimedOut, now)
	default:
		c.alarm = c.Until
	}
}

// Command returns the command op that Next has said. The caller sends it at once.
func (l *Lock) Command(c *Call, op Op, now Now) (cmd Command) {
	switch {
	case c.Tenure != nil:
		cmd, _ = l.launchWithJoin(c.Tenure, op, now)
	case op == Write:
		l.levels.all[l.levelOf(c.Owner, c.Mode, c.Handle)].wrote = true
		cmd = Command{Op: op, Ticket: Ticket{ID: l.held.ID, Mode: c.Mode, Owner: l.held.shown.owner, Note: l.held.note}, Follows: l.held.follows(now)}
	case c.Purpose == Forces:
		cmd = Command{Op: op, Ticket: Ticket{ID: c.Named}, Permits: int(l.Kind.Permits)}
		if l.Kind.Fenced {
			cmd.Tokens = 1 // for the first ticket, which is granted the lock
		}
	default:
		panic(c.Purpose)
	}
	c.inFlight = c.Purpose != Locks
	return cmd
}

// answerCall ends a call that does not wait for the lock, with the answer to its command.
func (l *Lock) answerCall(c *Call, cmd *Command, a Reply) {
	found := a.Found == Holds
	if cmd.Op == Leave {
		found = a.Left
	}
	cause := ByUnlock
	if c.Purpose == Releases {
		switch {
		case a.Fault == Fatal, a.Fault == Answered && !found:
			cause = KeyGone
		case a.Fault != Answered:
			cause = Unconfirmed
		}
		c.Tenure.Agent = nil // the keeper goes on with it
	}
	if a.Fault == Behind {
		a.Fault = Unknown
	}
	c.finish(a.Fault, found, cause)
}

// finish ends a call that does not wait for the lock.
func (w *Call) finish(f Fault, found bool, cause Cause) {
	w.Outcome, w.Result, w.Tenure, w.inFlight = Done, Result{cause, f, found}, nil, false
}

// End ends a call that has no outcome yet by the outcome o: its caller has left, its time is up, or
// the driver knows that it cannot succeed. Its ticket is given back, its release is left to the
// keeper, and a lock that it was about to pass on is released. A command in flight goes on without
// its call.
func (l *Lock) End(c *Call, o Outcome, now Now) {
	t := c.Tenure
	switch {
	case c.Outcome != Waiting:
		return
	case c.Purpose == Locks:
		l.endWait(c, o, now)
	case c.Purpose == Releases:
		t.Agent = nil
		c.finish(NotRun, false, Unconfirmed)
		if t.want == Parted && t.within > 0 {
			l.makeGone(t, now)
		}
		l.touch(t)
	case c.inFlight:
		c.finish(Unknown, false, Unconfirmed)
	default:
		c.finish(NotRun, false, Unconfirmed)
	}
	l.Settle(now)
}
