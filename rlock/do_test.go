package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDoHoldsTheLockWhileTheFunctionRunsAndReturnsItsError(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock, there := s.lock(), s.lock()
		broken := errors.New("the printer is on fire")
		for _, result := range []error{nil, broken} {
			err := lock.Do(s.ctx, func(ctx context.Context) error {
				assert.True(t, lock.IsHeld(ctx))
				assert.False(t, s.isFree(there))
				assert.NoError(t, lock.Do(ctx, func(context.Context) error {
					assert.Equal(t, 2, lock.HoldCount(s.ctx), "it nests")
					return nil
				}))
				assert.NoError(t, ctx.Err())
				return result
			})
			assert.Equal(t, result, err)
			assert.True(t, s.isFree(there))
		}
	})
}

func TestDoReleasesWhenTheFunctionPanicsOrEndsItsGoroutine(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		assert.PanicsWithValue(t, "on fire", func() {
			_ = lock.Do(s.ctx, func(context.Context) error { panic("on fire") })
		})
		assert.True(t, s.isFree(lock))
		elsewhere(func() {
			_ = lock.Do(s.ctx, func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		})
		assert.True(t, s.isFree(lock))
	})
}

func TestDosContextEndsWithTheCallers(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		ctx, cancel := context.WithCancel(s.ctx)
		err := lock.Do(ctx, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.True(t, s.isFree(lock), "it was not released")
		assert.ErrorIs(t, lock.Do(ctx, func(context.Context) error { panic("called") }), context.Canceled)
	})
}

func TestDoJoinsTheLossWithTheErrorOfTheFunction(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		broken := errors.New("the printer is on fire")
		for _, result := range []error{nil, broken} {
			err := lock.Do(s.ctx, func(ctx context.Context) error {
				_, err := lock.ForceUnlock(s.ctx)
				assert.NoError(t, err)
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
				return result
			})
			assert.ErrorIs(t, err, rlock.ErrLost, "nil would mean that the lock was held to the end")
			if result != nil {
				assert.ErrorIs(t, err, result)
			}
			require.NoError(t, lock.Lock(s.ctx), "the reported loss has no further effect")
			require.NoError(t, lock.Unlock(s.ctx))
		}
	})
}

func TestDoTakesTheOptionsOfAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client().NewLock(key), w.client().NewLock(key)
		never := func(context.Context) error { panic("called") }
		require.NoError(t, here.Do(w.ctx, func(ctx context.Context) error {
			within(t, 0, 0, func() {
				require.ErrorIs(t, there.Do(w.ctx, never, rlock.WithWait(0)), rlock.ErrNotAcquired)
			})
			within(t, 3*time.Second, 3*time.Second, func() {
				require.ErrorIs(t, there.Do(w.ctx, never, rlock.WithWait(3*time.Second)), rlock.ErrNotAcquired)
			})
			return nil
		}))
		within(t, 58*time.Second, time.Minute, func() {
			err := here.Do(w.ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}, rlock.WithLease(time.Minute))
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		require.ErrorIs(t, here.Do(w.ctx, never, rlock.WithLease(-1)), rlock.ErrInvalidLease)
	})
}
