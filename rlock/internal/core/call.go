package core

import (
	"github.com/go-rlock/rlock/waitqueue"
)

// A Purpose is what a call waits for.
type Purpose uint8

const (
	Locks    Purpose = iota // the lock, or the one that was passed on
	Releases                // the answer to the command that ends its tenure: the first Leave, or the Mirror that passes it on
	Tends                   // the answer to the command of its tenure that is due now, sent beside the keeper
	Writes                  // the answer to a guarded write
	Forces                  // the answer to the Leave of a holder that is released by force
)

// A Call is a caller that waits. It is a state machine, and a goroutine of the driver is its shell: that asks Next, does what
// the answer says, and tells the lock the result. The commands that no call sends are the keeper's.
//
//	Wait, Resume, Release, Tend, Write, Force ──► Next ─┬─► Sends    Command, carry it, Answer; then Next
//	                                                    ├─► Queues   for a slot; then Next, with the slot
//	                                                    ├─► Sleeps   until a time or an effect; then Next
//	                        Leave: its caller has left ─┴─► Returns  it has its Outcome
//
// Between two calls of Next anything may happen to the lock. The caller sets the first fields, and may use the memory again
// when Next has said Returns, or when the call has the lock: Answer is not given a call that has returned.
type Call struct {
	Owner    OwnerID
	Mode     Mode
	More     int32  // how many permits of a semaphore it takes at once, beside the first
	Lease    Span   // 0: renewed until Unlock
	Waits    bool   // false: one attempt
	Until    Time   // when its wait is over; Never for one that only Leave ends
	Part     bool   // it is for a lock over several, and that is told in its place
	Guest    bool   // it is a guest's of the owner
	Repeats  bool   // its owner may have other calls for the lock, which need not be a goroutine
	Capped   bool   // Lease is the longest hold: it is renewed until then
	Handle   any    // of the level, nil for one that is unlocked by its owner
	Info     any    // of the level, the driver's
	Answers  bool   // a release may answer it while its ticket waits
	Most     int32  // how many may wait, itself included, for it to wait; 0: any number, negative: none
	Carries  bool   // of Release, after UnlockWith: its command carries a guarded write
	Named    ID     // of Resume: the tenure that has passed the lock on; of Force: the one that is to leave
	Inherits uint64 // of Resume: the fencing token, 0 for none
	Tag      any    // the driver's

	// The lock sets these, and the caller reads them.
	Purpose Purpose
	Outcome Outcome
	Began   Time    // when a call that locks has begun
	Tenure  *Tenure // the one whose commands it sends, of a call that locks its ticket; nil for none
	Grant
	Result

	asleep bool // it waits for an effect or for its time; else it asks Next by itself
	flies  bool // its command has no answer; not of one that locks, whose ticket knows
	alarm  Time // asleep: when its goroutine asks Next by itself
	waiting
}

// A Grant is what a call that locks has got, or has not.
type Grant struct {
	Way    Way    // how it has got the lock
	Token  uint64 // the fencing token of its level, 0 for a lock without
	Others int32  // Full: how many wait, as far as this client knows
}

// A Result is the result of a call that is Done.
type Result struct {
	Cause Cause // of a release
	Fault Fault // why there is no answer
	Found bool  // Redis had the tenure when it executed the command
}

// waiting is the part of a call that locks.
type waiting struct {
	attempt  attempt
	counted  bool                    // among the line's repeats
	overdue  bool                    // its time is up, and it waits for an answer that is on its way
	admitted bool                    // its ticket has a place in the queue, or had: that of a call with a bound is asked for once
	fails    int                     // its commands in a row without an answer
	rest     Time                    // until when nothing is sent for it
	position waitqueue.Waiter[*Call] // in the line of its lock
}

// A Todo is what the goroutine of a call does next.
type Todo uint8

const (
	Returns Todo = iota // the call has its Outcome
	Sleeps              // until the time, or until an effect wakes it
	Queues              // the same, or until it has a slot among the commands in flight: then it asks again, with the slot
	Sends               // the command, in its slot
)

// An Action is what Next says. Op is the command that the call Sends: Command builds it.
type Action struct {
	Do    Todo
	Op    Op
	Until Time
}

// Alarm returns when the goroutine of the call asks Next by itself.
func (c *Call) Alarm() Time { return c.alarm }

// begins makes the memory a new call. The lock is not idle until it has returned or has the lock.
func (l *Lock) begins(c *Call, p Purpose, t *Tenure) {
	c.Purpose, c.Tenure, c.Outcome, c.asleep, c.flies = p, t, Waiting, false, false
	l.line.calls++
}

// Release begins a call that sends the command which ends the tenure that Unlock or Pass has just returned: the first Leave,
// or the Mirror that passes it on. Without a call the keeper sends it.
func (l *Lock) Release(t *Tenure, c *Call) {
	l.begins(c, Releases, t)
	t.Agent = c
}

