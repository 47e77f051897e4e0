package core

import (
	"math"
	"slices"
)

// An OwnerID names an owner of a hold: a goroutine, a handle, or an owner that the caller has named.
type OwnerID uint64

// An ID is the UUID of a tenure in Redis: its client, and a number. Each tenure has its own, so that a command that runs
// late touches no other tenure. The zero ID is none.
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
	None    Op = iota
	Acquire    // take the lock if it is free and no ticket waits for it: acquire.lua
	Resume     // take the lock that another tenure has passed on, in its place: resume.lua
	Join       // a step: put a new ticket at the end of the queue; if the lock is free, hold it for a claim
	Look       // a step: find the ticket in the queue; if the lock is free and the ticket is first, hold it for a lease
	Mirror     // show in Redis how the lock is held here, for a lease that begins now: mirror.lua
	Leave      // a step: take the tenure out of the lock and of the queue, and grant the lock to the next ticket
	Step       // a step without members: grant a lock that is open to the tickets that may have it
	Unmark     // take the mark of the tenure out of the queue: ZREM. The lock itself is left to its lease
	Write      // a guarded write: execute it if the lock has the tenure: see lock.go

	ops = iota // how many there are
)

// A Ticket is a tenure as a step names it: its UUID, its mode, and whether its client polls.
type Ticket struct {
	ID    ID
	Mode  Mode
	Polls bool    // "X" or "S": the client had not subscribed when the ticket joined
	Takes bool    // "a" or "A" for "x" or "X": a release that has an answer takes the ticket out of the queue
	More  int32   // of a semaphore: how many permits it takes beside the first
	Owner OwnerID // the part behind the UUID in the owner's text
}

// A Command is one command about one lock, to be sent once.
type Command struct {
	Op Op
	Ticket
	Joins  Ticket // of a Leave: the ticket that joins in the same step; the zero Ticket for none
	Passed ID     // of a Resume: the tenure that has passed the lock on

	// Carries is set in a Leave that carries a guarded write: if the lock has the tenure, the write is executed in the same
	// step, before the tenure leaves. It may have an answer for the tickets that take one: they leave in the same step.
	Carries bool

	// Lease is what an Acquire, a Resume, a Look and a Mirror ask for. A Join, and a Ticket that joins with a Leave, ask for a claim.
	Lease Span

	Exact  bool // of a Mirror: the lease becomes no longer than that, and foreign clients that wait are told; else it is only lengthened
	Writes int  // of a Mirror: how many levels are not shared
	Reads  bool // of a Mirror: some levels are shared
	Asks   bool // of a Mirror and a Resume: how many others wait?

	// Bounded is set in a Join that is undone in its own step unless the lock is granted to it, or Most tickets stand in the
	// queue at most, with its own.
	Bounded bool
	Most    int

	Tokens  uint64 // how many fencing tokens a grant is to reserve; 0 for a lock without
	Permits int    // of a semaphore: how many there are; 0 for other locks

	// Heard is set in a step of a foreign listener that has heard a foreign release since its last step.
	Heard bool
	// Polling is set in a step if clients of Redisson that cannot be counted may wait for the lock.
	Polling bool

	// Follows is set if this command was built while another one about the tenure had no answer. Only a command that
	// follows none may use a connection of its own: on the pipeline it cannot overtake.
	Follows bool

	Tenure              *Tenure // whose command it is, nil of a guarded write and of a release by force
	joins               *Tenure
	tenureSeq, joinsSeq uint32
}

// A Fault is why a command has no answer.
type Fault uint8

const (
	Answered Fault = iota
	NotRun         // the command was not executed, and will not be
	Unknown        // the command may have been executed, or may be yet
	Fatal          // the command was refused, and would be refused again
	Behind         // as Unknown, since its caller has left it behind: Redis has not failed
)

// A Found is where a command has found its tenure.
type Found uint8

