// Package core is one lock of one key as one client knows it, as state machines: it starts no
// goroutine, reads no clock, takes no mutex and sends nothing. Events go in, and effects come out.
// A driver carries the effects out, and package explore runs this code through every order of
// events.
//
//	Nest, AtOnce, Wait, Unlock, Hear, Close, ... ──► Lock ──► effects
//	Next, Command   ──► what the goroutine of a call does now, and the command that it sends
//	Poll            ──► the command that the keeper is to send for a tenure now, and when to ask again
//	Answer          ◄── the result of a command
//
// # Three structs
//
// A [Lock] has its owners here (levels.go), its waiters here (wait.go), and its tenures. A [Tenure]
// is the time during which this client owns the key in Redis: one UUID, a ticket in the queue first
// if it has to wait, then the owner of the key. A [Call] is a caller that waits: for the lock, for
// a release, for a guarded write.
//
// # One table
//
// Events in the process decide the want of a tenure (want.go). Answers of Redis decide the place
// where the tenure is (place.go). One table (table.go) has the command that brings the second
// nearer to the first, and when it is due. Nothing else sends: not a call that locks, unlocks or
// leaves, and not the watchdog.
//
//	want \ place  Out                    Unsure  InQueue  Owner
//	Gone                                 Leave   Leave    Leave
//	Asked         Acquire, Join, Resume  Resume  Look
//	Held                                                  Step, Mirror
//	Parted                                                Mirror, Step, Unmark
//
// An undo, a release, a grant that is given back and a ticket whose caller has left are one thing:
// the want Gone. A renewal, a nested lock, a hand-off and a downgrade are one thing: Redis shows
// something else than the levels, and a Mirror is due. Unsure is the honest place after a lost
// reply: the command may have run, or may run yet. To hold a lock for a least time and to pass it
// on to another client are one thing, too: the want Parted, whose Mirror sets the lease. A ticket
// enters by one of three commands, and one that enters by an Acquire is in the queue only if the
// answer comes so late that it is looked for again. A Join may have a bound (wait.go): it is undone
// in its own step if too many wait.
//
// One command of a tenure is in flight at a time, but a Leave overtakes a command that cannot bring
// the tenure in (a Mirror, a Look, a Step), and the Mirror that passes a tenure on overtakes
// another Mirror or a Step.
//
// # The other table
//
// The answer to a command decides the place, by one table as well (answer.go). A blank leaves the
// place as it was:
//
//	command \ answer  hasLock  inQueue  nowhere  hasLeft  absent  wasGranted  notRun  fatal
//	Acquire           Owner             Out                                   Out     Out
//	Resume            Owner             Out
//	Join              Owner    InQueue  Out                                   Out     Out
//	Look              Owner    InQueue  Out
//	Mirror            Owner             Unsure                                        Out
//	Leave                                        Out      Out     Owner               Out
//	Step
//	Unmark
//
// Before the answer to an Acquire, a Resume or a Join the place is Unsure. It stays Unsure after an
// Acquire that has found a free lock with a queue: the tenure leaves, like a tenure whose key is
// gone, since its Leave is the step that grants the lock to the first ticket. A Gone tenure that is
// Out is forgotten at once. A Leave that does not find its tenure means absent only if no command
// that brings the tenure in may still run; else it means unknown. Two answers are decided besides
// the table: after the last Leave the tenure is Out by the clock, and a grant that comes too late
// to be believed leaves a ticket in the queue, where a Look finds that it has the lock.
//
// # The sender of a command
//
// The agent of a tenure sends its commands: the call for which a ticket stands, the call that
// releases the tenure, or else the keeper, in batches. A call is a machine (call.go), and its
// goroutine a shell around it:
//
//	Next ──► Sends   ──► Command, carry it, Answer ──► Next
//	     ──► Queues  ──► wait for a slot           ──► Next, with the slot
//	     ──► Sleeps  ──► wait for a time or effect ──► Next
//	     ──► Returns
//
// An answer counts for the call and for the tenure that its command was sent for, and for no other.
// Between two calls of Next anything may happen, and a caller may leave: then its command goes on
// without it. The effect [Poll] gives an agent that sleeps an earlier deadline. It is computed once
// for each tenure that an event has touched, when the driver takes the effects.
//
// # What it promises
//
// If the driver carries the effects out in their order, and gives each command one answer, then,
// even if commands are lost, late, doubled or forged:
//
//   - If Redis loses nothing, at most one client believes that it holds the lock: of readers any
//     number, of a semaphore one for each permit. Each loss is reported before Redis can grant the
//     lock to another client. Trust is counted on the clock that never runs behind (command.go),
//     from before the command was sent (trust.go).
//   - A guarded write is executed in its own hold or not at all, however late it is (lock.go). One
//     that a release carries was executed if the release is confirmed.
//   - A caller that has left never holds the lock: what it was granted is given back.
//   - No lock stays idle for longer than a claim while a caller waits, and a tenure that is no
//     longer wanted leaves Redis.
//   - A client is overtaken a bounded number of times, and the waiters of a strict lock are served
//     in their order, also after a stall.
//
// # Failure
//
// A command without an answer is no loss: a Mirror is tried again while the lease is believed, a
// Look as long as the caller waits, and a Leave until Redis has answered or the lease is over, and
// once more then. A ticket whose Join has no answer is given up, since it may join by one command
// only, and its waiter takes another. A grant that comes too late to be believed costs its ticket
// no place: the ticket is looked for again.
//
// # Memory
//
// The memory of a tenure that is over is reused. The driver may poll any tenure at any time, and an
// answer to a former tenure of that memory does not fit, by its sequence number. Redis shows a
// tenure that was passed on, or has a least hold, until its lease ends: its number is kept until
// then (tenure.go). Nested locks and hand-offs allocate nothing. They walk the line only for owners
// with several calls and for calls whose time is up (overdue.go).
package core

//go:generate go run golang.org/x/tools/cmd/stringer@v0.52.0 -output names.go -type Op,Want,Place,Mode,Fault,Found,MessageKind,Cause,Outcome,Way
