package queue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Fair locks: the order of the holders, and a queue that Redis has lost or that is none.

// A lateContext has ended, and those that wait for that have not heard it yet.
type lateContext struct {
	context.Context
	ended atomic.Bool
}

func (c *lateContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// A waiter whose context ends does not get the lock, though it was granted before the waiter has looked.
func TestAWaiterWhoseContextHasEndedIsNeverAHolder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient()
		for name, waits := range map[string]*testbed.Client{"in the same client": here, "elsewhere": there} {
			me := w.Caller()
			require.NoError(t, here.NewFairLock(testbed.Key).Lock(me))
			ctx, called := &lateContext{Context: w.Caller()}, false
			result := testbed.Waits(t, func() error {
				return waits.NewFairLock(testbed.Key).Do(ctx, func(ctx context.Context) error {
					called = true
					return ctx.Err()
				})
			})
			ctx.ended.Store(true)
			require.NoError(t, here.NewFairLock(testbed.Key).Unlock(me))
			require.ErrorIs(t, <-result, context.Canceled, name)
			require.False(t, called, name)
			testbed.Within(t, 0, time.Millisecond, func() { require.NoError(t, waits.NewFairLock(testbed.Key).Do(w.Caller(), testbed.Nothing)) })
		}
		for _, p := range []*testbed.Client{here, there} {
			assert.Zero(t, p.Stats().Held)
			assert.EqualValues(t, 1, p.Stats().Canceled)
		}
	})
}

// Redis stands still for a while, and loses nothing: the answers are late, and those that a client has given up do not
// come. Each waiter keeps its place.
func TestAStallOfRedisKeepsTheOrderOfAFairLock(t *testing.T) {
	t.Parallel()
	pauses := []time.Duration{2500 * time.Millisecond, 3 * time.Second, 4 * time.Second}
	if *testbed.Long {
		pauses = append(pauses, 6*time.Second, 8*time.Second, 16*time.Second)
	}
	for i, pause := range pauses {
		after := []time.Duration{0, 300 * time.Millisecond, 1900 * time.Millisecond}[i%3]
		t.Run(pause.String()+" after "+after.String(), func(t *testing.T) {
			t.Parallel()
			keepsOrder(t, testbed.At(t, redistest.Standalone(t, "--maxclients", "1000")), pause, after)
		})
	}
}

// keepsOrder has waiters of several clients join one after the other, and Redis pause so long after that.
func keepsOrder(t *testing.T, s *testbed.Site, pause, after time.Duration) {
	const clients, each = 3, 4
	short := testbed.WithLease(2 * time.Second)
	holder := s.NewClient(short).NewFairLock(testbed.Key)
	me := rlock.WithOwner(s.Ctx, rlock.NewOwner())
	require.NoError(t, holder.Lock(me))
	var locks [clients]*rlock.Lock
	for i := range locks {
		locks[i] = s.NewClient(short).NewFairLock(testbed.Key)
	}
	var order, want []int // protected by the lock
	var waiters sync.WaitGroup
	for who := range clients * each {
		want = append(want, who)
		waiters.Go(func() {
			them := rlock.WithOwner(s.Ctx, rlock.NewOwner())
			if !assert.NoError(t, locks[who%clients].Lock(them)) {
				return
			}
			order = append(order, who)
			time.Sleep(20 * time.Millisecond)
			_ = locks[who%clients].Unlock(them) // which may be confirmed late
		})
		require.Eventually(t, func() bool {
			queued, err := s.Client(t).Do(s.Ctx, s.Client(t).B().Zcard().Key("rlock_queue:{"+testbed.Key+"}").Build()).AsInt64()
			return err == nil && int(queued) == len(want)
		}, testbed.Hang, time.Millisecond)
	}
	time.Sleep(after)
	released := make(chan error, 1)
	s.Pause()
	go func() { released <- holder.Unlock(me) }()
	time.Sleep(pause)
	s.Resume()
	<-released
	waiters.Wait()
	assert.Equal(t, want, order)
}

func TestAFairLockOutlivesAFailover(t *testing.T) {
	t.Parallel()
	testbed.Replicated(t, func(t *testing.T, s *testbed.Site) {
		c := s.NewCrowd(3, 3, testbed.WithLease(3*time.Second))
		c.GoesOn(100)
		s.Failover(testbed.Key)
		c.GoesOn(300)
		c.End()
	})
}
