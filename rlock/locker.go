package rlock

import (
	"context"
	"time"
)

// A Locker is what all kinds of lock have in common: [Lock] has the contracts, and
// each kind says where it differs. Code that takes a Locker works with any of
// them.
type Locker interface {
	// Name returns the name that the lock was made with.
	Name() string

	// Lock, LockFor, TryLock and TryLockFor take the lock in the name of an owner,
	// and Unlock gives one level of it back.
	Lock(ctx context.Context) error
	LockFor(ctx context.Context, lease time.Duration) error
	TryLock(ctx context.Context) (bool, error)
	TryLockFor(ctx context.Context, wait, lease time.Duration) (bool, error)
	Unlock(ctx context.Context) error

	// Acquire and TryAcquire return a handle; Do runs a function with the lock held.
	Acquire(ctx context.Context, options ...AcquireOption) (*Hold, error)
	TryAcquire(ctx context.Context, options ...AcquireOption) (*Hold, error)
	Do(ctx context.Context, fn func(ctx context.Context) error) error

	// IsHeld and HoldCount are judged here, by the clock; IsLocked and TTL ask
	// Redis, and ForceUnlock frees the lock regardless of its holder.
	IsHeld(ctx context.Context) bool
	HoldCount(ctx context.Context) int
	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

var (
	_ Locker = (*Lock)(nil)
	_ Locker = (*MultiLock)(nil)
	_ Locker = (*RedLock)(nil)
)
