package kinds_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a semaphore of several permits adds to one of a single permit, which the tests over all kinds cover.

// atOnce is one attempt.
func atOnce(k int) []rlock.AcquireOption {
	return []rlock.AcquireOption{rlock.WithPermits(k), rlock.WithWait(0)}
}

func TestASemaphoreHasAsManyHoldersAsPermits(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewSemaphore(testbed.Key, 5), s.NewClient().NewSemaphore(testbed.Key, 5)
		refused := func(k int) {
			t.Helper()
			for _, lock := range []*rlock.Lock{here, there} {
				require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(s.Ctx, atOnce(k)...)), rlock.ErrNotAcquired)
			}
		}
		shown := func(want bool) {
			t.Helper()
			locked, err := there.IsLocked(s.Ctx)
			require.NoError(t, err)
			assert.Equal(t, want, locked)
			ttl, err := there.TTL(s.Ctx)
			require.NoError(t, err)
			assert.Equal(t, want, ttl > 0)
		}
		three := testbed.Take(t, s.Ctx, here, atOnce(3)...)
		refused(3)
		shown(false)
		held := testbed.Permits(t, s.Ctx, there, 2) // the attempts before have taken none
		refused(1)
		shown(true)
		require.NoError(t, three.Release(s.Ctx))
		shown(false)
		held = append(held, testbed.Permits(t, s.Ctx, here, 3)...)
		refused(1)
		testbed.Release(t, s.Ctx, held...)
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}

// One that takes many is the first in the queue, and those that come after it wait although there is a permit for them.
func TestACallThatTakesManyPermitsIsNotStarved(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		const n = 3
		c := s.NewClient()
		lock, wide, narrow := c.NewSemaphore(testbed.Key, n), s.NewClient().NewSemaphore(testbed.Key, n), s.NewClient().NewSemaphore(testbed.Key, n)
		held := testbed.Permits(t, s.Ctx, lock, 2)
		var mu sync.Mutex
		var order []string
		takes := func(l *rlock.Lock, name string, k int) <-chan error {
			return testbed.Start(func() error {
				h, err := l.Acquire(s.Ctx, rlock.WithPermits(k))
				if err != nil {
					return err
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				return h.Release(s.Ctx)
			})
		}
		first := takes(wide, "three", n)
		s.AwaitWaiters(1, testbed.Key)
		_, err := narrow.Acquire(s.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired, "an attempt does not pass it")
		second := takes(narrow, "one", 1)
		s.AwaitWaiters(2, testbed.Key)
		third := takes(wide, "two", 2)
		s.AwaitWaiters(3, testbed.Key)

		shown := testbed.Inspected(t, s.Ctx, c)
		assert.Equal(t, []int{3, 1, 2}, permitsOf(shown.Queue))
		testbed.Release(t, s.Ctx, held...)
		for _, call := range []<-chan error{first, second, third} {
			require.NoError(t, s.Await(call))
		}
		assert.Equal(t, "three", order[0])
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}

func permitsOf(queue []inspect.Waiter) (ks []int) {
	for _, w := range queue {
		ks = append(ks, w.Permits)
	}
	return ks
}

func TestANestedCallHasThePermitsOfItsOwner(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewSemaphore(testbed.Key, 4)
		require.NoError(t, lock.Do(w.Ctx, func(ctx context.Context) error {
			for _, k := range []int{1, 2, 3} {
				inner := testbed.Take(t, ctx, lock, atOnce(k)...)
				require.NoError(t, inner.Release(ctx))
			}
			one := testbed.Permits(t, w.Ctx, lock, 1)[0]
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired, "the nested calls have taken none, and given back none")
			for _, options := range [][]rlock.AcquireOption{atOnce(4), {rlock.WithPermits(4)}} {
				_, err = lock.Acquire(ctx, options...)
				require.ErrorIs(t, err, rlock.ErrUpgrade)
				assert.ErrorContains(t, err, "it has fewer than 4 permits")
			}
			return one.Release(w.Ctx)
		}, rlock.WithPermits(3)))
		assert.Empty(t, w.Keys())
	})
}

func TestPermitsThatNoReleaseCanGiveAreRefusedAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient()
		for _, k := range []int{-1, 0, 4, math.MaxInt32} {
			_, err := c.NewSemaphore(testbed.Key, 3).Acquire(w.Ctx, rlock.WithPermits(k))
			require.ErrorIs(t, err, rlock.ErrPermits, k)
		}
		multi := rlock.NewMultiLock(c.NewSemaphore("a", 3), c.NewSemaphore("b", 3))
		for _, lock := range []*rlock.Lock{c.NewLock(testbed.Key), c.NewFairLock(testbed.Key), c.NewReadWriteLock(testbed.Key).Read(), multi} {
			require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithPermits(2))), errors.ErrUnsupported)
			h := testbed.Take(t, w.Ctx, lock, rlock.WithPermits(1))
			require.NoError(t, h.Release(w.Ctx))
		}
	})
}

