package rlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests over all kinds cover a semaphore of one permit. These are the differences with
// several permits.

// permits takes n permits, each with a handle.
func permits(t *testing.T, ctx context.Context, lock *rlock.Lock, n int) (holds []*rlock.Hold) {
	t.Helper()
	for range n {
		hold, err := lock.Acquire(ctx, rlock.WithWait(0))
		require.NoError(t, err)
		holds = append(holds, hold)
	}
	return holds
}

func TestASemaphoreHasAsManyHoldersAsPermits(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client().NewSemaphore(key, 3), s.client().NewSemaphore(key, 3)
		held := append(permits(t, s.ctx, here, 2), permits(t, s.ctx, there, 1)...)
		for _, lock := range []*rlock.Lock{here, there} {
			_, err := lock.Acquire(s.ctx, rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			locked, err := lock.IsLocked(s.ctx)
			require.NoError(t, err)
			assert.True(t, locked)
			ttl, err := lock.TTL(s.ctx)
			require.NoError(t, err)
			assert.Positive(t, ttl)
		}
		require.NoError(t, held[0].Release(s.ctx))
		locked, err := there.IsLocked(s.ctx)
		require.NoError(t, err)
		assert.False(t, locked)
		ttl, err := there.TTL(s.ctx)
		require.NoError(t, err)
		assert.Zero(t, ttl)
		held[0] = permits(t, s.ctx, there, 1)[0]
		for _, hold := range held {
			require.NoError(t, hold.Release(s.ctx))
		}
	})
}

func TestAReleasedPermitIsGrantedToTheFirstInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 3
		holder := w.client().NewSemaphore(key, n)
		held := permits(t, w.ctx, holder, n)
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 3 * n {
			lock := w.client().NewSemaphore(key, n)
			all.Go(func() {
				hold, err := lock.Acquire(w.ctx)
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				assert.NoError(t, hold.Release(w.ctx))
			})
			time.Sleep(10 * time.Millisecond)
		}
		for _, hold := range held { // one after the other, so that the grants have an order
			require.NoError(t, hold.Release(w.ctx))
			time.Sleep(100 * time.Millisecond)
		}
		begin := time.Now()
		all.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, order)
		assert.Less(t, time.Since(begin), 3*time.Second, "a permit is idle")
		assert.Empty(t, w.Keys())
	})
}

func TestTheHoldersNeverExceedThePermits(t *testing.T) {
	for _, permits := range []int{2, 5} {
		t.Run(fmt.Sprint(permits), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var inside, most, sections atomic.Int64
				var all sync.WaitGroup
				for range 4 {
					p := w.client()
					p.net.SetRoundTrip(500 * time.Microsecond)
					for range 3 {
						lock, me := p.NewSemaphore(key, permits), w.caller()
						all.Go(func() {
							for range 40 {
								assert.NoError(t, lock.Do(me, func(ctx context.Context) error {
									most.Store(max(most.Load(), inside.Add(1)))
									time.Sleep(time.Millisecond)
									inside.Add(-1)
									sections.Add(1)
									return lock.Do(ctx, func(context.Context) error { return nil }) // a nested level
								}))
							}
						})
					}
				}
				all.Wait()
				assert.EqualValues(t, permits, most.Load())
				assert.EqualValues(t, 4*3*40, sections.Load())
				assert.Empty(t, w.Keys())
			})
		})
	}
}

func TestAPermitOfADeadHolderIsFreeWhenItsLeaseEndsAndOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dead, alive := w.client(), w.client().NewSemaphore(key, 2)
		lost := permits(t, w.ctx, dead.NewSemaphore(key, 2), 1)[0]
		held := permits(t, w.ctx, alive, 1)[0]
		dead.net.Rule(network.Silence)
		waiting := make(chan *rlock.Hold, 1)
		go func() {
			hold, err := alive.Acquire(w.ctx)
			assert.NoError(t, err)
			waiting <- hold
		}()
		within(t, 28*time.Second, 33*time.Second, func() { require.NoError(t, (<-waiting).Release(w.ctx)) })
		require.ErrorIs(t, context.Cause(lost.Context()), rlock.ErrLost, "the loss is reported before another owner has the permit")
		require.NoError(t, context.Cause(held.Context()))
		require.NoError(t, held.Release(w.ctx))
		dead.net.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.Keys())
	})
}

