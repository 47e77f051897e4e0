// Package waitqueue is the line in which the goroutines of one process wait for
// one lock.
//
// A [Queue] is first-in first-out. Joining, leaving from any place and passing
// on are O(1), and none of them allocates: a waiter is a node of the list, so
// callers that wait often keep their waiters in a [sync.Pool].
//
// The queue decides which waiter is next. It knows nothing of the resource, of
// Redis, or of time: its owner guards it with the mutex that guards the resource,
// and changes both in one critical section. That is why a
// Queue has no mutex of its own.
//
// # The life of a waiter
//
//	          Join                 Pass
//	(idle) ----------> waiting ------------> chosen ----> (idle)
//	   ^                 |                      |
//	   +-----------------+                      | gave up: must pass it on
//	         Leave = true          Leave = false
//
// # A wake is never swallowed
//
// A waiter gives up because its context ended, and at that very moment it may already have
// been chosen. [Queue.Leave] tells which of the two came first, in the terms of
// golang.org/x/sync/semaphore: true means that the waiter left the line and will not be
// chosen; false means that it was chosen before, now has the lock, and must pass it on. A
// caller that ignores the false loses the lock for all waiters behind it.
package waitqueue
