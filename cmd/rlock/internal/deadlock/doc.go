// Package deadlock finds cycles of owners that wait for each other's locks, over all
// processes, from what Redis shows of the locks.
//
// A holder and a ticket in a queue both name their client and their owner. So a ticket
// behind a lock is an edge from its owner to the holder, and a cycle of such edges is a
// deadlock, if it was seen twice: the locks are inspected one after the other, and may have
// changed hands in between.
//
// What Redis does not show is not found: a client has one ticket for a lock, which stands
// for the first of its waiters; each handle of Acquire is an owner of its own, so that a
// cycle through two handles of one goroutine looks like two owners; and clients of Redisson
// have no tickets. Semaphores are left out, since a waiter needs any permit, and not one.
package deadlock
