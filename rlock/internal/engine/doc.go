// Package engine is one lock of one key as one client knows it: its holders and its waiters in
// this process, its state in Redis as last confirmed, and the time until when that may be
// believed. Package rlock is its face, which gives it to package group as a part of other locks, and
// package wire talks to Redis.
//
//	Client ──► shard ──► room ──► tenure ──► levels      the holders of one lock here
//	                      │  └──► queue of waiters ──► ticket in Redis' queue
//	                      └─ made when it is needed, removed with its last tenure and waiter
//
// # A lock and its calls
//
// A [Lock] is a name and a kind, without state. A call enters the [room] of the name under
// the mutex of its shard, and looks what it can do by memory alone: nest, join readers, be
// refused. Else it waits in the room's queue (wait.go), of which only the head sends
// commands (attempt.go): an acquire first, and once that is denied a ticket for the queue in
// Redis (ticket.go). A grant makes the ticket a tenure (tenure.go): the time during which
// this client owns the key. Inside it memory is the truth, and the watchdog (watchdog.go)
// has Redis mirror it. An Unlock (release.go) hands the tenure to the next waiter here as
// long as that is fair (turns.go), or releases it in Redis, where the script grants the lock
// to the first ticket in the queue. If nobody waits the tenure may also linger (linger.go).
// Readers share one tenure, and hold back for others now and then (readers.go): a ticket that is
// granted meanwhile lets them go on, and is released.
//
// A tenure has one phase at a time:
//
//	asking -----------------> held ----> leaving ----> ended
//	   | denied             ^  ^ |          | no answer  ^ ^
//	   v         granted    |  | | lapsed   v            | |
//	joins ------------------+  | +----> releasing -------+ |
//	   | in the queue          | |        ^                |
//	   v                  "+"  | +--------|-- not ours ----+
//	queued --------------------+          | the waiter left
//	   |  ^                    |          |
//	   v  |           granted  |          |
//	lookedFor -----------------+----------+
//
//	       Unlock              called, or a Lock that it cannot serve
//	held ----------> lingering ------------------------------------------> leaving
//	  ^     Lock         | |    Linger is over, its lease lapsed, Close
//	  +------------------+ +---------------------------------------------> releasing
//
// # Kinds
//
// A kind of lock is a value: its scripts, the names of its keys and what it allows (kind.go;
// plain.go, fenced.go, readwrite.go, semaphore.go). No other file asks which kind a lock is.
//
// # Concurrency and failure
//
// A mutex protects all rooms of a shard. It is never held while a command is in flight, nor
// while code of a user runs: the Logger and the Observer are called by notices.go, except
// where a caller of ours waits for them.
//
// A command without an answer may have been executed: its tenure is then a ghost, which the
// keeper releases until Redis answers or the lease is over. Nothing else is ever undone
// twice, since each tenure has a UUID of its own.
package engine
