package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The errors that a caller can act on. They are wrapped, with the lock's name, the
// owner and the answer of Redis: compare them with [errors.Is].
var (
	// ErrNotHeld is returned by Unlock and Release when the caller does not hold
	// the lock: it never held it, or has released it already. Nothing was
	// changed, and no command was sent. If the client has forgotten the end of a
	// fixed lease (see [Lock.LockFor]), the error is ErrLost as well, since that lease
	// may have been the caller's.
	ErrNotHeld = engine.ErrNotHeld

	// ErrLost is returned by Unlock and Release when the lock was held and was
	// lost before: its lease ended unrenewed, or Redis answered that the key is gone
	// or belongs to another owner. Work that ran since then may have overlapped that of
	// another holder. ErrLost is also the cause of the end of a hold's context.
	//
	// Until the caller has unlocked the lost hold, a nested Lock fails with ErrLost, too,
	// since the outer level no longer protects anything. If the watchdog renewed the
	// hold, this lasts for as long as the client lives. If the lease was fixed, it lasts
	// until that lease would have ended; after that a Lock is a new one.
	ErrLost = engine.ErrLost

	// ErrNotAcquired is returned by TryAcquire and, with [WithWait], by Acquire and Do if
	// another owner holds the lock, or others come first in its queue, for as long as
	// the call may wait. Nothing is held.
	ErrNotAcquired = engine.ErrNotAcquired

	// ErrNoToken is returned by [Lock.Token] and [Hold.Token] for a lock that has no
	// fencing tokens: only those from [Client.NewFencedLock] have them.
	ErrNoToken = engine.ErrNoToken

	// ErrDetach is returned by [Hold.Detach] for a hold that cannot be left to its lease.
	// Nothing was changed.
	ErrDetach = engine.ErrDetach

	// ErrUpgrade is returned by the methods that take a write lock when the caller
	// holds the read lock of that name and not the write lock: two readers that
	// both waited for the other to leave would wait for ever. Nothing was changed,
	// and no command was sent. Unlock the read lock first, and look again at what
	// was read once the write lock is held.
	ErrUpgrade = engine.ErrUpgrade

	// ErrNotReplicated is returned where [Config.SyncReplicas] is set and fewer
	// replicas had the grant in time: the message says how many. The grant did not
	// count and is released again; nothing is held. One attempt returns it at once.
	// A call that waits tries again until its context or its wait ends, since
	// replicas come back, and then returns it beside the context's error.
	ErrNotReplicated = wire.ErrNotReplicated

	// ErrUnconfirmed is returned by Unlock and Release when Redis did not confirm the
	// release: it did not answer in time, or answered that it cannot execute the release
	// now, as during a failover or while the lock's slot is migrated (TRYAGAIN). The
	// critical section ran with the lock held, unless the error is ErrLost as well. The
	// caller no longer holds the lock, and nothing renews it. The release is retried in
	// the background until Redis answers or the lease has ended; the message says when
	// that is. Other clients wait until then.
	ErrUnconfirmed = engine.ErrUnconfirmed

	// ErrClosed is returned by every call on a closed client, to every waiter at
	// the moment of [Client.Close], and by the Unlock of a lock that Close has
	// released.
	ErrClosed = wire.ErrClosed

	// ErrInvalidName is returned for a name that no lock can have: empty, longer
	// than 64 KiB, or, in a Cluster, with a brace but no hash tag, so that the
	// lock and its channel would live in different slots. No command was sent.
	ErrInvalidName = wire.ErrInvalidName

	// ErrInvalidLease is returned for a lease that is negative or too short to
	// keep: the message says the shortest. No command was sent.
	ErrInvalidLease = engine.ErrInvalidLease

	// ErrInvalidConfig is returned by [New] for a Config that cannot work; by the methods of
	// a lock that was made of unsuitable parts (see [NewMultiLock]), of a semaphore with fewer
	// than one permit, and of a zero Lock; and by [Client.Ask] for a string that is not an id.
	ErrInvalidConfig = wire.ErrInvalidConfig

	// ErrUnsupported is returned when the server does not know a command that is
	// needed: it is too old, or the command is renamed or disabled. Waiting does
	// not cure it.
	ErrUnsupported = wire.ErrUnsupported

	// ErrWrongType is returned when the key with the lock's name is not a lock, the key
	// of its queue is not a queue, or the key of a fenced lock's tokens is not a counter;
	// in the last two cases the message names the key. The key is left as it is.
	ErrWrongType = wire.ErrWrongType

	// ErrNoPermission is returned when Redis refuses the command to this user:
	// docs/operations.md lists the rights that are needed. Waiting does not cure it. A refused
	// subscription is no error: the client logs it, and its waiters poll.
	ErrNoPermission = wire.ErrNoPermission
)
