package redisson_test

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// A side is one owner of locks, in Java or in Go, as the other one's contender:
// what both can do, so that a test can be run each way round.
type side interface {
	Lock(lock string, lease time.Duration) error // lease 0: the watchdog
	TryLock(lock string, wait, lease time.Duration) (bool, error)
	Unlock(lock string) error
	ForceUnlock(lock string) (bool, error)
	IsLocked(lock string) (bool, error)
	IsHeld(lock string) (bool, error)
	HoldCount(lock string) (int, error)
	TTL(lock string) (time.Duration, error)
}

var _ side = redisson.Thread{}

// An owner is the Go side.
type owner struct {
	ctx    context.Context // carries the rlock.Owner
	client *rlock.Client
}

// golang returns a new owner in the scene's client.
func (s *scene) golang() side {
	return owner{rlock.WithOwner(s.ctx, rlock.NewOwner()), s.client}
}

func (o owner) Lock(lock string, lease time.Duration) error {
	return o.client.NewLock(lock).LockFor(o.ctx, lease)
}

func (o owner) TryLock(lock string, wait, lease time.Duration) (bool, error) {
	return o.client.NewLock(lock).TryLockFor(o.ctx, wait, lease)
}

func (o owner) Unlock(lock string) error { return o.client.NewLock(lock).Unlock(o.ctx) }

func (o owner) ForceUnlock(lock string) (bool, error) {
	return o.client.NewLock(lock).ForceUnlock(o.ctx)
}

func (o owner) IsLocked(lock string) (bool, error) { return o.client.NewLock(lock).IsLocked(o.ctx) }

func (o owner) IsHeld(lock string) (bool, error) { return o.client.NewLock(lock).IsHeld(o.ctx), nil }

func (o owner) HoldCount(lock string) (int, error) {
	return o.client.NewLock(lock).HoldCount(o.ctx), nil
}

func (o owner) TTL(lock string) (time.Duration, error) { return o.client.NewLock(lock).TTL(o.ctx) }
