// Package rlock is a reentrant distributed lock for Redis and Valkey. It speaks the wire protocol
// of Java's Redisson, so that Go and Java services can contend for the same lock.
//
//	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}})
//	...
//	defer client.Close()
//
//	err = client.NewLock("lock:orders:42").Do(ctx, func(ctx context.Context) error {
//		// ctx ends if the lock is lost.
//	}, rlock.WithWait(2*time.Second))
//
// # Tasks
//
//	connect                    New, NewContext, Config, Client.Close
//	run a function alone       Lock.Do
//	hold a lock for longer     Lock.Acquire; Hold.Context, With, Valid, Extend, Release
//	lock as with a mutex       Lock.Lock, LockFor, TryLock, TryLockFor, Unlock
//	reject stale writes        Hold.Exec, Write, ReleaseWith; Hold.Token
//	go on in another process   Hold.Pass, Client.Resume
//	look, free by force        Lock.IsHeld, IsLocked, TTL, ForceUnlock; package inspect
//	hear of events             Observer; package rlockotel
//
// Each kind of lock has a constructor, which says where it differs: [Client.NewLock],
// [Client.NewFencedLock], [Client.NewReadWriteLock], [Client.NewFairLock], [Client.NewSemaphore],
// [NewMultiLock] (several locks, all or none) and [NewRedLock] (a majority of independent servers).
// All are of type [Lock].
//
// # Who owns a lock
//
//	Do(ctx, fn)    the goroutine, and each call with fn's context; released when fn returns
//	Acquire(ctx)   the returned Hold, and each call with its context; any goroutine may release it
//	Lock(ctx)      the goroutine, or the owner in ctx (WithOwner); released by its Unlock
//
// An owner may lock again without waiting; a context of Do or of a Hold counts while that hold is
// held. A goroutine that holds a lock by Lock must not Acquire it without the context of Do or of a
// Hold: that is a deadlock. The watchdog renews a lock at every third of [Config].Lease, by default
// 30 s, until it is released. If the process dies, others wait until that lease ends.
//
// # Promises
//
// Against one Redis primary that loses no writes, evicts nothing and does not step its clock, at
// most one client is granted a name at a time, and a hold's context ends before Redis can grant the
// name to another client, as long as clock rates differ by less than 1 % and no lock is freed by
// force ([Lock.ForceUnlock], DEL). The client trusts a lease until
//
//	validUntil = sent + lease - drift        drift = lease/100 + 2 ms + one tick of the wheel
//
// where sent is the moment before the last confirmed command was sent, by the monotonic or the wall
// clock, whichever has moved further.
//
// A lock cannot stop code that is already running: a goroutine that was stopped for longer than the
// lease continues until it calls [Hold.Valid], or the resource rejects its stale writes. A failover
// may lose a grant. While Redis cannot be reached a waiting call goes on waiting, an attempt
// returns the error, an Unlock returns [ErrUnconfirmed] and goes on in the background, and renewals
// are retried until validUntil. docs/guarantees.md has all guarantees and limits.
package rlock
