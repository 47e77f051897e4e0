package core

import (
	"math"
	"slices"
)

// An OwnerID names an owner of a hold: a goroutine, a handle, or an owner that the caller has
// named.
type OwnerID uint64

// A Note is what Redis shows about a hold, or about a call that waits, beside its owner. It never
// changes. Package core does not read the text.
type Note struct {
	Text  string
	Line  string // the line in which the call waits; or ""
	Since Time   // the beginning of the hold; for a call that waits, and for a permit, the beginning of the call
}

// An ID is the UUID of a tenure in Redis: its client, and a number. No two tenures have the same
// ID, so a command that runs late touches no other tenure. The zero ID stands for no tenure.
type ID struct {
	Client uint32
	N      uint64
}

// A Mode is the way in which a tenure needs the lock.
type Mode uint8

const (
	Alone  Mode = iota // "x": nothing else may hold the lock
	Shared             // "s": other readers may hold it too
)

// An Op is the purpose of a command for a tenure.
type Op uint8

const (
	None    Op = iota // no command
	Acquire           // take the lock if it is free and no ticket waits for it: acquire.lua
	Resume            // take the lock that another tenure has passed on, in its place: resume.lua
	Join              // a step: put a new ticket at the end of the queue; if the lock is free, hold it for a claim
	Look              // a step: find the ticket in the queue; if the lock is free and the ticket is first, hold it for a lease
	Mirror            // show in Redis how the lock is held here, for a lease that begins now: mirror.lua
	Leave             // a step: take the tenure out of the lock and of the queue, and grant the lock to the next ticket
	Step              // a step without members: grant a lock that is open to the tickets that may have it
	Unmark            // take the mark of the tenure out of the queue: ZREM. The lock itself is left to its lease
	Write             // a guarded write: execute it if the lock has the tenure: see lock.go

	ops = iota // the number of Ops
)

// A Ticket is a tenure as a step names it: its UUID, its mode, and whether its client polls.
type Ticket struct {
	ID         ID
	Mode       Mode
	Polls      bool    // the client had not subscribed when the ticket joined: "X" or "S" in the queue
	Answerable bool    // a release that has an answer takes the ticket out of the queue: "a" or "A" there
	Brief      bool    // the ticket is granted a brief claim: "b" in the queue
	Takes      bool    // the ticket stands before all that do not take the lock over
	More       int32   // the number of permits of a semaphore beside the first
	Owner      OwnerID // the number behind the UUID in the owner's text
	Note       *Note   // the note in the owner's text; nil for none
}

// A Command is one command about one lock, to be sent once.
type Command struct {
	Op Op
	Ticket
	Joins  Ticket    // the ticket that joins in the same step as a Leave; the zero Ticket if none does
	Ends   Holding   // the holder that a Look takes out of the lock first; the zero Holding for none
	Tells  []Telling // the holders that are told by a Look that the lock is taken over
	Passed ID        // the tenure that passed the lock on, which a Resume replaces

	// Carries is set if a Leave carries a guarded write: if the tenure has the lock, Redis executes
	// the write in the same step, before the tenure leaves. The write may return an answer for the
	// tickets that take one, which leave as well.
	Carries bool

	// Lease is the lease that an Acquire, a Resume, a Look or a Mirror asks for. A Join, and a
	// ticket that joins with a Leave, ask for a claim.
	Lease Span

	Mirrored
	Asks  bool // a Mirror or a Resume also asks how many others wait
	Heeds bool // a Mirror that asks also asks whether a ticket takes the lock over; a Look, whether its ticket does

	Bound
	Tokens  uint64 // the number of fencing tokens that a grant reserves; 0 for a lock without tokens
	Permits int    // the number of permits of the semaphore; 0 for other locks

	// Heard is set in a step of a client that listens to foreign clients and has heard one release
	// the lock since its last step.
	Heard bool
	// Polling is set in a step if clients of Redisson may wait for the lock that only poll, and
	// cannot be counted.
	Polling bool

	// Follows is set if another command about the tenure was in flight when this one was built.
	// Only a command that follows none may use a connection of its own: any other stays in the
	// pipeline, where it cannot overtake.
	Follows bool

	Tenure              *Tenure // the tenure of the command; nil for a guarded write and for a release by force
	joins               *Tenure // the tenure of Joins, or nil
	tenureSeq, joinsSeq uint32  // the flights of both: see flight.go
}

// Mirrored is what a Mirror shows in Redis.
type Mirrored struct {
	Exact  bool // the lease may become shorter, and foreign clients that wait are notified
	Writes int  // the number of levels that are not shared
	Reads  bool // some levels are shared
	Renews bool // the Mirror renews a hold without a lease of its own, and is not the first after a claim; for statistics
}

// A Bound makes a Join conditional: Redis undoes it in the same step if it would leave more than
// Most tickets in the queue, its own included, and the lock was not granted to it.
type Bound struct {
	Bounded bool
	Most    int
}

// A Fault is the reason why a command has no answer.
type Fault uint8

