package redisson_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

func TestSynchronizersAreInspected(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		client := must(rlock.New(rlock.Config{Redis: s.Options(), Prefix: strings.ReplaceAll(t.Name(), "/", ":") + ":"}))
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		c, ctx := redisson.New(client), t.Context()

		none := must(c.Inspect(ctx, "none"))
		assert.False(t, none.Present)
		assert.Empty(t, none.Kind)

		p := c.PermitSemaphore("p{a}")
		require.NoError(t, p.SetPermits(ctx, 5))
		number := must(c.Inspect(ctx, "p{a}"))
		assert.Empty(t, number.Kind, "it may be a latch")
		assert.EqualValues(t, 5, number.Number)
		assert.Equal(t, rlock.NoExpiry, number.Lease)
		one := must(p.Acquire(ctx, time.Hour))
		two := must(p.Acquire(ctx, 0))
		require.True(t, must(p.UpdateLease(ctx, two.ID(), 0)))
		permits := must(c.Inspect(ctx, "p{a}"))
		assert.Equal(t, redisson.KindPermitSemaphore, permits.Kind)
		assert.EqualValues(t, 3, permits.Number)
		assert.Equal(t, 2, permits.TakenCount)
		require.Len(t, permits.Taken, 2)
		assert.Equal(t, one.ID(), permits.Taken[0].ID)
		assert.InDelta(t, time.Hour, permits.Taken[0].Lease, float64(time.Minute))
		assert.Equal(t, two.ID(), permits.Taken[1].ID)
		assert.Equal(t, rlock.NoExpiry, permits.Taken[1].Lease)
		if s.Kind != redistest.KindEmbedded {
			require.NotNil(t, permits.Taken[0].Process)
			assert.NotZero(t, permits.Taken[0].Process.PID)
		}

		require.True(t, must(c.CountDownLatch("l").TrySetCount(ctx, 3)))
		opened, acquired := make(chan error, 1), make(chan error, 1)
		go func() { opened <- c.CountDownLatch("l").Await(ctx) }()
		go func() { acquired <- c.Semaphore("s").Acquire(ctx, 1) }()
		require.Eventually(t, func() bool {
			latch, err := c.Inspect(ctx, "l")
			semaphore, err2 := c.Inspect(ctx, "s")
			return err == nil && err2 == nil && latch.Kind == redisson.KindCountDownLatch && latch.Number == 3 && latch.Listening == 1 &&
				semaphore.Kind == redisson.KindSemaphore && !semaphore.Present
		}, redistest.Hang, time.Millisecond)
		for pattern, want := range map[string][]string{"": {"l", "p{a}", "s"}, "p*": {"p{a}"}, "[ls]": {"l", "s"}} {
			names := must(c.Names(ctx, pattern))
			assert.Equal(t, want, names, pattern)
		}
		must(c.CountDownLatch("l").Delete(ctx))
		require.NoError(t, c.Semaphore("s").Release(ctx, 1))
		require.NoError(t, <-opened)
		require.NoError(t, <-acquired)

		require.NoError(t, client.NewLock("lock").Lock(ctx))
		_, err := c.Inspect(ctx, "lock")
		require.ErrorIs(t, err, rlock.ErrWrongType)
		require.NoError(t, client.NewLock("lock").Unlock(ctx))
	})
}