// Tend begins a call that sends the command of the tenure which is due now, beside the keeper, which would pause before.
func (l *Lock) Tend(t *Tenure, c *Call) {
	l.begins(c, Tends, t)
	c.Named = t.ID
}

// Write begins a guarded write of the level that Owner, Mode and Handle name.
func (l *Lock) Write(c *Call) { l.begins(c, Writes, nil) }

// Force begins the release of a holder by force: of the tenure Named.
func (l *Lock) Force(c *Call) { l.begins(c, Forces, nil) }

// Next returns what the goroutine of the call does now. It has a slot or not; the slot is used if Next says Sends, and else
// given back.
func (l *Lock) Next(c *Call, slot bool, now Now) Action {
	c.asleep = false
	l.advance(c, now)
	if c.Outcome != Waiting {
		l.returned(c)
		return Action{Do: Returns}
	}
	op, at := l.due(c, now)
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

// advance ends the call if its time has come, or if it has nothing left to do.
func (l *Lock) advance(c *Call, now Now) {
	switch {
	case c.Outcome != Waiting:
	case c.Purpose == Locks:
		if c.alarm = l.Wakes(c, now); c.alarm <= now.Time {
			l.tick(c, now)
			c.alarm = l.Wakes(c, now)
		}
	case c.flies:
		c.alarm = Never
	case c.Purpose == Writes && !l.mayWrite(c, now):
		c.done(Answered, false, KeyGone)
	case c.Purpose == Releases && c.Tenure.want == Parted && c.Tenure.place != Owner: // Redis has not what is to be passed on
		t := c.Tenure
		t.Agent = nil
		c.done(Answered, false, KeyGone)
		l.give(t, now)
	case c.Purpose == Tends && !l.tends(c, now):
		c.done(Answered, false, ByUnlock)
	case now.Time >= c.Until:
		l.Leave(c, TimedOut, now)
	default:
		c.alarm = c.Until
	}
}

// due returns the command that the call is to send now, None for none, and when to ask again.
func (l *Lock) due(c *Call, now Now) (Op, Time) {
	switch {
	case c.Tenure != nil:
		return c.Tenure.next(now)
	case c.flies:
		return None, Never
	}
	//exhaustive:ignore
	switch c.Purpose {
	case Locks: // it has no ticket now
		return None, Never
	case Writes:
		return Write, Never
	case Forces:
		return Leave, Never
	default: // the others have a tenure
		panic("core: a call without a tenure " + c.Purpose.String())
	}
}

// Command returns the command that Next has said. It is to be sent at once.
func (l *Lock) Command(c *Call, op Op, now Now) (cmd Command) {
	switch {
	case c.Tenure != nil:
		cmd, _ = l.send(c.Tenure, op, now)
	case op == Write:
		cmd = l.guarded(c, now)
	case c.Purpose == Forces:
		cmd = Command{Op: op, Ticket: Ticket{ID: c.Named}, Permits: int(l.Kind.Permits)}
		if l.Kind.Fenced {
			cmd.Tokens = 1 // for the waiter that is granted the lock
		}
	default:
		panic("core: a call that " + c.Purpose.String() + " sends a command " + op.String())
	}
	c.flies = c.Purpose != Locks
	return cmd
}

// answers ends a call that does not lock with the answer to its command.
func (l *Lock) answers(c *Call, cmd *Command, a Reply) {
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
	c.done(a.Fault, found, cause)
}

// tends reports whether the tenure of the call has a command that is due, and no other call sends it. The memory may be
// another tenure's by now.
func (l *Lock) tends(c *Call, now Now) bool {
	t := c.Tenure
	if t.lock != l || t.ID != c.Named || t.Agent != nil {
		return false
	}
	op, _ := t.next(now)
	return op != None
}

// done ends a call that does not lock.
func (c *Call) done(f Fault, found bool, cause Cause) {
	c.Outcome, c.Result, c.Tenure, c.flies = Done, Result{cause, f, found}, nil, false
}

// returned notes that the call leaves the lock alone from now on.
func (l *Lock) returned(c *Call) {
	if c.Outcome != Acquired {
		l.line.calls--
	}
	if l.hears != deaf {
		l.quiet()
	}
}

// Leave ends a call whose caller has left. A ticket is given back, a release is left to the keeper, and a lock that was not
// passed on yet is released. A command in flight goes on without its call.
func (l *Lock) Leave(c *Call, o Outcome, now Now) {
	t := c.Tenure
	switch {
	case c.Outcome != Waiting:
		return
	case c.Purpose == Locks:
		l.leave(c, o, now)
	case c.Purpose == Releases:
		t.Agent = nil
		c.done(NotRun, false, Unconfirmed)
		if t.want == Parted && t.within > 0 {
			l.give(t, now)
		}
		l.touch(t)
	case c.flies:
		c.done(Unknown, false, Unconfirmed)
	default:
		c.done(NotRun, false, Unconfirmed)
	}
	l.Settle(now)
}
