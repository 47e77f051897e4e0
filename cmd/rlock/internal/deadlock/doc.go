// Package deadlock finds cycles of owners that wait for each other's locks, over all
// processes, from the state in Redis and from the answers of the clients.
//
// In Redis a holder and a ticket in a queue both name their client and their owner. But a
// client has one ticket for a lock, which stands for the first of its waiters, and one reader
// for all its readers; and each handle of Acquire is an owner of its own. So the clients that
// hold locks are asked (rlock.Client.Ask): an answer names all owners of its client that
// wait, and those that have the locks which Redis shows for the client. A client that holds
// nothing is in no cycle, and is not asked. For a client that does not answer, the graph has
// the state in Redis.
//
// The locks are inspected one after the other, and may change hands in between. So a cycle
// counts if it was seen twice with the same holds and the same waits.
//
// Semaphores are left out, since a waiter needs any permit, and not one. Clients of Redisson
// have no tickets and do not answer.
package deadlock
