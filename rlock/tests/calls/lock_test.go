// Package calls_test is about what every call promises for every kind of lock, on servers of all
// sorts: exclusion, waits, Do, the end of contexts and Close, names, guarded writes. Most of
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