const (
	Nowhere Found = iota // neither in the queue nor in the lock
	Waits                // in the queue
	First                // in the queue, as the first ticket
	Holds                // in the lock, for the lease that the command asks for, from when it was executed
)

// A Reply is the outcome of a command.
type Reply struct {
	Fault Fault

	// Settled is set if the command, and each command about its tenure that was sent before, has been executed or never
	// will be. An answer over a connection that keeps the order, and has not been replaced, is settled.
	Settled bool

	Left  bool  // of a Leave: the tenure had the lock or a place in the queue
	Found Found // of an Acquire, a Resume, a Join, a Look, a Mirror, and of the ticket that joins with a Leave

	// JoinFault is why the ticket that joins with an answered Leave has no answer: a step that has freed the lock may fail.
	JoinFault Fault

	// Unreplicated is set if Redis has granted the lock but too few replicas have confirmed that: the grant does not count.
	Unreplicated bool

	Holder  ID   // the holder, unless the tenure holds the lock; the zero ID for none or a foreign one
	Foreign bool // the holder is a foreign client
	TTL     Span // the rest of its lease; NoTTL for a lease without an end; without meaning if there is no holder

	Full    bool // of a Join that is Bounded: it was undone, since too many wait...
	Tickets int  // ...so many tickets

	Token  uint64 // of a grant of a lock with fencing tokens: the last of those reserved
	Others int    // of a Mirror that asks, and of a Resume: how many tickets and foreign clients wait

	Window   Span // how much longer the window of foreign clients lasts; 0 if there is none
	HeldBack bool // foreign readers keep a writer of ours out, which holds readers of ours back...
	HeldFor  Span // ...for so much longer; 0 if they may begin to read
}

// NoTTL is the lease of a holder whose key has no end.
const NoTTL Span = -1

// A MessageKind is the purpose of a message.
type MessageKind uint8

const (
	Granted     MessageKind = iota // "+": the ticket has the lock for a claim
	AtFront                        // "?": the ticket is the first, and foreign clients hold the lock or have their window
	Forced                         // "f": the tenure was released by force
	ForeignNews                    // a message on the channel of foreign clients, which only a foreign listener hears
	Shown                          // "h": the tenure has the lock, and a client waits for it
	Satisfied                      // "=": a release has taken the ticket out of the queue, with an answer for its call
)

// A Message is a message to a client. Any client may publish, so that a message may be forged, late
// or doubled.
type Message struct {
	Kind   MessageKind
	ID     ID     // the tenure; of ForeignNews the zero ID
	More   int32  // how many permits it has beside the first
	Token  uint64 // of Granted: the last of the tokens reserved
	Tokens uint64 // and how many they are; 0 for none
	Ours   bool   // of ForeignNews: a client of ours has published it
}

// A Span is a length of time, in the unit of the caller's clocks: nanoseconds in a client, ticks in the explorer.
type Span int64

// A Time is a point on the monotonic clock. Looks, waits and retries are timed by it.
type Time int64

// A SafeTime is a point on the clock that never runs behind Redis: it advances by the larger of what the monotonic and
// the wall clock advance. How long a lease is believed is counted by it, and nothing else. It is a type of its own so
// that a lease is never compared with the other clock, which stands still while a machine is suspended.
type SafeTime int64

// A Now is one moment on both clocks.
type Now struct {
	Time Time
	Safe SafeTime
}

// Never is later than any time that there is, and Forever is longer than any wait.
const (
	Never     Time     = math.MaxInt64
	NeverSafe SafeTime = math.MaxInt64
	Forever   Span     = math.MaxInt64
)

// After returns the time a span after t, Never for Forever.
func (t Time) After(d Span) Time {
	if d == Forever || t == Never {
		return Never
	}
	return t + Time(d)
}

// Since returns the span from u to t.
func (t Time) Since(u Time) Span { return Span(t - u) }

