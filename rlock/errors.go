package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The errors that a caller can act on. They are wrapped, with the lock's name, the
// owner and the answer of Redis: compare them with [errors.Is]. docs/errors.md says when each
// is returned, the state afterwards, and a remedy.
var (
	// ErrNotHeld is returned by Unlock and Release if the caller does not hold the lock. Nothing
	// was changed. If the client has forgotten the end of a fixed lease (see [Lock.LockFor]), the
	// error is ErrLost as well.
	ErrNotHeld = client.ErrNotHeld

	// ErrLost is returned by Unlock and Release if the lock was lost before: its lease ended
	// unrenewed, or Redis answered that the key is gone or belongs to another owner. Work since
	// then may have overlapped that of another holder. It is also the cause of the end of a hold's
	// context. Until the caller has unlocked the lost hold, a nested Lock fails with ErrLost: for
	// as long as the client lives, or until a fixed lease would have ended.
	ErrLost = client.ErrLost

	// ErrNotAcquired is returned by Acquire and Do with [WithWait] if other owners had the lock, or
	// came first, for the whole wait. Nothing is held.
	ErrNotAcquired = client.ErrNotAcquired

	// ErrNoToken is returned by [Lock.Token] and [Hold.Token] for a lock that is not from
	// [Client.NewFencedLock].
	ErrNoToken = client.ErrNoToken

	// ErrDetach is returned by [Hold.Detach] for a hold that cannot be left to its lease.
	// Nothing was changed.
	ErrDetach = client.ErrDetach

	// ErrUpgrade is returned for a write lock if the caller holds the read lock of that name and
	// not the write lock: two such readers would wait for each other. No command was sent. Unlock
	// the read lock first, and read again once the write lock is held.
	ErrUpgrade = client.ErrUpgrade

	// ErrNotReplicated is returned if fewer replicas than [Config.SyncReplicas] had the grant in
	// time. Nothing is held. A call that waits tries again until its wait ends, and then returns
	// it beside the context's error.
	ErrNotReplicated = wire.ErrNotReplicated

	// ErrUnconfirmed is returned by Unlock and Release if Redis did not confirm the release in
	// time. The critical section ran with the lock held, unless the error is ErrLost as well.
	// Nothing renews the lock; the release is retried in the background until Redis answers or the
	// lease has ended, and others wait until then.
	ErrUnconfirmed = client.ErrUnconfirmed

	// ErrClosed is returned by every call on a closed client, to every waiter at [Client.Close],
	// and by the Unlock of a lock that Close has released.
	ErrClosed = wire.ErrClosed

	// ErrInvalidName is returned for a name that is empty, longer than 64 KiB, or, in a Cluster,
	// has a brace but no hash tag. No command was sent.
	ErrInvalidName = wire.ErrInvalidName

	// ErrInvalidLease is returned for a lease that is negative or too short to keep. No command
	// was sent.
	ErrInvalidLease = client.ErrInvalidLease

	// ErrInvalidConfig is returned by [New] for a Config that cannot work, by the methods of a
	// lock of unsuitable parts or permits, and of a zero Lock, and by [Client.Ask] for an invalid
	// id.
	ErrInvalidConfig = wire.ErrInvalidConfig

	// ErrUnsupported is returned if the server does not know a command that is needed.
	ErrUnsupported = wire.ErrUnsupported

	// ErrWrongType is returned if the key of the lock, of its queue or of its tokens has other
	// data, which is left as it is.
	ErrWrongType = wire.ErrWrongType

	// ErrNoPermission is returned if Redis refuses the command to this user: docs/operations.md
	// lists the rights. A refused subscription is no error: the client logs it, and its waiters
	// poll.
	ErrNoPermission = wire.ErrNoPermission
)
