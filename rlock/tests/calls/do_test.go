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
		for _, result := range []error{nil, broken} {
			err := lock.Do(s.Ctx, func(ctx context.Context) error {
				_, err := lock.ForceUnlock(s.Ctx)
				assert.NoError(t, err)
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
				return result
			})
			assert.ErrorIs(t, err, rlock.ErrLost, "nil would mean that the lock was held to the end")
			if result != nil {
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
