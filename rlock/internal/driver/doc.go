// Package driver carries out the decisions of package core (internal/core), for the locks
// of one client: it has the mutexes, the clocks, the goroutines of callers, the timers, and the
// commands on their way.
//
//	callers ──► Lock, hold ──► lock (core.Lock) ──► effects ──► exit: under the mutex, then after it
//	                            ▲   shard, mutex        │
//	   commands, answers        │                       ├─► waiter: a call that sleeps    waiter.go, call.go
//	   carrier ◄────────────────┤                       ├─► work: what the keeper sends   keep.go
//	   messages                 │                       ├─► subscription                  listen.go
//	   carrier ─────────────────┘                       └─► ending: a loss to be told     losses.go
//
// # One event
//
// A call, an answer, a message, or a time that has come takes the mutex of its shard (enter, again), reads the clocks,
// tells package core, and leaves by exit. That carries out the effects until there are none: under the mutex it wakes
// calls that only have to look, schedules the keeper, subscribes, and notes and counts losses; after it the contexts of
// lost holds end and the losses are told, and then calls are woken that have the lock now.
//
// # The sender of a command
//
// Package core names the agent of each tenure. A ticket's commands are sent by the goroutine of its
// waiter, the first release by the call that unlocks, and all others by the keeper, in batches. A
// command has a place among those in flight before it is polled, so that the command is built when
// it can be sent; and it has one answer, also when its caller leaves, the client closes, or the
// carrier panics. A caller that leaves leaves its command behind: the answer is that there is none,
// and the tenure's release follows on the same connection.
//
// rules.go has the rules that make this safe. Tests with the build tag "invariants" assert them each time before a mutex is
// given back; what no shard can see by itself a witness notes (witness.go). What ships has neither.
//
// Package client has what the locks of a client share: owners, losses, the Observer, the log, the connections.
package driver
