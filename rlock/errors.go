package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The errors that a caller can act on. They are wrapped, with the lock's name, the
// owner and the answer of Redis: compare them with [errors.Is]. docs/errors.md says when each
// is returned, the state afterwards, and a remedy.
var (
	// ErrNotHeld: Unlock or Release of a lock that the caller does not hold. If the client has
	// forgotten the end of a fixed lease (see [Lock.LockFor]), the error is ErrLost as well.
	ErrNotHeld = terms.ErrNotHeld
	// ErrLost: the lock was lost before its Unlock or Release: its lease ended unrenewed, or Redis answered that the key
	// is gone or belongs to another owner. Work since then may have overlapped that of another holder. It is also the
	// cause of the end of a hold's context. Until the lost hold is unlocked, a nested Lock fails with it, or until a fixed
	// lease would have ended.
	ErrLost = terms.ErrLost
	// ErrHeldTooLong: the hold has lasted for the time of [WithMaxHold], and was lost. It is an ErrLost as well.
	ErrHeldTooLong = terms.ErrHeldTooLong
	// ErrNotAcquired: other owners had the lock, or came first, for the whole wait of [WithWait].
	ErrNotAcquired = terms.ErrNotAcquired
	// ErrTooManyWaiters: as many callers as [WithMaxWaiters] allows wait already. It is an ErrNotAcquired as well.
	ErrTooManyWaiters = terms.ErrTooManyWaiters
	// ErrNoToken: the lock is not from [Client.NewFencedLock].
	ErrNoToken = terms.ErrNoToken
	// ErrPass: [Hold.Pass] of a hold that cannot be passed on. Nothing was changed.
	ErrPass = terms.ErrPass
	// ErrPassed: the cause of the end of a hold that was passed on, an ErrNotHeld.
	ErrPassed = terms.ErrPassed
	// ErrNotPassed: [Client.Resume] of a lock that was resumed before, whose time was over, or that
	// was freed. Nothing is held.
	ErrNotPassed = terms.ErrNotPassed
	// ErrInvalidPass: [Client.Resume] with a text that no [Hold.Pass] has returned.
	ErrInvalidPass = terms.ErrInvalidPass
	// ErrUpgrade: the caller asks for the write lock and holds only the read lock, or for more permits ([WithPermits])
	// than it has: two such callers would wait for each other. Unlock first.
	ErrUpgrade = terms.ErrUpgrade
	// ErrNotReplicated: fewer replicas than [Config.SyncReplicas] had the grant in time. Nothing
	// is held. A call that waits tries again until its wait ends.
	ErrNotReplicated = wire.ErrNotReplicated
	// ErrFenced: the hold of [Hold.Exec] or [Hold.Write] does not have the lock, and nothing was
	// written. The error is ErrLost as well, or ErrNotHeld after a release.
	ErrFenced = terms.ErrFenced
	// ErrUnconfirmed: Redis did not confirm a release in time. The critical section ran with the lock held, unless the
	// error is ErrLost as well. The release is retried in the background until Redis answers or the lease has ended. Or the
	// answer to a [Hold.Exec] or [Hold.Write] was lost: it may be executed until Release returns no error.
	ErrUnconfirmed = terms.ErrUnconfirmed
	// ErrClosed: the client is closed, or was while the call waited; Close has released the lock.
	ErrClosed = wire.ErrClosed
	// ErrInvalidName: the name is empty, longer than 64 KiB, or, in a Cluster, has a brace but no
	// hash tag; or a guarded write may not have a key of that name.
	ErrInvalidName = wire.ErrInvalidName
	// ErrInvalidLease: the lease is negative or too short to keep.
	ErrInvalidLease = terms.ErrInvalidLease
	// ErrPermits: [WithPermits] of fewer than one, or of more than the semaphore has.
	ErrPermits = terms.ErrPermits
	// ErrInvalidConfig: a Config that cannot work, unsuitable parts or permits of a lock, a zero
	// Lock.
	ErrInvalidConfig = wire.ErrInvalidConfig
	// ErrUnsupported: the server does not know a command that is needed.
	ErrUnsupported = wire.ErrUnsupported
	// ErrWrongType: the key of the lock has a lock of another kind, or that key, the one of its queue
	// or the one of its tokens has other data, which is left as it is. The words of Redis are behind it.
	ErrWrongType = wire.ErrWrongType
	// ErrNoPermission: Redis refuses the command to this user: docs/operations.md lists the
	// rights. A refused subscription is logged, and waiters poll.
	ErrNoPermission = wire.ErrNoPermission
)
