// Package calls_test is about what every call promises for every kind of lock, on servers of all
// sorts: exclusion, waits, Do, force, the end of contexts and Close, names, guarded writes. Most of
// it is told of each kind in virtual time by the stories of owners.txt.
package calls_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// Redisson: testGetHoldCount, testReentrancy, testIsLocked, testIsHeldByCurrentThread, testUnlockFail,
// testRemainTimeToLive.
func TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		shows := func(depth int, least, most time.Duration) {
			t.Helper()
			assert.Equal(t, depth, here.HoldCount(s.Ctx))
			for _, lock := range []*testbed.Trial{here, there} {
				assert.Equal(t, depth == 0, s.IsFree(lock))
				assert.Eventually(t, func() bool { // an attempt at a red lock gives its parts back a moment later
					locked, err := lock.IsLocked(s.Ctx)
					ttl, failed := lock.TTL(s.Ctx)
					return err == nil && failed == nil && locked == (depth > 0) && ttl >= least && ttl <= most
				}, testbed.Hang, time.Millisecond, "depth %d", depth)
				testbed.Elsewhere(func() {
					assert.False(t, lock.IsHeld(s.Ctx))
					assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)
				})
			}
			assert.False(t, there.IsHeld(s.Ctx), "the same goroutine by another client")
			assert.ErrorIs(t, there.Unlock(s.Ctx), rlock.ErrNotHeld)
		}
		for _, lease := range []time.Duration{time.Hour, 0} { // a lease does not leak into the next lock
			least, most := time.Millisecond, 30*time.Second
			if lease > 0 {
				least, most = lease-testbed.Hang, lease
			}
			shows(0, 0, 0)
			require.NoError(t, here.LockFor(s.Ctx, lease))
			assert.True(t, testbed.Tries(t, s.Ctx, here), "its owner locks again without waiting, and unlocks as often")
			for depth := 2; depth > 0; depth-- {
				shows(depth, least, most)
				assert.False(t, testbed.Tries(t, s.Ctx, there.Rival))
				require.NoError(t, here.Unlock(s.Ctx))
			}
			assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld)
		}
		shows(0, 0, 0)
	})
}

// A wait ends with the lock or with its context, behind a goroutine of the client and behind another
// client; the lock is not taken then.
func TestACancelledLockReturnsTheContextsErrorAndHoldsNothing(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		require.NoError(t, here.Lock(s.Ctx))
		for what, lock := range map[string]testbed.Locker{"behind a goroutine": here.Rival, "behind a client": there.Rival} {
			ctx, cancel := context.WithCancel(s.Ctx)
			ctx, queued := testbed.Queueing(ctx)
			waiter := testbed.Start(func() error { return lock.Lock(ctx) })
			redistest.Await(t, queued)
			cancel()
			assert.ErrorIs(t, redistest.Await(t, waiter), context.Canceled, what)
		}
		ctx, queued := testbed.Queueing(s.Ctx)
		waiter := testbed.Start(func() error {
			taken, err := there.Rival.TryLockFor(ctx, testbed.Hang, time.Hour)
			assert.True(t, taken)
			return errors.Join(err, there.Rival.Unlock(ctx))
		})
		redistest.Await(t, queued)
		require.NoError(t, here.Unlock(s.Ctx))
		require.NoError(t, redistest.Await(t, waiter), "a waiter gets the lock")
		require.NoError(t, here.Rival.Do(s.Ctx, testbed.Nothing))
	})
}

func TestAHoldBelongsToItsHandleAndNotToAGoroutine(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		type color struct{}
		const lease, drift = time.Hour, time.Hour / 50
		lock, before := s.NewLock(testbed.WithLease(lease)), time.Now()
		ctx, cancel := context.WithCancel(context.WithValue(s.Ctx, color{}, "red"))
		hold := testbed.Take(t, ctx, lock)
		cancel()
		assert.NoError(t, hold.Context().Err(), "the time to wait is not the time to hold")
		assert.Equal(t, "red", hold.Context().Value(color{}))
		assert.True(t, hold.Valid())
		assert.True(t, hold.ValidUntil().After(before.Add(lease-drift)))
		assert.True(t, hold.ValidUntil().Before(time.Now().Add(lease)), "the hold must end before the lease in Redis")
		assert.False(t, lock.IsHeld(s.Ctx), "the goroutine is not the owner of a Hold")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)
		for _, wait := range []time.Duration{-time.Second, 0, 10 * time.Millisecond} {
			second, err := testbed.Repeat(s.Ctx, lock, func(ctx context.Context) (*rlock.Hold, error) {
				return lock.Rival.Acquire(ctx, rlock.WithWait(wait))
			})
			assert.ErrorIs(t, err, rlock.ErrNotAcquired, "the same goroutine must not nest in a Hold")
			assert.Nil(t, second)
		}
		testbed.Elsewhere(func() {
			assert.NoError(t, hold.Release(ctx), "the handle is the right to release, also with a context that has ended")
		})
		redistest.Await(t, hold.Context().Done())
		assert.False(t, hold.Valid())
		assert.Zero(t, hold.ValidUntil())
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		second, err := lock.Rival.Acquire(s.Ctx) // an abandoned ticket leaves the queue a moment later
		require.NoError(t, err)
		require.NoError(t, second.Release(s.Ctx))
	})
}

