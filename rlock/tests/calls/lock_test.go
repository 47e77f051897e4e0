// Package calls_test is about what every call promises for every kind of lock: Lock, TryLock, Do,
// Acquire and their ends by a context or Close, owners, names, leases, force, holds that are passed
// on, and guarded writes.
package calls_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// Redisson: testGetHoldCount, testReentrancy.
func TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		for range 2 {
			assert.Zero(t, here.HoldCount(s.Ctx))
			require.NoError(t, here.Lock(s.Ctx))
			assert.True(t, testbed.Tries(t, s.Ctx, here), "its owner locks again without waiting, and unlocks as often")
			for depth := 2; depth > 0; depth-- {
				assert.Equal(t, depth, here.HoldCount(s.Ctx))
				assert.False(t, s.IsFree(here), "another goroutine of the client")
				assert.False(t, s.IsFree(there), "another client")
				assert.False(t, testbed.Tries(t, s.Ctx, there.Rival), "the same goroutine by another client")
				require.NoError(t, here.Unlock(s.Ctx))
			}
			assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld)
			assert.True(t, s.IsFree(here))
			assert.True(t, s.IsFree(there))
		}
	})
}

// Redisson: testIsLocked, testIsHeldByCurrentThread, both also OtherThread.
func TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		look := func(lock testbed.Locker) (locked, held bool) {
			locked, err := lock.IsLocked(s.Ctx)
			assert.NoError(t, err)
			return locked, lock.IsHeld(s.Ctx)
		}
		expect := func(lock testbed.Locker, locked, held bool) {
			t.Helper()
			isLocked, isHeld := look(lock)
			assert.Equal(t, locked, isLocked)
			assert.Equal(t, held, isHeld)
		}
		expect(here, false, false)
		require.NoError(t, here.Lock(s.Ctx))
		expect(here, true, true)
		expect(there, true, false)
		testbed.Elsewhere(func() { expect(here, true, false) })
		require.NoError(t, here.Unlock(s.Ctx))
		expect(here, false, false)
		expect(there, false, false)
	})
}

// Redisson: testUnlockFail.
func TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld, "no owner holds the lock")

		require.NoError(t, here.Lock(s.Ctx))
		testbed.Elsewhere(func() { assert.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrNotHeld) })
		assert.ErrorIs(t, there.Unlock(s.Ctx), rlock.ErrNotHeld)
		assert.Equal(t, 1, here.HoldCount(s.Ctx))
		assert.False(t, s.IsFree(there))
		require.NoError(t, here.Unlock(s.Ctx))
	})
}

func TestAnUnlockWorksWithAContextThatHasEnded(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		type color struct{}
		here, there := s.NewLock(), s.NewLock()
		ctx, cancel := context.WithCancel(context.WithValue(rlock.WithOwner(s.Ctx, rlock.NewOwner()), color{}, "red"))
		require.NoError(t, here.Lock(ctx))
		hold := testbed.Take(t, ctx, here)
		cancel()
		assert.Equal(t, 2, here.HoldCount(ctx), "the hold does not depend on the context")
		assert.True(t, hold.Valid())
		assert.NoError(t, hold.Context().Err(), "the time to wait is not the time to hold")
		assert.Equal(t, "red", hold.Context().Value(color{}))
		require.NoError(t, hold.Release(ctx))
		require.NoError(t, here.Unlock(ctx))
		assert.True(t, s.IsFree(there))
	})
}

func TestTryLockForTakesTheLockWithinItsTime(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		require.NoError(t, here.Lock(s.Ctx))
		ctx, queued := testbed.Queueing(s.Ctx)
		waiter := testbed.Start(func() error {
			taken, err := there.Rival.TryLockFor(ctx, testbed.Hang, time.Hour)
			assert.True(t, taken)
			if err != nil {
				return err
			}
			// Redis shows the lease a moment later if the queue granted the lock, or if the
			// lock is compound.
			assert.Eventually(t, func() bool {
				ttl, err := there.Rival.TTL(s.Ctx)
				return err == nil && ttl > time.Hour-testbed.Hang
			}, testbed.Hang, time.Millisecond, "Redis shows the lease of the call")
			return there.Rival.Unlock(s.Ctx)
		})
		redistest.Await(t, queued)
		require.NoError(t, here.Unlock(s.Ctx))
		require.NoError(t, redistest.Await(t, waiter))

		assert.True(t, testbed.TriesFor(t, s.Ctx, there, 0), "a free lock is taken at once")
		require.NoError(t, there.Unlock(s.Ctx))
	})
}

