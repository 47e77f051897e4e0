package calls_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHoldBelongsToItsHandleAndNotToAGoroutine(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		hold := testbed.Take(t, s.Ctx, lock)
		assert.False(t, lock.IsHeld(s.Ctx), "the goroutine is not the owner of a Hold")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)

		second, err := lock.Rival.Acquire(s.Ctx, rlock.WithWait(0))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired, "the same goroutine must not nest in a Hold")
		assert.Nil(t, second)
		second, err = lock.Rival.Acquire(s.Ctx, rlock.WithWait(10*time.Millisecond))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Nil(t, second)

		testbed.Elsewhere(func() { assert.NoError(t, hold.Release(s.Ctx), "the handle is the right to release") })
		second, err = lock.Rival.Acquire(s.Ctx) // an abandoned ticket leaves the queue a moment later
		require.NoError(t, err)
		require.NoError(t, second.Release(s.Ctx))
	})
}

func TestAHoldIsValidUntilItIsReleased(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		const lease, drift = time.Hour, time.Hour / 50 // longer than the client's own
		lock := s.NewLock(testbed.WithLease(lease))
		before := time.Now()
		hold := testbed.Take(t, s.Ctx, lock)
		assert.True(t, hold.Valid())
		assert.NoError(t, context.Cause(hold.Context()))
		assert.NoError(t, hold.Context().Err())
		assert.True(t, hold.ValidUntil().After(before.Add(lease-drift)))
		assert.True(t, hold.ValidUntil().Before(time.Now().Add(lease)), "the hold must end before the lease in Redis")

		require.NoError(t, hold.Release(s.Ctx))
		<-hold.Context().Done()
		assert.False(t, hold.Valid())
		assert.Zero(t, hold.ValidUntil())
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
	})
}

func TestAHoldIsReleasedOnceOnly(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		ctx := rlock.WithOwner(s.Ctx, rlock.NewOwner())
		hold := testbed.Take(t, ctx, lock)
		require.NoError(t, hold.Release(ctx))

		require.NoError(t, lock.Lock(ctx), "the same owner locks again")
		assert.ErrorIs(t, hold.Release(ctx), rlock.ErrNotHeld)
		assert.Equal(t, 1, lock.HoldCount(ctx))
		assert.False(t, hold.Valid())
		require.NoError(t, lock.Unlock(ctx))
	})
}

func TestTheHoldsOfAnOwnerNestAndAreReleasedInAnyOrder(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		ctx := rlock.WithOwner(s.Ctx, rlock.NewOwner())
		outer := testbed.Take(t, ctx, lock)
		inner := testbed.Take(t, ctx, lock, rlock.WithWait(0))
		of, _ := rlock.OwnerFrom(ctx)
		from, ok := rlock.OwnerFrom(inner.Context())
		assert.True(t, ok && from == of, "calls under the hold nest in it")
		require.NoError(t, lock.Lock(ctx))
		assert.Equal(t, 3, lock.HoldCount(ctx))

		require.NoError(t, outer.Release(ctx))
		assert.False(t, outer.Valid())
		assert.True(t, inner.Valid())
		require.NoError(t, lock.Unlock(ctx), "Unlock ends a level that was taken without a handle")
		assert.True(t, inner.Valid())
		assert.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld, "the levels that are left have handles")
		assert.False(t, s.IsFree(lock))
		require.NoError(t, inner.Release(ctx))
		assert.True(t, s.IsFree(lock))
	})
}

func TestDoHoldsTheLockWhileTheFunctionRunsAndReturnsItsError(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock, there := s.NewLock(), s.NewLock()
		broken := errors.New("the printer is on fire")
		for _, result := range []error{nil, broken} {
			err := lock.Do(s.Ctx, func(ctx context.Context) error {
				assert.True(t, lock.IsHeld(ctx))
				assert.False(t, s.IsFree(there))
				assert.NoError(t, lock.Do(ctx, func(context.Context) error {
					assert.Equal(t, 2, lock.HoldCount(s.Ctx), "it nests")
					return nil
				}))
				assert.NoError(t, ctx.Err())
				return result
			})
			assert.Equal(t, result, err)
			assert.True(t, s.IsFree(there))
		}
	})
}

func TestDoReleasesWhenTheFunctionPanicsOrEndsItsGoroutine(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		assert.PanicsWithValue(t, "on fire", func() {
			_ = lock.Do(s.Ctx, func(context.Context) error { panic("on fire") })
		})
		assert.True(t, s.IsFree(lock))
		testbed.Elsewhere(func() {
			_ = lock.Do(s.Ctx, func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		})
		assert.True(t, s.IsFree(lock))
	})
}

func TestDosContextEndsWithTheCallers(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		ctx, cancel := context.WithCancel(s.Ctx)
		err := lock.Do(ctx, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.True(t, s.IsFree(lock), "it was not released")
		assert.ErrorIs(t, lock.Do(ctx, func(context.Context) error { panic("called") }), context.Canceled)
	})
}

func TestDoJoinsTheLossWithTheErrorOfTheFunction(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		broken := errors.New("the printer is on fire")
		itself := errors.New("the cause of the context's end")
		for _, result := range []error{nil, broken, itself} {
			err := lock.Do(s.Ctx, func(ctx context.Context) error {
				_, err := lock.ForceUnlock(s.Ctx)
				assert.NoError(t, err)
				<-ctx.Done()
				cause := context.Cause(ctx)
				assert.ErrorIs(t, cause, rlock.ErrLost)
				if result == itself {
					return cause
				}
				return result
			})
			assert.ErrorIs(t, err, rlock.ErrLost, "nil would mean that the lock was held to the end")
			switch result {
			case itself:
				assert.NotContains(t, err.Error(), "\n", "the loss is told once")
			case broken:
				assert.ErrorIs(t, err, result)
			}
			require.NoError(t, lock.Lock(s.Ctx), "the reported loss has no further effect")
			require.NoError(t, lock.Unlock(s.Ctx))
		}
	})
}

func TestDoTakesTheOptionsOfAcquire(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient().NewLock(testbed.Key), w.NewClient().NewLock(testbed.Key)
		never := func(context.Context) error { panic("called") }
		require.NoError(t, here.Do(w.Ctx, func(ctx context.Context) error {
			testbed.Within(t, 0, 0, func() {
				require.ErrorIs(t, there.Do(w.Ctx, never, rlock.WithWait(0)), rlock.ErrNotAcquired)
			})
			testbed.Within(t, 3*time.Second, 3*time.Second, func() {
				require.ErrorIs(t, there.Do(w.Ctx, never, rlock.WithWait(3*time.Second)), rlock.ErrNotAcquired)
			})
			return nil
		}))
		testbed.Within(t, 58*time.Second, time.Minute, func() {
			err := here.Do(w.Ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}, rlock.WithLease(time.Minute))
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		require.ErrorIs(t, here.Do(w.Ctx, never, rlock.WithLease(-1)), rlock.ErrInvalidLease)
	})
}
