// Package driver carries out the decisions of package core (rlock/internal/core), for the locks
// of one client: it has the mutexes, the clocks, the goroutines of callers, the timers, and the
// commands on their way.
//
//	callers ──► Lock, hold ──► lock (core.Lock) ──► effects ──► exit: under the mutex, then after it
//	                            ▲   shard, mutex        │
//	   commands, answers        │                       ├─► waiter: a call that sleeps    run.go, waiter.go
//	   carrier ◄── exchange ────┤                       ├─► work: what the keeper sends   keep.go
//	   messages                 │                       ├─► subscription                  listen.go
//	   carrier ─────────────────┘                       └─► ending: a loss to report      losses.go
//
// # One event
//
// A call, an answer, a message, or a time that has come takes the mutex of its shard (enter, again), reads the clocks,
// tells package core, and leaves by exit. That carries out the effects until there are none: under the mutex it wakes
// calls that only have to look, schedules the keeper, subscribes, and notes and counts losses; after it the contexts of
// lost holds end and the losses are reported, and then calls are woken that have the lock now.
//
// # The sender of a command
//
// Package core names the agent of each tenure: a call, or the keeper. One loop runs every call that waits (run.go): it asks
// core what to do next, and sends, waits for a slot, sleeps or returns. The keeper sends all other commands, in batches
// (keep.go). Both make an exchange of a command, which the carrier takes to Redis (carry.go), and one function lands the
// answer of either, in time or late (land). A command has one answer, also when its caller leaves, the client closes, or the
// carrier panics. A caller that leaves its command behind is no failure of Redis, and the tenure's release follows on the same
// connection.
//
// rules.go has the rules that make this safe. Tests with the build tag "invariants" assert them each time before a mutex is
// given back; what no shard can see by itself a witness notes (witness.go). What ships has neither.
//
// Package client has what the locks of a client share: owners, losses, the Observer, the log, the connections.
package driver
