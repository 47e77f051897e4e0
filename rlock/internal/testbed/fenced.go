package testbed

import (
	"context"
	"testing"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TokenKey is the key of the fencing tokens of the lock named key.
const TokenKey = "redisson_lock_token:{orders:42}"

// NewFencedLock returns the fenced lock of that name, of a client of its own.
func (s *Site) NewFencedLock(changes ...func(*rlock.Config)) *rlock.Lock {
	s.T.Helper()
	return s.NewClient(changes...).NewFencedLock(Key)
}

// OneSection takes the lock for a moment and returns the token of its hold.
func OneSection(ctx context.Context, t *testing.T, lock *rlock.Lock) uint64 {
	t.Helper()
	hold, err := lock.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Release(ctx))
	return TokenOf(t, hold)
}

// TokenOf returns the token of a hold that must have one.
func TokenOf(t *testing.T, hold *rlock.Hold) uint64 {
	t.Helper()
	token, err := hold.Token()
	require.NoError(t, err)
	assert.NotZero(t, token)
	return token
}

// Permits takes n permits, each with a handle.
func Permits(t *testing.T, ctx context.Context, lock *rlock.Lock, n int) (holds []*rlock.Hold) {
	t.Helper()
	for range n {
		hold, err := lock.Acquire(ctx, rlock.WithWait(0))
		require.NoError(t, err)
		holds = append(holds, hold)
	}
	return holds
}
