package losses_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// The lock of a holder that works on is taken over after the grace, on every sort of server and for
// each kind, in front of one that waits; its context ends before the call returns.
func TestALockIsTakenOver(t *testing.T) {
	kinds := []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}
	redistest.Over(t, kinds, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there, third := s.NewClient(), s.NewClient(), s.NewClient()
		for kind, held := range testbed.LocksOf() {
			t.Run(kind, func(t *testing.T) {
				rival, last := testbed.RivalOf(kind)(there), testbed.RivalOf(kind)(third)
				hold := testbed.Take(t, s.Ctx, held(here))
				var served atomic.Bool
				waits := testbed.Start(func() error {
					return last.Do(s.Ctx, func(context.Context) error { served.Store(true); return nil })
				})
				require.Eventually(t, func() bool {
					shown, err := inspect.Of(third).Lock(s.Ctx, testbed.Key)
					return err == nil && len(shown.Queue) == 1
				}, testbed.Hang, time.Millisecond)
				wanted := hold.Wanted()
				const grace = 300 * time.Millisecond
				next, err := rival.Acquire(s.Ctx, rlock.WithTakeover(grace))
				require.NoError(t, err)
				require.Error(t, hold.Context().Err())
				<-wanted
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrTakenOver)
				require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrLost)
				assert.False(t, served.Load(), "nobody else has the lock in between")
				if kind == "fenced" {
					was, err := hold.Token()
					require.NoError(t, err)
					token, err := next.Token()
					require.NoError(t, err)
					assert.Greater(t, token, was)
				}
				require.NoError(t, next.Release(s.Ctx))
				require.NoError(t, <-waits)
			})
		}
	})
}

// A holder that gives way when it is told has released the lock, in less than the grace.
func TestAHolderGivesWayToATakeover(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there := s.NewClient(), s.NewClient()
		began := testbed.Start(func() error {
			return here.NewLock(testbed.Key).Do(s.Ctx, func(ctx context.Context) error {
				<-rlock.Wanted(ctx)
				return nil
			})
		})
		require.Eventually(t, func() bool { locked, err := there.NewLock(testbed.Key).IsLocked(s.Ctx); return err == nil && locked }, testbed.Hang, time.Millisecond)
		next, err := there.NewLock(testbed.Key).Acquire(s.Ctx, rlock.WithTakeover(time.Hour))
		require.NoError(t, err)
		require.NoError(t, <-began)
		require.NoError(t, next.Release(s.Ctx))
	})
}

// A holder of Redisson, which is not told, loses the lock by force.
func TestALockOfRedissonIsTakenOverByForce(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		const redisson = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"
		s.Number("HSET", testbed.Key, redisson, "1")
		s.Number("PEXPIRE", testbed.Key, "60000")
		next, err := s.NewClient().NewLock(testbed.Key).Acquire(s.Ctx, rlock.WithTakeover(100*time.Millisecond))
		require.NoError(t, err)
		owners, err := s.Do("HKEYS", testbed.Key).AsStrSlice()
		require.NoError(t, err)
		assert.Len(t, owners, 1)
		assert.NotContains(t, owners, redisson)
		require.NoError(t, next.Release(s.Ctx))
	})
}