const (
	Answered Fault = iota // the command has an answer
	NotRun                // the command was not executed, and will not be
	Unknown               // the command may have been executed, or may be yet
	Fatal                 // the command was refused, and would be refused again
	Behind                // as Unknown, because the caller has left; Redis has not failed
	Skipped               // as NotRun, because another answer made the command needless; Redis has not failed
)

// isCallers reports whether the reason lies in this client: the caller has left, or the command was
// needless. The reason for any other fault lies in Redis.
func (f Fault) isCallers() bool { return f == Behind || f == Skipped }

// A Found is where a command has found its tenure.
type Found uint8

const (
	Nowhere Found = iota // neither in the queue nor in the lock
	Waits                // the ticket is in the queue behind another one
	First                // the ticket is the first in the queue, or its deputy behind foreign clients: see grant.lua
	Holds                // the tenure has the lock, with the lease that the command asks for, counted from its execution
)

// A Reply is the outcome of a command.
type Reply struct {
	Fault Fault

	// Settled is set if the command, and each command about its tenure that was sent before, has
	// been executed or never will be. An answer over a connection that keeps the order, and has not
	// been replaced, is settled.
	Settled bool

	Left  bool  // a Leave found the tenure in the lock or in the queue
	Found Found // where any other command found its tenure, or a Leave the ticket that joins with it

	// JoinFault is the reason why the ticket that joins with a Leave has no answer, although the
	// Leave has one: a step may fail after it has freed the lock.
	JoinFault Fault

	// Unreplicated is set if Redis granted the lock and too few replicas confirmed the grant, which
	// does not count then.
	Unreplicated bool

	Holder  ID   // the holder if it is another tenure; the zero ID if the lock is free, or a foreign client holds it
	Foreign bool // a foreign client holds the lock
	TTL     Span // the rest of the holder's lease; NoTTL for a key without a TTL; meaningless if the lock is free

	Holders []Holding // the holders, in any order, if the ticket of the command takes the lock over

	Full    bool // a bounded Join was undone, since too many tickets stand in the queue
	Tickets int  // the number of these tickets

	Token  uint64 // the last of the fencing tokens that the grant reserved
	Takes  bool   // a ticket that takes the lock over waits, if a Mirror Heeds; the ticket of a Look is one
	Others int    // the number of tickets and foreign clients that wait, if the command Asks

	Window   Span // the rest of the window of foreign clients; 0 if there is none
	HeldBack bool // readers of rlock wait for one of its writers, which foreign readers keep out
	HeldFor  Span // the time until these readers may begin all the same; 0 if they may
}

// NoTTL is the TTL of a key that does not expire.
const NoTTL Span = -1

// A MessageKind is the purpose of a message.
type MessageKind uint8

const (
	Granted     MessageKind = iota // "+": the ticket has the lock for a claim
	AtFront                        // "?": the ticket is the first or its deputy, and is to look again: see docs/protocol.md
	Forced                         // "f": the tenure was released by force
	ForeignNews                    // a message on the channel of foreign clients: see Lock.listenForeign
	Shown                          // "h": the tenure has the lock, and a client waits for it
	Satisfied                      // "=": a release has taken the ticket out of the queue, with an answer for its call
	TakenOver                      // "t": a ticket takes the lock over from the tenure
	LetThrough                     // ">": an operator makes the ticket take the lock over
)

// A Message is a message to a client. Any client may publish one, so it may be forged, late or
// doubled.
type Message struct {
	Kind   MessageKind
	ID     ID     // the tenure; the zero ID for ForeignNews
	More   int32  // the number of permits beside the first that the tenure has
	Token  uint64 // the last of the tokens that a grant reserved
	Tokens uint64 // the number of these tokens
	Left   Span   // the rest of the grace of a tenure that the lock is taken over from; the grace that a ticket is let through with
	Ours   bool   // a client of rlock published the ForeignNews
}

// A Span is a length of time, in the unit of the caller's clocks: nanoseconds in a client, ticks in
// the explorer.
type Span int64

// A Time is a point on the monotonic clock, by which waits and retries are timed.
type Time int64

// A SafeTime is a point on the clock that never runs behind Redis: it advances by the larger of
// what the monotonic and the wall clock advance. Only the trust in a lease is timed by it. It is a
// type of its own, so that a lease is never compared with the monotonic clock, which stands still
// while the machine is suspended:
//
//	this client              Redis                  another client
//	Acquire of 30 s          a lease of 30 s
//	suspended for a minute   the lease ends         Acquire: it has the lock
//	goes on                                         by the monotonic clock the lease has 30 s left here
type SafeTime int64

// A Now is one moment on both clocks.
type Now struct {
	Time Time
	Safe SafeTime
}

// Never is later than any time, and Forever is longer than any wait.
const (
	Never     Time     = math.MaxInt64
	NeverSafe SafeTime = math.MaxInt64
	Forever   Span     = math.MaxInt64
)

// After returns the time a span after t: Never if the span is Forever, or reaches beyond Never.
func (t Time) After(d Span) Time { return addSpan(t, d) }

