package kinds_test

import (
	"sync"
	"testing"

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