// The wait bounds the waiting, not an attempt: a free lock is taken however short the wait
// is.
func TestTryLockForMakesOneAttemptHoweverShortTheWait(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock, me := s.NewLock(), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		for _, wait := range []time.Duration{-time.Second, 0, 1, time.Microsecond} {
			assert.Eventually(t, func() bool { // an abandoned ticket leaves the queue a moment later
				taken, err := testbed.Try(me, lock, wait, 0)
				return err == nil && taken
			}, testbed.Hang, time.Millisecond, wait)
			// On a busy machine a RedLock may take its servers for silent for a moment, and
			// returns another error.
			assert.Eventually(t, func() bool {
				hold, err := lock.Rival.Acquire(rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithWait(wait))
				assert.Nil(t, hold)
				return errors.Is(err, rlock.ErrNotAcquired)
			}, testbed.Hang, time.Millisecond, wait)
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestAHoldBelongsToItsHandleAndNotToAGoroutine(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		hold := testbed.Take(t, s.Ctx, lock)
		assert.False(t, lock.IsHeld(s.Ctx), "the goroutine is not the owner of a Hold")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)

		for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
			second, err := testbed.Repeat(s.Ctx, lock, func(ctx context.Context) (*rlock.Hold, error) {
				return lock.Rival.Acquire(ctx, rlock.WithWait(wait))
			})
			assert.ErrorIs(t, err, rlock.ErrNotAcquired, "the same goroutine must not nest in a Hold")
			assert.Nil(t, second)
		}

		testbed.Elsewhere(func() { assert.NoError(t, hold.Release(s.Ctx), "the handle is the right to release") })
		second, err := lock.Rival.Acquire(s.Ctx) // an abandoned ticket leaves the queue a moment later
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
		redistest.Await(t, hold.Context().Done())
		assert.False(t, hold.Valid())
		assert.Zero(t, hold.ValidUntil())
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
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
			redistest.Await(t, ctx.Done())
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
				redistest.Await(t, ctx.Done())
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

// Attempts of one process that come while the command of another call is in flight.

// atOnce calls try in many goroutines, each an owner, and returns when all have returned.
func atOnce(n int, try func(ctx context.Context) error) (errs []error) {
	errs = make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = try(rlock.WithOwner(context.Background(), rlock.NewOwner())) })
	}
	wg.Wait()
	return errs
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
				began := time.Now()
				for _, err := range atOnce(20, func(ctx context.Context) error {
					return testbed.ErrorOf(lock.Acquire(ctx, rlock.WithWait(wait)))
				}) {
					require.Error(t, err)
					require.NotErrorIs(t, err, rlock.ErrNotAcquired, "%s, %v", name, wait)
				}
				assert.Less(t, time.Since(began), 15*time.Second, "%s, %v", name, wait)
				p.Heal()
			}
		}
	})
}

// Redisson: testRemainTimeToLive.
func TestTTLIsTheLeaseWhileHeldAndZeroWhenFree(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		ttl := func(lock testbed.Locker) time.Duration {
			d, err := lock.TTL(s.Ctx)
			require.NoError(t, err)
			return d
		}
		assert.Zero(t, ttl(here))
		require.NoError(t, here.LockFor(s.Ctx, time.Hour))
		for _, lock := range []testbed.Locker{here, there} {
			assert.Greater(t, ttl(lock), time.Hour-testbed.Hang)
			assert.LessOrEqual(t, ttl(lock), time.Hour)
		}
		require.NoError(t, here.Unlock(s.Ctx))
		assert.Zero(t, ttl(there))
		require.NoError(t, here.Lock(s.Ctx))
		assert.Positive(t, ttl(there))
		assert.LessOrEqual(t, ttl(there), 30*time.Second, "the default lease of the watchdog: no lease leaks into the next lock")
		require.NoError(t, here.Unlock(s.Ctx))
	})
}

