package rlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// Redis stands still for a while, and loses nothing: the answers are late, and those that a client has given up do not
// come. Each waiter keeps its place.
func TestAStallOfRedisKeepsTheOrderOfAFairLock(t *testing.T) {
	t.Parallel()
	pauses := []time.Duration{2500 * time.Millisecond, 3 * time.Second, 4 * time.Second}
	if !testing.Short() {
		pauses = append(pauses, 6*time.Second, 8*time.Second, 16*time.Second)
	}
	for _, pause := range pauses {
		for _, after := range []time.Duration{0, 300 * time.Millisecond, 1900 * time.Millisecond} {
			t.Run(pause.String()+" after "+after.String(), func(t *testing.T) {
				t.Parallel()
				s := at(t, redistest.Standalone(t, "--maxclients", "1000"))
				keepsOrder(t, s, pause, after)
			})
		}
	}
}

// keepsOrder has waiters of several clients join one after the other, and Redis pause so long after that.
func keepsOrder(t *testing.T, s *site, pause, after time.Duration) {
	const clients, each = 3, 4
	short := withLease(2 * time.Second)
	holder := s.client(short).NewFairLock(key)
	me := rlock.WithOwner(s.ctx, rlock.NewOwner())
	require.NoError(t, holder.Lock(me))
	var locks [clients]*rlock.Lock
	for i := range locks {
		locks[i] = s.client(short).NewFairLock(key)
	}
	var order, want []int // protected by the lock
	var waiters sync.WaitGroup
	for who := range clients * each {
		want = append(want, who)
		waiters.Go(func() {
			them := rlock.WithOwner(s.ctx, rlock.NewOwner())
			if !assert.NoError(t, locks[who%clients].Lock(them)) {
				return
			}
			order = append(order, who)
			time.Sleep(20 * time.Millisecond)
			_ = locks[who%clients].Unlock(them) // which may be confirmed late
		})
		require.Eventually(t, func() bool {
			queued, err := s.Client(t).Do(s.ctx, s.Client(t).B().Zcard().Key("rlock_queue:{"+key+"}").Build()).AsInt64()
			return err == nil && int(queued) == len(want)
		}, 10*time.Second, time.Millisecond)
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
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		for name, waits := range map[string]*testClient{"in the same client": here, "elsewhere": there} {
			me := w.caller()
			require.NoError(t, here.NewFairLock(key).Lock(me))
			ctx, called := &lateContext{Context: w.caller()}, false
			result := start(func() error {
				return waits.NewFairLock(key).Do(ctx, func(ctx context.Context) error {
					called = true
					return ctx.Err()
				})
			})
			require.True(t, pending(result))
			ctx.ended.Store(true)
			require.NoError(t, here.NewFairLock(key).Unlock(me))
			require.ErrorIs(t, <-result, context.Canceled, name)
			require.False(t, called, name)
			within(t, 0, time.Millisecond, func() { require.NoError(t, waits.NewFairLock(key).Do(w.caller(), nothing)) })
		}
		for _, p := range []*testClient{here, there} {
			assert.Zero(t, p.Stats().Held)
			assert.EqualValues(t, 1, p.Stats().Canceled)
		}
	})
}
