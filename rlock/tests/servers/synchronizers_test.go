package servers_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/redisson"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rights of Redisson's synchronizers as they stand in docs/operations.md are enough, and each of them is needed.
func TestTheRightsOfSynchronizers(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	others, own := s.Rights("every lock", "one primary"), s.Rights("synchronizers")
	require.NoError(t, rehearsed(s, slices.Concat(others, own)))
	for i, rule := range own {
		assert.Error(t, rehearsed(s, slices.Concat(others, slices.Delete(slices.Clone(own), i, i+1))), "without %s", rule)
	}
}

// So are those to look at them.
func TestTheRightsToInspectSynchronizers(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	client, err := rlock.New(s.Limited(slices.Concat(s.Rights("every lock", "one primary"), s.Rights("synchronizers"), s.Rights("Inspect and Locks"), s.Rights("Names of synchronizers"))...))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	c := redisson.New(client)
	require.NoError(t, c.PermitSemaphore("orders:p").SetPermits(s.Ctx, 1))
	_, err = c.PermitSemaphore("orders:p").Acquire(s.Ctx, time.Minute)
	require.NoError(t, err)
	names, err := c.Names(s.Ctx, "orders:*")
	require.NoError(t, err)
	assert.Equal(t, []string{"orders:p"}, names)
	state, err := c.Inspect(s.Ctx, "orders:p")
	require.NoError(t, err)
	require.Len(t, state.Taken, 1)
	assert.NotNil(t, state.Taken[0].Process)
}

// rehearsed does all that the synchronizers do as a user with these rights, up to the first error.
func rehearsed(s *testbed.Site, rights []string) error {
	client, err := rlock.New(s.Limited(rights...))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	c := redisson.New(client)
	ctx, cancel := context.WithTimeout(s.Ctx, time.Minute)
	defer cancel()
	for _, name := range []string{"orders:s", "orders:p", "{orders:p}:timeout", "orders:l"} {
		s.Do("DEL", name)
	}
	sem, permits, latch := c.Semaphore("orders:s"), c.PermitSemaphore("orders:p"), c.CountDownLatch("orders:l")
	var one *redisson.Permit
	for _, step := range []func() error{
		func() error { _, err := sem.TrySetPermits(ctx, 1); return err },
		func() error { _, err := sem.DrainPermits(ctx); return err },
		func() error {
			return both(ctx, func(ctx context.Context) error { return sem.Acquire(ctx, 1) }, func() error { return sem.Release(ctx, 1) })
		},
		func() error { _, err := sem.AvailablePermits(ctx); return err },
		func() error { _, err := permits.TrySetPermits(ctx, 1); return err },
		func() error { _, err := permits.Acquire(ctx, time.Millisecond); return err },
		func() error { return permits.SetPermits(ctx, 2) },
		func() (err error) { one, err = permits.Acquire(ctx, 0); return err },
		func() error { _, err := permits.AcquiredPermits(ctx); return err },
		func() error { _, err := permits.UpdateLease(ctx, one.ID(), time.Minute); return err },
		func() error { return one.Release(ctx) },
		func() error { _, err := latch.TrySetCount(ctx, 1); return err },
		func() error { return both(ctx, latch.Await, func() error { return latch.CountDown(ctx) }) },
		func() error { _, err := latch.TrySetCount(ctx, 1); return err },
		func() error { _, err := latch.Delete(ctx); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// both waits, and does what ends the wait.
func both(ctx context.Context, wait func(ctx context.Context) error, then func() error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	done := testbed.Start(func() error { return wait(ctx) })
	if err := then(); err != nil { // nothing will come
		end()
		<-done
		return err
	}
	return <-done
}
