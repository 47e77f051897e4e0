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
// # Who owns a lock
//
//	Do(ctx, fn)    the goroutine, and each call with fn's context; released when fn returns
//	Acquire(ctx)   the returned Hold, and each call with its context; any goroutine may release it
//	Lock(ctx)      the goroutine, or the owner in ctx (WithOwner); released by its Unlock
//
// An owner may lock again without waiting; a context of Do or of a [Hold] counts while that hold is held.
// [Lock.Do] suits most programs: it returns [ErrLost] if the lock was lost meanwhile. [Lock.Lock] and
// [Lock.Unlock] are those of Redisson's RLock. A goroutine that holds a lock by Lock must not Acquire it, but
// with the context of Do or of a Hold: the two owners would wait for each other.
//
// The watchdog renews a lock at every third of Config.Lease, by default 30 s, until it is released. If the
// process dies, others wait until that lease ends. [WithWait] limits the wait, [WithLease] sets a lease that is
// not renewed.
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
// All are of type [Lock]. The comment of each constructor says where its kind differs.
//
// # Promises
//
// Against one Redis primary that loses no writes, evicts nothing and does not step its clock, at most one
// client is granted a name at a time, and a hold's context ends before Redis can grant the name to another
// client, as long as clock rates differ by less than 1 % and no lock is freed by force ([Lock.ForceUnlock],
// DEL). The client trusts a lease until
//
//	validUntil = sent + lease - drift        drift = lease/100 + 2 ms + one tick of the wheel
//
// where sent is the moment before the last confirmed command was sent. Elapsed time is the larger of the
// monotonic and the wall clock's.
//
// It cannot stop code that is already running. A goroutine that was stopped for longer than the lease continues
// until it checks: call [Hold.Valid] before a step that must not be done twice, or let the resource reject stale
// writes ([Hold.Exec], [Client.NewFencedLock]). A failover may lose a grant; Config.SyncReplicas makes that less
// likely. docs/guarantees.md has all guarantees and limits, docs/design.md the reasons.
//
// Clients that cannot have a lock stand in one queue in Redis. A release grants the lock to the first client
// and notifies it alone. Inside a process the lock passes first-in first-out; once another client waits, it
// does so [Advanced].HandoffLimit more times or for HandoffTime.
//
// # Faults
//
// While Redis cannot be reached a waiting call goes on waiting, a single attempt returns the error, an Unlock
// returns [ErrUnconfirmed] and goes on in the background, and renewals are retried until validUntil; then the
// lock is lost. A key that is deleted is noticed at once, or by the next renewal ([Advanced].TrackedKeys). If the
// holder dies, the first in the queue has the lock when the lease has ended. A message that is lost delays a
// waiter by 2 s at most.
//
// Config.Observer has hooks for these events. Package inspect shows the state of locks and counts the events of
// a client, and package rlockotel makes metrics and traces of them.
package rlock