// All permits of a hold are lost together, when its lease is over.
func TestTheEndOfALeaseFreesAllPermitsOfAHold(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		dead, alive := w.NewClient(), w.NewClient().NewSemaphore(testbed.Key, 4)
		lost := testbed.Take(t, w.Ctx, dead.NewSemaphore(testbed.Key, 4), atOnce(3)...)
		one := testbed.Permits(t, w.Ctx, alive, 1)[0]
		time.Sleep(time.Minute) // both are renewed
		assert.True(t, lost.Valid())
		require.ErrorIs(t, testbed.ErrorOf(alive.Acquire(w.Ctx, rlock.WithWait(0))), rlock.ErrNotAcquired)
		dead.Net.Rule(network.Silence)
		testbed.Within(t, 18*time.Second, 33*time.Second, func() {
			next := testbed.Take(t, w.Ctx, alive, rlock.WithPermits(3))
			require.ErrorIs(t, context.Cause(lost.Context()), rlock.ErrLost)
			require.NoError(t, next.Release(w.Ctx))
		})
		testbed.Release(t, w.Ctx, append(testbed.Permits(t, w.Ctx, alive, 3), one)...)
		dead.Net.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.Keys())
	})
}

func TestAPermitWithALeaseOfItsOwnEndsForItsHolderAlone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewSemaphore(testbed.Key, 2)
		long := testbed.Permits(t, w.Ctx, lock, 1)[0]
		short := testbed.Take(t, w.Ctx, lock, rlock.WithLease(time.Second))
		ttl, err := lock.TTL(w.Ctx)
		require.NoError(t, err)
		assert.LessOrEqual(t, ttl, time.Second, "the earliest end")
		<-short.Context().Done()
		require.ErrorIs(t, context.Cause(short.Context()), rlock.ErrLost)
		next := testbed.Take(t, w.Ctx, lock)
		require.NoError(t, context.Cause(long.Context()))
		require.NoError(t, next.Release(w.Ctx))
		require.NoError(t, long.Release(w.Ctx))
		require.ErrorIs(t, short.Release(w.Ctx), rlock.ErrLost)
	})
}

func TestTheNumberOfPermitsMayChange(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		before, after := w.NewClient(), w.NewClient()
		held := testbed.Permits(t, w.Ctx, before.NewSemaphore(testbed.Key, 2), 2)
		held = append(held, testbed.Permits(t, w.Ctx, after.NewSemaphore(testbed.Key, 4), 2)...)
		_, err := after.NewSemaphore(testbed.Key, 4).Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		testbed.Release(t, w.Ctx, held[:2]...)
		_, err = before.NewSemaphore(testbed.Key, 2).Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired, "this client knows of two permits")
		testbed.Release(t, w.Ctx, held[2:]...)
		for name, err := range testbed.EveryMethod(w.Ctx, before.NewSemaphore(testbed.Key, 0)) {
			require.ErrorIs(t, err, rlock.ErrInvalidConfig, name)
		}
	})
}

func TestInspectShowsHowManyPermitsEachOwnerHas(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient()
		lock := c.NewSemaphore(testbed.Key, 6)
		for _, k := range []int{1, 3} {
			testbed.Take(t, w.Ctx, lock, atOnce(k)...)
		}
		hold := testbed.Take(t, w.Ctx, lock, atOnce(2)...)
		pass := testbed.PassedOn(t, w.Ctx, hold, time.Hour)
		shown := testbed.Inspected(t, w.Ctx, c.Client)
		assert.Equal(t, rlock.KindSemaphore, shown.Kind)
		assert.Equal(t, 3, shown.HolderCount)
		var ks []int
		for _, h := range shown.Holders {
			ks = append(ks, h.Permits)
			assert.Equal(t, h.Permits == 2, h.Passed)
			assert.NotContains(t, h.Owner, "*")
		}
		assert.ElementsMatch(t, []int{1, 2, 3}, ks)

		hold, err := w.NewClient().Resume(w.Ctx, pass)
		require.NoError(t, err)
		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(0))), rlock.ErrNotAcquired)
		require.NoError(t, hold.Release(w.Ctx))
		testbed.Take(t, w.Ctx, lock, atOnce(2)...)
	})
}