func TestDoHoldsTheLockWhileTheFunctionRunsAndReturnsItsError(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock, there := s.NewLock(), s.NewLock()
		broken := errors.New("the printer is on fire")
		ctx, cancel := context.WithCancel(s.Ctx)
		defer cancel()
		for _, result := range []error{nil, broken} {
			err := lock.Do(ctx, func(ctx context.Context) error {
				assert.False(t, s.IsFree(there))
				assert.NoError(t, lock.Do(ctx, func(context.Context) error {
					assert.Equal(t, 2, lock.HoldCount(s.Ctx), "it nests")
					return nil
				}))
				assert.NoError(t, ctx.Err())
				if result != nil {
					cancel()
					redistest.Await(t, ctx.Done())
				}
				return result
			})
			assert.Equal(t, result, err)
			assert.True(t, s.IsFree(there))
		}
		assert.ErrorIs(t, lock.Do(ctx, func(context.Context) error { panic("called") }), context.Canceled)
	})
}

func TestDoReleasesWhenTheFunctionPanicsOrEndsItsGoroutine(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock := w.NewProcess().NewLock(testbed.Key)
		assert.PanicsWithValue(t, "on fire", func() {
			_ = lock.Do(w.Ctx, func(context.Context) error { panic("on fire") })
		})
		assert.True(t, w.IsFree(lock.Rival))
		testbed.Elsewhere(func() {
			_ = lock.Do(w.Ctx, func(context.Context) error { runtime.Goexit(); return nil })
		})
		assert.True(t, w.IsFree(lock.Rival))
	})
}

func TestDoJoinsTheLossWithTheErrorOfTheFunction(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock := w.NewProcess().NewLock(testbed.Key)
		broken := errors.New("the printer is on fire")
		itself := errors.New("the cause of the context's end")
		for _, result := range []error{nil, broken, itself} {
			err := lock.Do(w.Ctx, func(ctx context.Context) error {
				testbed.Frees(t, w.Ctx, lock)
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
			require.NoError(t, lock.Do(w.Ctx, testbed.Nothing), "the reported loss has no further effect")
		}
	})
}

// Unreachable is not busy: while Redis is silent, refuses connections or answers with an error, no
// call is told that another owner has the lock.
func TestNoCallIsRefusedByARedisThatDoesNotAnswer(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		for name, fails := range map[string]func(*testbed.Peer){"silent": (*testbed.Peer).Silence, "refuses": (*testbed.Peer).Refuse} {
			for _, wait := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second} {
				p := w.NewProcess()
				lock := p.NewLock(fmt.Sprint(testbed.Key, name, wait))
				require.NoError(t, lock.Do(w.Ctx, testbed.Nothing))
				fails(p)
				var all []<-chan error // attempts of one process that begin while the command of another is in flight
				for range 20 {
					all = append(all, testbed.Start(func() error { return testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(wait))) }))
				}
				testbed.Within(t, 0, 15*time.Second, func() {
					for _, result := range all {
						err := <-result
						require.Error(t, err)
						require.NotErrorIs(t, err, rlock.ErrNotAcquired, "%s, %v", name, wait)
					}
				})
				p.Heal()
			}
		}
	})
}

// Redisson: testForceUnlock. On servers also the holder of another client learns it.
func TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock, there := s.NewLock(testbed.WithLease(3*time.Second)), s.NewLock()
		assert.False(t, testbed.Frees(t, s.Ctx, lock), "no owner holds the lock")
		me := rlock.WithOwner(s.Ctx, rlock.NewOwner())
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		assert.True(t, testbed.Frees(t, s.Ctx, lock))
		assert.False(t, testbed.IsLocked(t, s.Ctx, lock))
		assert.False(t, lock.IsHeld(me), "the holder of the same client knows at once")
		assert.ErrorIs(t, lock.Lock(me), rlock.ErrLost, "a nested Lock fails after a loss")
		assert.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		assert.ErrorIs(t, lock.Unlock(me), rlock.ErrLost, "the loss is reported once for each level")
		assert.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)

		require.Eventually(t, func() bool { return s.IsFree(lock) }, testbed.Hang, time.Millisecond, "the other parts are released")
		hold := testbed.Take(t, s.Ctx, lock)
		assert.True(t, testbed.Frees(t, s.Ctx, there))
		require.NoError(t, there.Rival.Lock(me), "the lock is free")
		testbed.RequireLoss(t, s.Ctx, hold)
		require.NoError(t, there.Rival.Unlock(me), "the next holder's lock is unchanged")
	})
}
