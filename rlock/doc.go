// Package rlock is a reentrant distributed lock for Redis and Valkey. It speaks
// the wire protocol of Java's Redisson, so that Go and Java services can contend
// for the same lock.
//
//	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}})
//	...
//	defer client.Close()
//
//	lock := client.NewLock("lock:orders:42")
//	err = lock.Do(ctx, func(ctx context.Context) error {
//		// ctx ends if the lock is lost.
//	})
//
// [Lock.Do] runs a function while the lock is held, and suits most programs: it
// waits, releases, and returns [ErrLost] if the lock was lost meanwhile. [WithWait]
// limits the wait. [Lock.Acquire] returns a [Hold], a handle that any goroutine may
// release. [Lock.Lock] and [Lock.Unlock] are those of Redisson's RLock: the calling
// goroutine is the owner, and may lock again without waiting.
//
// The watchdog of the client renews a lock at every third of [Config.Lease], by default
// 30 s, until it is released. If the process dies, others wait until that lease ends.
//
// # The kinds
//
//	NewLock           one owner at a time
//	NewFencedLock     the same, with a number that grows, for a resource that rejects stale writes
//	NewReadWriteLock  many readers, or one writer
//	NewFairLock       first come, first served, over all clients
//	NewSemaphore      up to N owners at once
//	NewMultiLock      several locks, all or none
//	NewRedLock        a majority of independent servers
//
// All are of type [Lock], and this page is about all of them. The comment of each
// constructor says where its kind differs.
//
// # What it promises
//
// Against one Redis primary that loses no writes, evicts nothing and does not step its
// clock, at most one client is granted a name at a time, and a hold's context ends before
// Redis can grant the name to another client, as long as clock rates differ by less than 1
// % and no lock is freed by force ([Lock.ForceUnlock], DEL). Where one of these conditions
// fails, the holder is told afterwards: see "What happens when".
//
// It cannot stop code that is already running. A goroutine that was stopped for
// longer than the lease (a pause of the machine, a debugger) continues until it
// checks. Call [Hold.Valid] before a step that must not be done twice; if that is
// not enough, have the resource reject stale writes ([Client.NewFencedLock]). Redis
// replicates asynchronously, so a failover may lose a grant, as with any lock in
// Redis; [Config.SyncReplicas] makes that less likely.
//
// # The tenure
//
// A tenure is the time during which this client owns the lock's key, from the
// acquire that succeeded to the release or the loss. Inside a tenure the
// client's own memory is the truth, and Redis mirrors it: Redis arbitrates
// between clients, the client between its goroutines. So nesting, and handing the
// lock off inside a process, wait for no network.
//
//	free --- acquire ---> tenure --- Unlock, no waiter here -------> free
//	                       |  ^  +-- Unlock, a waiter here --------+
//	                       |  +------ the same tenure goes on -----+
//	                       |
//	                       +-- its lease ends unrenewed, or Redis
//	                           says that the key is not ours ------> lost
//
// The client trusts a lease until
//
//	validUntil = sent + lease - drift        drift = lease/100 + 2 ms + one tick of the wheel
//
// where sent is the moment before the last confirmed command was sent, so that
// no delay of the network can stretch it. The larger of the monotonic and the
// wall clock's time passed counts, since the monotonic clock stops while a
// machine sleeps. After validUntil hand-overs and nested locks fail, and
// [Lock.IsHeld] reports false. A timeout is not a loss: a renewal that failed is
// tried again until validUntil. A definite "not yours" from Redis is a loss at
// once.
//
// # The queue
//
// Every kind of lock waits in the same way. Clients that cannot have the lock stand in
// one queue in Redis, each with one ticket for the first of its waiters. A release takes
// the holder out, grants the lock to the first ticket, and tells that client alone, all
// in one command. No client overtakes the queue: a new Lock or TryLock takes a lock only if
// it is free and no client waits for it.
//
// A waiter looks for its ticket every two seconds, and when the holder's lease ends, so
// that a lost message delays it by two seconds at most. A dead waiter is skipped. A client
// that stalls when its turn comes, or dies before the grant arrives, delays the others by
// one claim of two seconds, however many of its goroutines wait.
//
// # Fairness
//
// Inside a process the lock passes first-in first-out. As long as no other client waits
// it may go on without end. Once one does, the lock is handed off [Config.HandoffLimit]
// more times, or for [Config.HandoffTime], whichever ends first; then it is released, and
// the client goes to the end of the queue. So clients that keep waiting take turns. This is
// lock cohorting (Dice, Marathe, Shavit, 2012) with Redis as the global lock. A fair lock
// has a ticket for each waiter and no hand-offs: it is granted in the order of all waiters
// of all clients.
//
// Clients of Redisson know nothing of the queue, and get turns in it: while they wait by
// subscribing to Redisson's channel, or in its fair queue, Redis counts them, and leaves them
// the lock when their turn comes. Clients that only poll, or listen at a replica, cannot be
// counted: [Config.RedissonPolls] says when they have turns.
//
// # Levels and leases
//
// Each Lock of an owner opens a level, which its Unlock closes. A lock is kept for the
// longest that any open level asks for. A level with the watchdog asks for the lock
// without end: the watchdog sets [Config.Lease] and renews it at every third. A level
// with a lease of its own ([Lock.LockFor], [WithLease]) asks for that, from the moment
// it was opened. A goroutine that is handed the lock starts anew, with its own
// lease, and trusts no more than what Redis has confirmed.
//
// # What happens when
//
//	Redis cannot be reached
//	  while waiting         the call goes on waiting, until its context or its wait ends
//	  at a single attempt   TryLock and TryAcquire return the error
//	  while holding         the lock is valid until validUntil, then lost
//	  at Unlock             ErrUnconfirmed; released in the background until the lease ends
//	the key is deleted      lost at the next renewal, at the latest a third of the lease later;
//	                        with Config.Tracking at once, one round trip after Redis tells
//	it is unlocked by force lost at once: by another client of this package about two
//	                        round trips later, or as above if the message is lost
//	a connection ends       every lock is verified at once, and again with the first answer
//	                        over a new one: another server may have taken over
//	scripts are flushed     they are sent again
//	a message is lost       the waiter looks for its ticket, after 2 s at most
//	the queue is lost       each waiter joins again, within 2 s; their order is lost
//	pub/sub is refused      said once in the log; waiters poll, 1 ms doubling to 128 ms
//	too few replicas        with Config.SyncReplicas: ErrNotReplicated, at once by TryLock,
//	                        by Lock when its context ends; the grant is released
//	the caller's ctx ends   Lock returns at once, and its ticket leaves the queue; if an
//	                        acquire in flight succeeds, it is released in the background
//	the holder dies         the first in the queue has the lock when the lease has ended
//	a waiter dies           it is skipped when its turn comes
//	the client is closed    its locks are released, its waiters get ErrClosed
//
// [Config.Observer] has hooks for these events, [Client.Stats] counts them, and [Client.Held]
// lists the locks that the client holds. Package rlockotel makes metrics and traces of them.
// A deadlock among the calls of one client is logged, one or two seconds after the last of them
// began to wait; the command "rlock deadlocks" finds those over several processes ([Client.Ask]).
package rlock
