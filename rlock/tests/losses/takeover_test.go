package losses_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// claim is the least time after which a holder that does not answer is taken out by force.
const claim = 2 * time.Second

// The lock of a holder that works on is taken over after the grace, or by the call that an operator
// lets through, on every sort of server and for each kind, before a call that waits already. The
// holder's context ends before the call returns, unless the machine was so slow that the holder was
// taken out by force. On a machine that slow the next holder may lose its claim, and the call that
// waited may have the lock.
func TestALockIsTakenOver(t *testing.T) {
	redistest.Over(t, testbed.EveryServer, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there, third, operator := s.NewClient(), s.NewClient(), s.NewClient(), inspect.Of(s.NewClient())
		for kind, held := range testbed.LocksOf() {
			t.Run(kind, func(t *testing.T) {
				rival, last := testbed.RivalOf(kind)(there), testbed.RivalOf(kind)(third)
				for _, lets := range []bool{false, true} {
					hold := testbed.Take(t, s.Ctx, held(here))
					var entered atomic.Bool
					waits := testbed.Start(func() error {
						return last.Do(s.Ctx, func(context.Context) error { entered.Store(true); return nil })
					})
					awaitWaiters(t, s.Ctx, operator, 1)
					wanted := hold.Wanted()
					options := []rlock.AcquireOption{rlock.WithNote("mine")}
					if !lets {
						options = append(options, rlock.WithTakeover(100*time.Millisecond))
					}
					taken, begin := make(chan *rlock.Hold, 1), time.Now()
					takes := testbed.Start(func() error {
						got, err := rival.Acquire(s.Ctx, options...)
						taken <- got
						return err
					})
					if lets {
						shown := awaitWaiters(t, s.Ctx, operator, 2)
						require.Equal(t, "mine", shown.Queue[1].Note)
						require.NoError(t, operator.LetThrough(s.Ctx, shown, shown.Queue[1], 0))
					}
					require.NoError(t, redistest.Await(t, takes))
					next := <-taken
					if time.Since(begin) < claim {
						require.Error(t, hold.Context().Err())
						require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrTakenOver)
						<-wanted
					}
					<-hold.Context().Done()
					require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrLost)
					if entered.Load() {
						require.ErrorIs(t, context.Cause(next.Context()), rlock.ErrLost, "no other call has the lock in between")
					}
					if kind == "fenced" {
						assert.Greater(t, testbed.TokenOf(t, next), testbed.TokenOf(t, hold))
					}
					if err := next.Release(s.Ctx); !errors.Is(err, rlock.ErrLost) {
						require.NoError(t, err)
					}
					require.NoError(t, redistest.Await(t, waits))
				}
			})
		}
	})
}

// A holder of Redisson, which is not told, loses the lock by force once the grace is over.
func TestALockOfRedissonIsTakenOverByForce(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		operator, lock := inspect.Of(s.NewClient()), s.NewLock()
		for _, options := range [][]rlock.AcquireOption{{rlock.WithTakeover(100 * time.Millisecond)}, nil} {
			s.Set(testbed.Key, testbed.ForeignOwner, time.Minute)
			takes := testbed.Start(func() error { return lock.Do(s.Ctx, testbed.Nothing, options...) })
			if options == nil {
				shown := awaitWaiters(t, s.Ctx, operator, 1)
				require.NoError(t, operator.LetThrough(s.Ctx, shown, shown.Queue[0], 100*time.Millisecond))
				assert.Zero(t, s.Number("HEXISTS", testbed.Key, testbed.ForeignOwner), "it returns when the caller has the lock")
			}
			require.NoError(t, redistest.Await(t, takes))
			assert.Zero(t, s.Number("HEXISTS", testbed.Key, testbed.ForeignOwner))
		}
	})
}

// awaitWaiters waits until n callers wait for the lock, and returns its state.
func awaitWaiters(t *testing.T, ctx context.Context, i inspect.Inspector, n int) (shown inspect.Lock) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		shown, err = i.Lock(ctx, testbed.Key)
		return err == nil && len(shown.Queue) == n
	}, testbed.Hang, time.Millisecond)
	return shown
}

