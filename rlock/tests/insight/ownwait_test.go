package insight_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ownSaid = "rlock: a call waits for a lock that its own goroutine holds"

// A goroutine that holds a whole by a handle waits for ever for a part.
func TestAWaitForAPartOfAHandleOfTheSameGoroutineIsLogged(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold := testbed.Take(t, w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		require.False(t, testbed.TriesFor(t, w.Ctx, p.NewLock("b"), 3*time.Second))
		assert.Equal(t, 1, p.Logged(ownSaid))
		require.NoError(t, hold.Release(w.Ctx))
	})
}

// Only the goroutine that has locked can unlock, so an Acquire by it waits for itself.
func TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		lock := p.NewFairLock(testbed.Key)
		require.NoError(t, lockedHere(w.Ctx, lock))
		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(10*time.Millisecond))), rlock.ErrNotAcquired)
		assert.Equal(t, 1, p.Logged(ownSaid))
		assert.Equal(t, 1, p.Logged("TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce"), "the site of the call")
		assert.Equal(t, 1, p.Logged("lockedHere"), "the site of the holder")

		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(time.Minute))), rlock.ErrNotAcquired)
		elsewhere := testbed.Start(func() error {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(10*time.Millisecond))
			return err
		})
		require.ErrorIs(t, <-elsewhere, rlock.ErrNotAcquired)
		assert.Equal(t, 2, p.Logged(ownSaid), "once for each call, and not for another goroutine's")
		require.NoError(t, lock.Unlock(w.Ctx))
	})
}

func lockedHere(ctx context.Context, lock *rlock.Lock) error { return lock.Lock(ctx) }