// After returns the time a span after t, NeverSafe for Forever.
func (t SafeTime) After(d Span) SafeTime {
	if d == Forever || t == NeverSafe {
		return NeverSafe
	}
	return t + SafeTime(d)
}

// Since returns the span from u to t.
func (t SafeTime) Since(u SafeTime) Span { return Span(t - u) }

// At returns when the monotonic clock will show at least that much if both clocks run alike, which is when to look
// whether t has come.
func (n Now) At(t SafeTime) Time {
	if t == NeverSafe {
		return Never
	}
	return n.Time + Time(t-n.Safe)
}

// An EffectKind says what a driver has to do.
type EffectKind uint8

const (
	Wake         EffectKind = iota // the Call has an outcome
	Poll                           // the Tenure is due At: Call's goroutine asks Next then, or without one the keeper asks. Without a Tenure: the Call is due At
	Ended                          // the Tenure is over
	Lose                           // the holders of Lost, for Cause
	Subscribe                      // to the client's channel of the lock: Lock.Listening has the result
	Unsubscribe                    // from it
	ListenAbroad                   // subscribe to what foreign clients are told: Lock.ListeningAbroad
	IgnoreAbroad                   // end that
)

// An Effect is something for a driver to do, in the order in which they come.
type Effect struct {
	Kind   EffectKind
	Cause  Cause
	Lock   *Lock
	Call   *Call
	Tenure *Tenure
	At     Time
	Lost   []Level
}

// A Cause is why a hold has ended, or what became of a release.
type Cause uint8

const (
	ByUnlock    Cause = iota // it was released
	LeaseEnded               // the lease that its holder has asked for
	TooLong                  // it has lasted for as long as its holder may hold the lock
	Unrenewed                // Redis has not confirmed it in time
	KeyGone                  // Redis does not show it any more
	ByForce                  // this client has released it by force
	ByClose                  // the client closes
	Unconfirmed              // the release has no answer
)

// TakeEffects returns what the driver has to do since the last call. The slice is valid until the next one, so that
// carrying the effects out may bring about more. The time of each tenure that an event has touched is found here, once.
func (c *Client) TakeEffects(now Now) []Effect {
	e := c.Effects
	c.Effects, c.taken = c.taken[:0], e
	n := 0
	for i := range e {
		if e[i].Kind == Poll && e[i].Tenure != nil && !e[i].Lock.schedule(&e[i], now) {
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

// schedule fills in when the tenure is due, and whose goroutine asks then. It reports whether that one has to be told: a call
// asks by itself if it is awake, or comes sooner.
func (l *Lock) schedule(e *Effect, now Now) bool {
	t := e.Tenure
	if t.lock != l || !t.touched {
		return false // it was forgotten since, or another effect has told its time
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
	_, t.alarm = t.next(now)
	e.Call, e.At = c, t.alarm
	return c == nil || e.At < c.alarm
}

func (l *Lock) tell(e Effect) {
	e.Lock = l
	l.client.Effects = append(l.client.Effects, e)
}

// touch notes that the tenure may be due at another time than its agent knows, or that its agent is another: that of the
// call for which it stands, or the keeper.
func (l *Lock) touch(t *Tenure) {
	if !t.touched {
		t.touched = true
		l.tell(Effect{Kind: Poll, Tenure: t})
	}
}

// changed schedules a mirror if Redis shows other levels, and a look at their ends. The agent of the owner is the same as
// before: so it is told only of a time that is sooner than the one it knows.
func (l *Lock) changed(now Now) {
	t := l.owner
	if t.touched || t.alarm <= now.Time || t.alarm <= l.ends(now) && l.isMirrored(t, now) {
		return
	}
	if _, at := t.next(now); at < t.alarm {
		l.touch(t)
	}
}

func (l *Lock) loses(lost []Level, cause Cause) {
	if len(lost) > 0 {
		l.tell(Effect{Kind: Lose, Tenure: l.owner, Lost: slices.Clone(lost), Cause: cause})
	}
}
