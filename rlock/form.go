package rlock

import (
	"context"
	"time"
)

// A form is what a [Lock] is made of: one key (single), or several locks (compound).
// A request carries its owner; what is about the caller alone is done by Lock.
type form interface {
	// title returns the name that the lock was made with.
	title() string
	// take acquires the lock without a handle.
	take(ctx context.Context, req request) error
	// hold acquires the lock with a handle, whose context is made from parent.
	hold(ctx, parent context.Context, req request) (*Hold, error)
	// unlock takes back one level of the owner that was taken without a handle.
	unlock(ctx context.Context, o Owner) error
	forceUnlock(ctx context.Context) (bool, error)
	isLocked(ctx context.Context) (bool, error)
	ttl(ctx context.Context) (time.Duration, error)
	// depth returns how often the owner has to unlock the lock.
	depth(o Owner) int
	// token returns the fencing token of what the owner holds.
	token(o Owner) (uint64, error)

	// beneath returns the locks of one key that it consists of.
	beneath() []*single
	// unusable returns why it can never be taken, nil if it can.
	unusable() error
}
