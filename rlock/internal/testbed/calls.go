package testbed

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Calls that fail the test if they return an error.

// Take acquires the lock, with a handle.
func Take(t *testing.T, ctx context.Context, lock Locker, options ...rlock.AcquireOption) *rlock.Hold {
	t.Helper()
	hold, err := lock.Acquire(ctx, options...)
	require.NoError(t, err)
	return hold
}

// Permits takes n permits, each with a handle.
func Permits(t *testing.T, ctx context.Context, lock *rlock.Lock, n int) (holds []*rlock.Hold) {
	t.Helper()
	for range n {
		holds = append(holds, Take(t, ctx, lock, rlock.WithWait(0)))
	}
	return holds
}

// OneSection takes the lock for a moment and returns the token of its hold.
func OneSection(ctx context.Context, t *testing.T, lock *rlock.Lock) uint64 {
	t.Helper()
	hold := Take(t, ctx, lock)
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

// Tries reports whether TryLock takes the lock.
func Tries(t *testing.T, ctx context.Context, lock Locker) bool {
	t.Helper()
	ok, err := lock.TryLock(ctx)
	require.NoError(t, err)
	return ok
}

// TriesFor reports whether TryLockFor takes the lock within the wait.
func TriesFor(t *testing.T, ctx context.Context, lock Locker, wait time.Duration) bool {
	t.Helper()
	ok, err := lock.TryLockFor(ctx, wait, 0)
	require.NoError(t, err)
	return ok
}

// IsLocked reports whether Redis shows the lock as held.
func IsLocked(t *testing.T, ctx context.Context, lock Locker) bool {
	t.Helper()
	locked, err := lock.IsLocked(ctx)
	require.NoError(t, err)
	return locked
}

// Frees reports whether ForceUnlock has freed the lock.
func Frees(t *testing.T, ctx context.Context, lock Locker) bool {
	t.Helper()
	freed, err := lock.ForceUnlock(ctx)
	require.NoError(t, err)
	return freed
}

// Inspected is the state of the lock named Key, as the client reads it.
func Inspected(t *testing.T, ctx context.Context, client *rlock.Client) inspect.Lock {
	t.Helper()
	i, err := inspect.Of(client).Lock(ctx, Key)
	require.NoError(t, err)
	return i
}

// PassedOn passes the hold on for so long, and returns the text that names it.
func PassedOn(t *testing.T, ctx context.Context, hold *rlock.Hold, within time.Duration) string {
	t.Helper()
	pass, err := hold.Pass(ctx, within)
	require.NoError(t, err)
	return pass
}

// Succeed waits for these calls.
func Succeed(t *testing.T, results ...<-chan error) {
	t.Helper()
	for _, result := range results {
		require.NoError(t, Soon(result))
	}
}

// Release releases the holds.
func Release(t *testing.T, ctx context.Context, holds ...*rlock.Hold) {
	t.Helper()
	for _, hold := range holds {
		require.NoError(t, hold.Release(ctx))
	}
}

// RequireLoss returns when the hold is lost. Its context and its release say so.
func RequireLoss(t *testing.T, ctx context.Context, hold *rlock.Hold) {
	t.Helper()
	select {
	case <-hold.Context().Done():
	case <-ctx.Done():
		require.FailNow(t, "the holder was not notified")
	}
	require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	require.ErrorIs(t, hold.Release(ctx), rlock.ErrLost)
}

// A Question asks Redis about the lock named Key, and takes none.
type Question func(ctx context.Context, c *rlock.Client, lock Locker) error

var Questions = map[string]Question{
	"IsLocked":    func(ctx context.Context, _ *rlock.Client, lock Locker) error { return ErrorOf(lock.IsLocked(ctx)) },
	"TTL":         func(ctx context.Context, _ *rlock.Client, lock Locker) error { return ErrorOf(lock.TTL(ctx)) },
	"ForceUnlock": func(ctx context.Context, _ *rlock.Client, lock Locker) error { return ErrorOf(lock.ForceUnlock(ctx)) },
	"Inspect": func(ctx context.Context, c *rlock.Client, _ Locker) error {
		return ErrorOf(inspect.Of(c).Lock(ctx, Key))
	},
	"Locks": func(ctx context.Context, c *rlock.Client, _ Locker) error { return ErrorOf(Names(ctx, c, "")) },
}

// Names returns the names of the held locks that match the pattern, and the last error.
func Names(ctx context.Context, c *rlock.Client, pattern string) (names []string, err error) {
	for name, failed := range inspect.Of(c).Locks(ctx, pattern) {
		if failed != nil {
			err = failed
			continue
		}
		names = append(names, name)
	}
	return names, err
}

// ErrorOf returns the error of a call that returns a value as well.
func ErrorOf[V any](_ V, err error) error { return err }