func TestTTLOfAKeyThatDoesNotExpireIsNegative(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		require.NoError(t, lock.Lock(s.Ctx))
		// The first answer over a new connection has the client renew its leases, which may be
		// after a PERSIST.
		assert.Eventually(t, func() bool {
			persisted := s.Do("PERSIST", testbed.Key).Error()
			ttl, err := lock.TTL(s.Ctx)
			return persisted == nil && err == nil && ttl == -1
		}, testbed.Hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}

// Redisson: testForceUnlock.
func TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		assert.False(t, testbed.Frees(t, s.Ctx, lock), "no owner holds the lock")

		require.NoError(t, lock.Lock(s.Ctx))
		require.NoError(t, lock.Lock(s.Ctx))
		testbed.Elsewhere(func() {
			forced, err := lock.ForceUnlock(s.Ctx)
			assert.NoError(t, err)
			assert.True(t, forced)
		})
		assert.False(t, testbed.IsLocked(t, s.Ctx, lock))
		assert.False(t, lock.IsHeld(s.Ctx), "the holder of the same client knows at once")
		assert.ErrorIs(t, lock.Lock(s.Ctx), rlock.ErrLost, "a nested Lock fails after a loss")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrLost)
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrLost, "the loss is reported once for each level")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)
		require.Eventually(t, func() bool { return s.IsFree(lock) }, testbed.Hang, time.Millisecond, "the other parts are released")
	})
}

// On each server all kinds run at the same time: they wait for their renewals.
func TestAForceUnlockByAnotherClientIsLearntWhateverTheServer(t *testing.T) {
	redistest.Over(t, testbed.EveryServer[1:], func(t *testing.T, server *redistest.Server) {
		s := &testbed.Subject{Site: testbed.At(t, server)}
		s.Sites = []*testbed.Site{s.Site}
		s.LeavesNothing()
		var all sync.WaitGroup
		for _, k := range testbed.Kinds {
			if k.Servers > 1 {
				continue
			}
			s.KindOfLock = k
			here, there := s.NewProcess(testbed.WithLease(3*time.Second)), s.NewProcess()
			all.Go(func() {
				t.Run(k.Name, func(t *testing.T) {
					learnsOfForce(s.Ctx, t, here.NewLock(k.Name), there.NewLock(k.Name))
				})
			})
		}
		all.Wait()
	})
}

// In learnsOfForce one client takes the lock and another unlocks it by force; it returns when
// the former holder knows.
func learnsOfForce(ctx context.Context, t *testing.T, here, there *testbed.Trial) {
	hold := testbed.Take(t, ctx, here)
	assert.True(t, testbed.Frees(t, ctx, there))
	require.NoError(t, there.Rival.Lock(ctx), "the lock is free")
	testbed.RequireLoss(t, ctx, hold)
	assert.True(t, there.Rival.IsHeld(ctx))
	require.NoError(t, there.Rival.Unlock(ctx), "the next holder's lock is unchanged")
}

// A time whose end is beyond the range of the clock has no end.
func TestATimeOfCenturiesDoesNotEnd(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c, other := w.NewClient(), w.NewClient()
		time.Sleep(time.Second) // the clocks begin with the client
		const longest = time.Duration(math.MaxInt64)
		for _, long := range []time.Duration{longest, longest - 1} {
			holds := func(option rlock.AcquireOption) func(*rlock.Lock) (*rlock.Hold, error) {
				return func(l *rlock.Lock) (*rlock.Hold, error) { return l.Acquire(w.Ctx, option) }
			}
			extends := func(option rlock.AcquireOption) func(*rlock.Lock) (*rlock.Hold, error) {
				return func(l *rlock.Lock) (*rlock.Hold, error) {
					h := testbed.Take(t, w.Ctx, l, option)
					return h, h.Extend(w.Ctx, long)
				}
			}
			for name, take := range map[string]func(*rlock.Lock) (*rlock.Hold, error){
				"a wait": holds(rlock.WithWait(long)), "a lease": holds(rlock.WithLease(long)), "a longest hold": holds(rlock.WithMaxHold(long)),
				"an extended lease": extends(rlock.WithLease(time.Minute)), "an extended longest hold": extends(rlock.WithMaxHold(time.Minute)),
				"a pass": func(l *rlock.Lock) (*rlock.Hold, error) {
					pass, err := testbed.Take(t, w.Ctx, l).Pass(w.Ctx, long)
					require.NoError(t, err)
					time.Sleep(time.Minute)
					return c.Resume(w.Ctx, pass)
				},
			} {
				held := testbed.Take(t, w.Ctx, other.NewLock(name))
				time.AfterFunc(time.Second, func() { _ = held.Release(w.Ctx) })
				h, err := take(c.NewLock(name))
				require.NoError(t, err, name)
				time.Sleep(time.Minute)
				assert.True(t, h.Valid(), name)
				require.NoError(t, h.Release(w.Ctx), name)
			}

			l := c.NewLock(fmt.Sprint("least ", long))
			require.NoError(t, testbed.Take(t, w.Ctx, l, rlock.WithMinHold(long)).Release(w.Ctx))
			locked, err := l.IsLocked(w.Ctx)
			require.NoError(t, err)
			assert.True(t, locked, "a least hold")
		}
	})
}