// Since returns the span from u to t.
func (t Time) Since(u Time) Span { return Span(t - u) }

// After is Time.After for the other clock.
func (t SafeTime) After(d Span) SafeTime { return addSpan(t, d) }

func addSpan[T Time | SafeTime](t T, d Span) T {
	at := t + T(d)
	if d == Forever || t == math.MaxInt64 || d > 0 && at < t {
		return math.MaxInt64
	}
	return at
}

// Since returns the span from u to t.
func (t SafeTime) Since(u SafeTime) Span { return Span(t - u) }

// At returns the time on the monotonic clock at which t comes if both clocks run alike: the time to
// check whether it has.
func (n Now) At(t SafeTime) Time {
	if t == NeverSafe {
		return Never
	}
	return n.Time + Time(t-n.Safe)
}

// An EffectKind is the sort of an Effect.
type EffectKind uint8

const (
	Wake          EffectKind = iota // wake Call, which has an outcome
	Poll                            // at time At, wake Call; if Call is nil, have the keeper poll Tenure
	Ended                           // Tenure is over
	Lose                            // the levels Lost have ended, for Cause
	Subscribe                       // subscribe to the client's channel of the lock, and call Lock.Subscribed
	Unsubscribe                     // unsubscribe from the client's channel of the lock
	ListenForeign                   // subscribe to the channel of foreign clients, and call Lock.ListeningForeign
	IgnoreForeign                   // unsubscribe from the channel of foreign clients
	Wanted                          // another owner waits for the lock: see AskOthers
)

// An Effect is an act that package core leaves to the driver, which carries effects out in their
// order.
type Effect struct {
	Kind   EffectKind
	Cause  Cause
	Lock   *Lock
	Call   *Call
	Tenure *Tenure
	At     Time
	Lost   []Level
}

// A Cause is the reason why a hold has ended, or the result of a release.
type Cause uint8

const (
	ByUnlock    Cause = iota // the holder released it
	LeaseEnded               // the lease that the holder asked for has ended
	TooLong                  // the longest time for which the holder may hold the lock has ended
	Unrenewed                // Redis did not confirm a renewal in time
	KeyGone                  // Redis no longer shows the tenure
	ByForce                  // this client released it by force
	ByTakeover               // another owner has taken the lock over
	ByClose                  // the client closes
	Unconfirmed              // the release has no answer
)

// TakeEffects returns the effects since the last call. The driver carries them out, which may cause
// more effects. The slice is valid until the next call. The deadline of each touched tenure is
// computed here, once.
func (c *Client) TakeEffects(now Now) []Effect {
	e := c.Effects
	c.Effects, c.taken = c.taken[:0], e
	n := 0
	for i := range e {
		if e[i].Kind == Poll && e[i].Tenure != nil && !e[i].Lock.fillDeadline(&e[i], now) {
			continue
		}
		if n < i {
			e[n] = e[i]
		}
		n++
	}
	clear(e[n:])
	return e[:n]
}

// fillDeadline fills in the deadline of the effect's tenure, and the call that sends its commands.
// It reports false if the effect is needless: its call is awake, or wakes sooner by itself.
func (l *Lock) fillDeadline(e *Effect, now Now) bool {
	t := e.Tenure
	if t.lock != l || !t.touched {
		return false // the tenure was forgotten since, or another effect has its deadline
	}
	t.touched = false
	if t.isOver(now) {
		l.forget(t, now)
		l.Settle(now)
		return false
	}
	c := t.Agent
	if t.alarm = 0; c != nil && !c.asleep {
		return false
	}
	_, t.alarm = t.nextCommand(now)
	e.Call, e.At = c, t.alarm
	return c == nil || e.At < c.alarm
}

// addEffect appends an effect for the driver.
func (l *Lock) addEffect(e Effect) {
	e.Lock = l
	l.client.Effects = append(l.client.Effects, e)
}

// touch marks t so that its deadline is recomputed and its agent, which may be another one by now,
// is notified.
func (l *Lock) touch(t *Tenure) {
	if !t.touched {
		t.touched = true
		l.addEffect(Effect{Kind: Poll, Tenure: t})
	}
}

// noteLevelsChanged recomputes the deadline of the held tenure after its levels have changed: a
// Mirror is due if Redis shows other levels, and a check when the first level ends. The agent is
// the same as before, so only an earlier deadline is news to it.
func (l *Lock) noteLevelsChanged(now Now) {
	t := l.held
	if t.touched || t.alarm <= now.Time || t.alarm <= now.At(l.FirstEnd()) && l.isMirrored(t, now) {
		return
	}
	if _, at := t.nextCommand(now); at < t.alarm {
		l.touch(t)
	}
}

// reportLost reports the levels as lost, if there are any.
func (l *Lock) reportLost(lost []Level, cause Cause) {
	if len(lost) > 0 {
		l.addEffect(Effect{Kind: Lose, Tenure: l.held, Lost: slices.Clone(lost), Cause: cause})
	}
}