// All but the first of its tickets are dropped when that claim ends, although others hold permits.
func TestAStoppedClientCostsASemaphoreOneClaim(t *testing.T) {
	for name, others := range map[string]func(*world, locker){
		"no other caller":    func(*world, locker) {},
		"others try as well": func(w *world, l locker) { w.refusedUntil(l, 3*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				holder, stopped, alive, other := w.client(), w.client(), w.client(), w.client()
				held := permits(t, w.ctx, holder.NewSemaphore(key, 2), 2)
				ctx, cancel := context.WithCancel(w.ctx)
				defer cancel()
				for range 4 {
					go func() { _, _ = stopped.NewSemaphore(key, 2).Acquire(ctx) }()
					synctest.Wait()
					time.Sleep(10 * time.Millisecond)
				}
				me := w.caller()
				waits := start(func() error { return alive.NewSemaphore(key, 2).Lock(me) })
				require.True(t, pending(waits))
				stopped.net.Rule(network.Silence)
				var try sync.WaitGroup
				within(t, 1500*time.Millisecond, 2500*time.Millisecond, func() {
					require.NoError(t, held[0].Release(w.ctx))
					try.Go(func() { others(w, other.NewSemaphore(key, 2)) })
					require.NoError(t, <-waits)
				})
				try.Wait()
				require.NoError(t, alive.NewSemaphore(key, 2).Unlock(me))
				require.NoError(t, held[1].Release(w.ctx))
			})
		})
	}
}

func TestAPermitWithALeaseOfItsOwnEndsForItsHolderAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewSemaphore(key, 2)
		long := permits(t, w.ctx, lock, 1)[0]
		short, err := lock.Acquire(w.ctx, rlock.WithLease(time.Second))
		require.NoError(t, err)
		ttl, err := lock.TTL(w.ctx)
		require.NoError(t, err)
		assert.LessOrEqual(t, ttl, time.Second, "the earliest end")
		<-short.Context().Done()
		require.ErrorIs(t, context.Cause(short.Context()), rlock.ErrLost)
		next, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, context.Cause(long.Context()))
		require.NoError(t, next.Release(w.ctx))
		require.NoError(t, long.Release(w.ctx))
		require.ErrorIs(t, short.Release(w.ctx), rlock.ErrLost)
	})
}

func TestTheNumberOfPermitsMayChange(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		before, after := w.client(), w.client()
		held := permits(t, w.ctx, before.NewSemaphore(key, 2), 2)
		held = append(held, permits(t, w.ctx, after.NewSemaphore(key, 4), 2)...)
		_, err := after.NewSemaphore(key, 4).Acquire(w.ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		for _, hold := range held[:2] {
			require.NoError(t, hold.Release(w.ctx))
		}
		_, err = before.NewSemaphore(key, 2).Acquire(w.ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired, "this client knows of two permits")
		for _, hold := range held[2:] {
			require.NoError(t, hold.Release(w.ctx))
		}
		for name, err := range everyMethod(w.ctx, before.NewSemaphore(key, 0)) {
			require.ErrorIs(t, err, rlock.ErrInvalidConfig, name)
		}
	})
}

func TestATryLockBesideWaitersThatWereServedTakesAPermitThatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock, other := w.client().NewSemaphore(key, 2), w.client().NewSemaphore(key, 2)
		held := permits(t, w.ctx, lock, 2)
		waiting := start(func() error { return other.Lock(w.ctx) })
		require.True(t, pending(waiting))
		for _, hold := range held {
			require.NoError(t, hold.Release(w.ctx))
		}
		require.NoError(t, <-waiting)
		require.NoError(t, permits(t, w.ctx, lock, 1)[0].Release(w.ctx))
	})
}

// A client that knows of fewer permits than are held frees one, and a waiter knows of more.
func TestClientsThatDisagreeLeaveNoPermitUnused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		few, many, more := w.client().NewSemaphore(key, 2), w.client().NewSemaphore(key, 4), w.client().NewSemaphore(key, 4)
		held := append(permits(t, w.ctx, few, 2), permits(t, w.ctx, many, 2)...)
		me := w.caller()
		waiting := start(func() error { return more.Lock(me) })
		require.True(t, pending(waiting))
		within(t, 0, 0, func() {
			require.NoError(t, held[0].Release(w.ctx))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, more.Unlock(me))
		for _, hold := range held[1:] {
			require.NoError(t, hold.Release(w.ctx))
		}
		assert.Empty(t, w.Keys())
	})
}
