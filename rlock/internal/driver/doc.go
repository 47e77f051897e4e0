// Package driver keeps the locks of one client, and what they share: its identity, its connections,
// what it reports and what it remembers. It carries out the decisions of package core
// (rlock/internal/core) for them: it has the mutexes, the clocks, the goroutines of callers, the
// timers, and the commands on their way. Package rlock is its face.
//
//	callers ──► NamedLock, ──► lockState ───────► effects ──► exit: under the mutex, then after it
//	            hold           (core.Lock)
//	                            ▲   shard, mutex        │
//	   commands, answers        │                       ├─► waiter: a call that sleeps    run.go, waiter.go
//	   carrier ◄── exchange ────┤                       ├─► work: what the keeper sends   keeper.go
//	   messages                 │                       ├─► subscription                  subscriptions.go
//	   carrier ─────────────────┘                       └─► ending: a loss to report      losses.go
//
// # One event
//
// A call, an answer, a message, or a time that has come takes the mutex of its shard (enter, lock),
// reads the clocks, tells package core, and leaves by exit. That carries out the effects until
// there are none: under the mutex it wakes calls that only have to look, schedules the keeper,
// subscribes, and notes and counts losses; after it the contexts of lost holds end and the losses
// are reported, and then calls are woken that have the lock now.
//
// # The sender of a command
//
// Package core names the agent of each tenure: a call, or the keeper. One loop runs every call that
// waits (run.go): it asks core what to do next, and sends, waits for a slot, sleeps or returns. The
// keeper sends all other commands, in batches (keeper.go). Both make an exchange of a command,
// which the carrier takes to Redis, and one function lands the answer of either, in time or late
// (land). A command has one answer, also when its caller leaves, the client closes, or the carrier
// panics. A caller that leaves its command behind is no failure of Redis, and the tenure's release
// follows on the same connection.
//
// invariants.go has the rules that make this safe. Tests with the build tag "invariants" assert
// them each time before a mutex is given back; what no shard can see by itself a witness notes.
// What ships has neither.
//
// # What others say
//
// Messages on the channels of tickets and on the client's own channel, changes of tracked keys and
// ends of connections are each a reason to ask Redis. Package core believes two of them: that a
// ticket has the lock, and that a release has the answer for a call.
//
// # Concurrency and failure
//
// All exported methods may be called concurrently. A method whose comment says so may also be
// called with a mutex held. No code of a user runs under a mutex: the Logger and the Observer are
// called by notices (notices.go), in a goroutine of its own, except where a caller waits for them.
// If that code is slow, notices are dropped and counted.
//
// Close ends the locks first, waits until each tenure is over, for as long as an Unlock would wait
// for Redis, and then ends subscriptions, connections and notices, in this order. A tenure whose
// release is not confirmed by then ends with its lease, and Close says so.
package driver
