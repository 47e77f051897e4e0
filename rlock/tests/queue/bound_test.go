package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Queues that refuse: WithMaxWaiters.

// waitersOf are the locks of one name, for which all callers wait that have to.
var waitersOf = map[string]func(*rlock.Client, string) *rlock.Lock{
	"plain":     (*rlock.Client).NewLock,
	"fenced":    (*rlock.Client).NewFencedLock,
	"fair":      (*rlock.Client).NewFairLock,
	"write":     func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Write() },
	"semaphore": func(c *rlock.Client, name string) *rlock.Lock { return c.NewSemaphore(name, 1) },
}

// bounded is a call that waits if fewer than n wait.
func bounded(ctx context.Context, l *rlock.Lock, n int) <-chan error {
	return testbed.Start(func() error {
		h, err := l.Acquire(ctx, rlock.WithMaxWaiters(n))
		if err != nil {
			return err
		}
		return h.Release(ctx)
	})
}

func TestAQueueThatIsFullRefuses(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient(), s.NewClient()
		for kind, of := range waitersOf {
			name := "orders:" + kind
			held, err := of(here, name).Acquire(s.Ctx, rlock.WithMaxWaiters(-1))
			require.NoError(t, err, "it need not wait")

			_, err = of(there, name).Acquire(s.Ctx, rlock.WithMaxWaiters(0))
			require.ErrorIs(t, err, rlock.ErrTooManyWaiters)
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			assert.ErrorContains(t, err, fmt.Sprintf("lock %q", name))
			assert.ErrorContains(t, err, "0 of 0")

			first := bounded(s.Ctx, of(there, name), 2)
			s.AwaitWaiters(1, name)
			second := bounded(s.Ctx, of(here, name), 2)
			s.AwaitWaiters(2, name)
			for _, c := range []*rlock.Client{here, there} {
				_, err = of(c, name).Acquire(s.Ctx, rlock.WithMaxWaiters(2))
				require.ErrorIs(t, err, rlock.ErrTooManyWaiters)
				assert.ErrorContains(t, err, "2 of 2")
				assert.ErrorContains(t, err, "held by")
			}
			s.AwaitWaiters(2, name) // those that were refused take no place

			require.NoError(t, held.Release(s.Ctx))
			require.NoError(t, s.Await(first))
			require.NoError(t, s.Await(second))
			// A hand-off inside a process leaves the ticket of its caller to be given up.
			require.Eventually(t, func() bool { return s.Available(of(there, name)) }, testbed.Hang, time.Millisecond)
		}
	})
}

func TestALockOverSeveralHasNoBoundAndNoProgress(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		for _, l := range []*rlock.Lock{rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.NewRedLock([]*rlock.Client{p.Client}, "c")} {
			for name, option := range map[string]rlock.AcquireOption{"WithMaxWaiters": rlock.WithMaxWaiters(3), "WithProgress": rlock.WithProgress(func(int, int) {})} {
				_, err := l.Acquire(w.Ctx, option)
				require.ErrorIs(t, err, errors.ErrUnsupported)
				assert.ErrorContains(t, err, name)
			}
		}
	})
}

// The observer and the statistics know a call that was refused.
func TestAFullQueueIsObserved(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var gaveUp []rlock.GaveUpInfo
		p := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{GaveUp: func(_ context.Context, i rlock.GaveUpInfo) { gaveUp = append(gaveUp, i) }}
		})
		require.NoError(t, w.NewClient().NewLock(testbed.Key).Lock(w.Ctx))
		require.ErrorIs(t, p.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing, rlock.WithMaxWaiters(0)), rlock.ErrTooManyWaiters)
		require.Len(t, gaveUp, 1)
		require.ErrorIs(t, gaveUp[0].Err, rlock.ErrTooManyWaiters)
		assert.EqualValues(t, 1, p.Stats().Denied)
		assert.Zero(t, p.Stats().Waiting)
	})
}