// A request to let a caller through that cannot be met is refused, and changes nothing.
func TestWhoCannotBeLetThrough(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there, operator := s.NewClient(), s.NewClient(), inspect.Of(s.NewClient())
		hold := testbed.Take(t, s.Ctx, here.NewReadWriteLock(testbed.Key).Write())
		wait := func(l *rlock.Lock) (leave func(left int), shown inspect.Lock) {
			ctx, cancel := context.WithCancel(s.Ctx)
			waits := testbed.Start(func() error { _, err := l.Acquire(ctx); return err })
			shown = awaitWaiters(t, s.Ctx, operator, 1)
			return func(left int) {
				cancel()
				require.ErrorIs(t, <-waits, context.Canceled)
				awaitWaiters(t, s.Ctx, operator, left)
			}, shown
		}
		leave, shown := wait(there.NewReadWriteLock(testbed.Key).Read())
		require.ErrorIs(t, operator.LetThrough(s.Ctx, shown, shown.Queue[0], 0), errors.ErrUnsupported)
		shared := shown.Queue[0]
		shared.Shared = false
		require.ErrorIs(t, operator.LetThrough(s.Ctx, shown, shared, 0), errors.ErrUnsupported, "the script looks as well")
		leave(0)
		leave, shown = wait(there.NewReadWriteLock(testbed.Key).Write())
		other := shown
		other.Holders = []inspect.Holder{{Owner: testbed.ForeignOwner}}
		require.ErrorContains(t, operator.LetThrough(s.Ctx, other, shown.Queue[0], 0), "no holder that was shown")
		leave(0)
		require.ErrorContains(t, operator.LetThrough(s.Ctx, shown, shown.Queue[0], 0), "does not wait any more")
		leave, shown = wait(there.NewReadWriteLock(testbed.Key).Write())
		s.Number("ZADD", "rlock_queue:{"+testbed.Key+"}rw", "9", "x"+deaf)
		require.ErrorContains(t, operator.LetThrough(s.Ctx, shown, inspect.Waiter{Owner: deaf}, 0), "does not listen")
		s.Number("ZREM", "rlock_queue:{"+testbed.Key+"}rw", "x"+deaf)
		ctx, queues := testbed.Queueing(s.Ctx)
		next := testbed.Start(func() error { return testbed.ErrorOf(there.NewReadWriteLock(testbed.Key).Write().Acquire(ctx)) })
		<-queues
		leave(1) // the next caller of that client has the place
		require.ErrorContains(t, operator.LetThrough(s.Ctx, shown, shown.Queue[0], 0), "does not wait any more")
		require.NoError(t, hold.Context().Err())
		require.NoError(t, hold.Release(s.Ctx))
		require.NoError(t, redistest.Await(t, next))
	})
}

// An operator who loses the right to look while the holder has its grace learns it at once.
func TestAnOperatorLosesTheRightToLook(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		operator, there := inspect.Of(w.NewClient().Client), w.NewClient()
		hold := testbed.Take(t, w.Ctx, w.NewClient().NewLock(testbed.Key))
		takes := testbed.Start(func() error { return there.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing) })
		synctest.Wait()
		shown, err := operator.Lock(w.Ctx, testbed.Key)
		require.NoError(t, err)
		let := testbed.Start(func() error { return operator.LetThrough(w.Ctx, shown, shown.Queue[0], time.Minute) })
		time.Sleep(time.Second)
		w.Answer(func(string, ...string) string { return "NOPERM no permission" })
		require.ErrorIs(t, <-let, rlock.ErrNoPermission)
		w.Answer(nil)
		require.NoError(t, hold.Release(w.Ctx))
		require.NoError(t, <-takes)
	})
}

const deaf = "4ea0a2a4-6f6f-8f7c-9d5c-2d8a3f9f1b11:7" // a ticket whose client does not listen
