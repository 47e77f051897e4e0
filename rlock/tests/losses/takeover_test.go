package losses_test

import (
	"context"
	"errors"
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

// An operator lets one waiter through, the last of the queue: its call gets the lock, and the hold
// ends as by a takeover. Nobody else has the lock in between.
func TestAnOperatorLetsOneWaiterThrough(t *testing.T) {
	kinds := []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}
	redistest.Over(t, kinds, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there, third, operator := s.NewClient(), s.NewClient(), s.NewClient(), inspect.Of(s.NewClient())
		for kind, held := range testbed.LocksOf() {
			t.Run(kind, func(t *testing.T) {
				rival, last := testbed.RivalOf(kind)(there), testbed.RivalOf(kind)(third)
				hold := testbed.Take(t, s.Ctx, held(here))
				var served atomic.Bool
				others := testbed.Start(func() error {
					return last.Do(s.Ctx, func(context.Context) error { served.Store(true); return nil })
				})
				awaitWaiters(t, s.Ctx, operator, testbed.Key, 1)
				let := make(chan *rlock.Hold, 1)
				waits := testbed.Start(func() error {
					got, err := rival.Acquire(s.Ctx, rlock.WithNote("mine"))
					let <- got
					return err
				})
				shown := awaitWaiters(t, s.Ctx, operator, testbed.Key, 2)
				require.Equal(t, "mine", shown.Queue[1].Note)
				require.NoError(t, operator.LetThrough(s.Ctx, shown, shown.Queue[1], 0))
				require.NoError(t, <-waits)
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrTakenOver)
				require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrLost)
				assert.False(t, served.Load(), "nobody else has the lock in between")
				require.NoError(t, (<-let).Release(s.Ctx))
				require.NoError(t, <-others)
			})
		}
	})
}

// awaitWaiters returns what is shown of the lock once so many wait.
func awaitWaiters(t *testing.T, ctx context.Context, i inspect.Inspector, name string, n int) (shown inspect.Lock) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		shown, err = i.Lock(ctx, name)
		return err == nil && len(shown.Queue) == n
	}, testbed.Hang, time.Millisecond)
	return shown
}

// What an operator cannot let through is refused, and changes nothing.
func TestWhoCannotBeLetThrough(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there, operator := s.NewClient(), s.NewClient(), inspect.Of(s.NewClient())
		hold := testbed.Take(t, s.Ctx, here.NewReadWriteLock(testbed.Key).Write())
		wait := func(l *rlock.Lock) (leave func(), shown inspect.Lock) {
			ctx, cancel := context.WithCancel(s.Ctx)
			waits := testbed.Start(func() error { _, err := l.Acquire(ctx); return err })
			shown = awaitWaiters(t, s.Ctx, operator, testbed.Key, 1)
			return func() {
				cancel()
				require.ErrorIs(t, <-waits, context.Canceled)
				awaitWaiters(t, s.Ctx, operator, testbed.Key, 0)
			}, shown
		}
		leave, shown := wait(there.NewReadWriteLock(testbed.Key).Read())
		require.ErrorIs(t, operator.LetThrough(s.Ctx, shown, shown.Queue[0], 0), errors.ErrUnsupported)
		shared := shown.Queue[0]
		shared.Shared = false
		require.ErrorIs(t, operator.LetThrough(s.Ctx, shown, shared, 0), errors.ErrUnsupported, "the script looks as well")
		leave()
		leave, shown = wait(there.NewReadWriteLock(testbed.Key).Write())
		other := shown
		other.Holders = []inspect.Holder{{Owner: redisson}}
		require.ErrorContains(t, operator.LetThrough(s.Ctx, other, shown.Queue[0], 0), "no holder that was shown")
		leave()
		require.ErrorContains(t, operator.LetThrough(s.Ctx, shown, shown.Queue[0], 0), "does not wait any more")
		leave, shown = wait(there.NewReadWriteLock(testbed.Key).Write())
		s.Number("ZADD", "rlock_queue:{"+testbed.Key+"}rw", "9", "x"+deaf)
		require.ErrorContains(t, operator.LetThrough(s.Ctx, shown, inspect.Waiter{Owner: deaf}, 0), "does not listen")
		s.Number("ZREM", "rlock_queue:{"+testbed.Key+"}rw", "x"+deaf)
		leave()
		require.NoError(t, hold.Context().Err())
		require.NoError(t, hold.Release(s.Ctx))
	})
}

const (
	redisson = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7" // an owner of Redisson
	deaf     = "4ea0a2a4-6f6f-8f7c-9d5c-2d8a3f9f1b11:7" // a ticket whose client does not listen
)

// A holder of Redisson, which is not told, loses the lock by force once the grace is over.
func TestOneIsLetThroughPastRedisson(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		operator := inspect.Of(s.NewClient())
		s.Number("HSET", testbed.Key, redisson, "1")
		s.Number("PEXPIRE", testbed.Key, "60000")
		waits := testbed.Start(func() error {
			return s.NewClient().NewLock(testbed.Key).Do(s.Ctx, func(context.Context) error { return nil })
		})
		shown := awaitWaiters(t, s.Ctx, operator, testbed.Key, 1)
		require.NoError(t, operator.LetThrough(s.Ctx, shown, shown.Queue[0], 100*time.Millisecond))
		require.NoError(t, <-waits)
		assert.Zero(t, s.Number("HEXISTS", testbed.Key, redisson))
	})
}
