package redisson_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// thread returns the thread of that name in the scene's process.
func (s *scene) thread(name string) redisson.Thread { return s.java.Thread(name).With(s.setting.kind) }

// An owner is the Go side.
type owner struct {
	ctx context.Context // carries the rlock.Owner
	of  func(lock string) *rlock.Lock
}

// golang returns a new owner in the scene's client.
func (s *scene) golang() side {
	o := owner{ctx: rlock.WithOwner(s.ctx, rlock.NewOwner())}
	switch s.setting.kind {
	case redisson.Fenced:
		o.of = func(lock string) *rlock.Lock { return s.client.NewFencedLock(lock) }
	case redisson.Read:
		o.of = func(lock string) *rlock.Lock { return s.client.NewReadWriteLock(lock).Read() }
	case redisson.Write:
		o.of = func(lock string) *rlock.Lock { return s.client.NewReadWriteLock(lock).Write() }
	default:
		o.of = func(lock string) *rlock.Lock { return s.client.NewLock(lock) }
	}
	return o
}

func (o owner) Lock(lock string, lease time.Duration) error {
	return o.of(lock).LockFor(o.ctx, lease)
}

func (o owner) TryLock(lock string, wait, lease time.Duration) (bool, error) {
	return o.of(lock).TryLockFor(o.ctx, wait, lease)
}

func (o owner) Unlock(lock string) error { return o.of(lock).Unlock(o.ctx) }

func (o owner) ForceUnlock(lock string) (bool, error) {
	return o.of(lock).ForceUnlock(o.ctx)
}

func (o owner) IsLocked(lock string) (bool, error) { return o.of(lock).IsLocked(o.ctx) }

func (o owner) IsHeld(lock string) (bool, error) { return o.of(lock).IsHeld(o.ctx), nil }

func (o owner) HoldCount(lock string) (int, error) {
	return o.of(lock).HoldCount(o.ctx), nil
}

func (o owner) TTL(lock string) (time.Duration, error) { return o.of(lock).TTL(o.ctx) }

// gives requires that a call succeeds and returns the value.
func gives[T any](t testing.TB, want T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
