// Package client is what all locks of one client share: its identity, its connections, what it reports and what it
// remembers. It has no lock of its own: package driver keeps those, and asks here; package rlock is the face of both.
//
//	rlock ──► driver ──────────► Client ──► wire.Redis      commands and replies
//	             ▲                  │  └──► pubsub.Hub      subscriptions
//	             │                  ├─► losses              owners that have lost a lock and not unlocked it
//	             └── Locks ◄────────┤─► observing, notices  the Observer and the Logger
//	                                └─► spells, troubles    names that are wanted all the time; calls that Redis does not serve
//
// # Names and kinds
//
// A [Name] is a lock's key and all that follows from it, computed once. What a kind of lock does in this process, and in
// Redis, is not known here.
//
// # What others say
//
// Messages on the client's own channel, changes of tracked keys and ends of connections go to the [Locks] of the client
// (locks.go). Each is a reason to ask Redis, and none is believed.
//
// # Concurrency and failure
//
// All methods may be called concurrently, and those that say so with a mutex held. No code of a user runs under a mutex:
// the Logger and the Observer are called by notices.go, in a goroutine of its own, except where a caller waits for them.
// If that code is slow, notices are dropped and counted.
//
// Close ends the locks first, waits until each tenure is over, for as long as an Unlock would wait for Redis, and then
// ends subscriptions, connections and notices, in this order. A tenure whose release is not confirmed by then ends with
// its lease, and Close says so.
package driver
