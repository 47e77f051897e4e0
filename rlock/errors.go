package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The errors that a caller can act on. They are wrapped, with the lock's name, the owner and the
// answer of Redis: compare them with [errors.Is]. docs/errors.md says when each is returned, the
// state afterwards, and a remedy.
var (
	// ErrLost: the lock was lost before its Unlock or Release: its lease ended unrenewed, or Redis
	// answered that the key is gone or has another owner. Work since then may have overlapped
	// another holder's. ErrLost is also the cause of the end of a hold's context, and the error of
	// a nested Lock until the lost hold is unlocked or its fixed lease is over.
	ErrLost = contract.ErrLost
	// ErrUnconfirmed: Redis did not confirm a release in time; it is retried until Redis answers or
	// the lease has ended. The critical section ran with the lock held, unless the error is ErrLost
	// as well. Or the answer to a guarded write was lost: it may be executed until Release returns
	// no error.
	ErrUnconfirmed = contract.ErrUnconfirmed
	// ErrUpgrade: the caller asks for the write lock and holds only the read lock, or for more
	// permits than it has: two such callers would be a deadlock. Unlock first.
	ErrUpgrade = contract.ErrUpgrade
	// ErrInvalidName: the name is empty, longer than 64 KiB, or, in a Cluster, has a brace but no
	// hash tag; or a guarded write may not have that key.
	ErrInvalidName = wire.ErrInvalidName
	// ErrWrongType: a semaphore and another lock have the same name, or the key of the lock, its
	// queue or its tokens has other data, which is left as it is.
	ErrWrongType = wire.ErrWrongType

	ErrNotHeld        = contract.ErrNotHeld        // Unlock or Release of a lock that the caller does not hold
	ErrHeldTooLong    = contract.ErrHeldTooLong    // an ErrLost: the hold has lasted for the time of [WithMaxHold]
	ErrTakenOver      = contract.ErrTakenOver      // an ErrLost: another owner has taken the lock over by [WithTakeover]
	ErrNotAcquired    = contract.ErrNotAcquired    // other owners held the lock, or came first, for the whole wait
	ErrTooManyWaiters = contract.ErrTooManyWaiters // an ErrNotAcquired: as many wait as [WithMaxWaiters] allows
	ErrNoToken        = contract.ErrNoToken        // the lock is not from [Client.NewFencedLock]
	ErrFenced         = contract.ErrFenced         // a guarded write of a hold that does not have the lock
	ErrNotReplicated  = wire.ErrNotReplicated      // fewer than Config.SyncReplicas replicas had the grant
	ErrNoPermission   = wire.ErrNoPermission       // Redis refuses the command to this user: docs/operations.md has the rights
	ErrPass           = contract.ErrPass           // [Hold.Pass] of a hold that cannot be passed on; nothing was changed
	ErrPassed         = contract.ErrPassed         // an ErrNotHeld: the cause of the end of a hold that was passed on
	ErrNotPassed      = contract.ErrNotPassed      // [Client.Resume] of a lock that was resumed or freed before
	ErrInvalidPass    = contract.ErrInvalidPass    // [Client.Resume] with a text that no [Hold.Pass] has returned
	ErrClosed         = wire.ErrClosed             // the client is closed, or was meanwhile; Close has released the lock
	ErrInvalidLease   = contract.ErrInvalidLease   // the lease is negative or too short to keep
	ErrPermits        = contract.ErrPermits        // [WithPermits] of fewer than one, or of more than the semaphore has
	ErrInvalidConfig  = wire.ErrInvalidConfig      // a Config that cannot work, unsuitable parts or permits, a zero Lock
	ErrUnsupported    = wire.ErrUnsupported        // the server does not know a command that is needed
)
