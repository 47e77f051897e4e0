// Package deadlock finds cycles of owners that wait for each other's locks, over all
// processes, from what Redis shows of the locks and from what their clients answer.
//
// In Redis a holder and a ticket in a queue both name their client and their owner. But a
// client has one ticket for a lock, which stands for the first of its waiters, and one reader
// for all its readers; and each handle of Acquire is an owner of its own. So the clients that
// hold locks are asked (rlock.Client.Ask): where one has answered, its answer says who of it
// waits and who of it has a lock that Redis shows to be its own. A client that holds nothing
// is in no cycle, and is not asked. Of one that does not answer the graph is what Redis
// shows.
//
// Nothing is seen at one moment: the locks are inspected one after the other, and may change
// hands in between. So a cycle counts if it was seen twice with the same holds and the same
// waits.
//
// Semaphores are left out, since a waiter needs any permit, and not one. Clients of Redisson
// have no tickets and do not answer.
package deadlock
