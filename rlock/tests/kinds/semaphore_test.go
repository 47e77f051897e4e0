package kinds_test

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
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests over all kinds cover a semaphore of one permit. These are the differences with
// several permits.

func TestASemaphoreHasAsManyHoldersAsPermits(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewSemaphore(testbed.Key, 3), s.NewClient().NewSemaphore(testbed.Key, 3)
		held := append(testbed.Permits(t, s.Ctx, here, 2), testbed.Permits(t, s.Ctx, there, 1)...)
		for _, lock := range []*rlock.Lock{here, there} {
			_, err := lock.Acquire(s.Ctx, rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			locked, err := lock.IsLocked(s.Ctx)
			require.NoError(t, err)
			assert.True(t, locked)
			ttl, err := lock.TTL(s.Ctx)
			require.NoError(t, err)
			assert.Positive(t, ttl)
		}
		require.NoError(t, held[0].Release(s.Ctx))
		locked, err := there.IsLocked(s.Ctx)
		require.NoError(t, err)
		assert.False(t, locked)
		ttl, err := there.TTL(s.Ctx)
		require.NoError(t, err)
		assert.Zero(t, ttl)
		held[0] = testbed.Permits(t, s.Ctx, there, 1)[0]
		for _, hold := range held {
			require.NoError(t, hold.Release(s.Ctx))
		}
	})
}

func TestAReleasedPermitIsGrantedToTheFirstInTheQueue(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const n = 3
		holder := w.NewClient().NewSemaphore(testbed.Key, n)
		held := testbed.Permits(t, w.Ctx, holder, n)
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 3 * n {
			lock := w.NewClient().NewSemaphore(testbed.Key, n)
			all.Go(func() {
				hold, err := lock.Acquire(w.Ctx)
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				assert.NoError(t, hold.Release(w.Ctx))
			})
			time.Sleep(10 * time.Millisecond)
		}
		for _, hold := range held { // one after the other, so that the grants have an order
			require.NoError(t, hold.Release(w.Ctx))
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
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				var inside, most, sections atomic.Int64
				var all sync.WaitGroup
				for range 4 {
					p := w.NewClient()
					p.Net.SetRoundTrip(500 * time.Microsecond)
					for range 3 {
						lock, me := p.NewSemaphore(testbed.Key, permits), w.Caller()
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		dead, alive := w.NewClient(), w.NewClient().NewSemaphore(testbed.Key, 2)
		lost := testbed.Permits(t, w.Ctx, dead.NewSemaphore(testbed.Key, 2), 1)[0]
		held := testbed.Permits(t, w.Ctx, alive, 1)[0]
		dead.Net.Rule(network.Silence)
		waiting := make(chan *rlock.Hold, 1)
		go func() {
			hold, err := alive.Acquire(w.Ctx)
			assert.NoError(t, err)
			waiting <- hold
		}()
		testbed.Within(t, 28*time.Second, 33*time.Second, func() { require.NoError(t, (<-waiting).Release(w.Ctx)) })
		require.ErrorIs(t, context.Cause(lost.Context()), rlock.ErrLost, "the loss is reported before another owner has the permit")
		require.NoError(t, context.Cause(held.Context()))
		require.NoError(t, held.Release(w.Ctx))
		dead.Net.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.Keys())
	})
}

// All but the first of its tickets are dropped when that claim ends, although others hold permits.
func TestAStoppedClientCostsASemaphoreOneClaim(t *testing.T) {
	for name, others := range map[string]func(*testbed.World, testbed.Locker){
		"no other caller":    func(*testbed.World, testbed.Locker) {},
		"others try as well": func(w *testbed.World, l testbed.Locker) { refusedUntil(w, l, 3*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				holder, stopped, alive, other := w.NewClient(), w.NewClient(), w.NewClient(), w.NewClient()
				held := testbed.Permits(t, w.Ctx, holder.NewSemaphore(testbed.Key, 2), 2)
				ctx, cancel := context.WithCancel(w.Ctx)
				defer cancel()
				for range 4 {
					go func() { _, _ = stopped.NewSemaphore(testbed.Key, 2).Acquire(ctx) }()
					synctest.Wait()
					time.Sleep(10 * time.Millisecond)
				}
				me := w.Caller()
				waits := testbed.Start(func() error { return alive.NewSemaphore(testbed.Key, 2).Lock(me) })
				require.True(t, testbed.Pending(waits))
				stopped.Net.Rule(network.Silence)
				var try sync.WaitGroup
				testbed.Within(t, 1500*time.Millisecond, 2500*time.Millisecond, func() {
					require.NoError(t, held[0].Release(w.Ctx))
					try.Go(func() { others(w, other.NewSemaphore(testbed.Key, 2)) })
					require.NoError(t, <-waits)
				})
				try.Wait()
				require.NoError(t, alive.NewSemaphore(testbed.Key, 2).Unlock(me))
				require.NoError(t, held[1].Release(w.Ctx))
			})
		})
	}
}

func TestAPermitWithALeaseOfItsOwnEndsForItsHolderAlone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewSemaphore(testbed.Key, 2)
		long := testbed.Permits(t, w.Ctx, lock, 1)[0]
		short, err := lock.Acquire(w.Ctx, rlock.WithLease(time.Second))
		require.NoError(t, err)
		ttl, err := lock.TTL(w.Ctx)
		require.NoError(t, err)
		assert.LessOrEqual(t, ttl, time.Second, "the earliest end")
		<-short.Context().Done()
		require.ErrorIs(t, context.Cause(short.Context()), rlock.ErrLost)
		next, err := lock.Acquire(w.Ctx)
		require.NoError(t, err)
		require.NoError(t, context.Cause(long.Context()))
		require.NoError(t, next.Release(w.Ctx))
		require.NoError(t, long.Release(w.Ctx))
		require.ErrorIs(t, short.Release(w.Ctx), rlock.ErrLost)
	})
}

func TestTheNumberOfPermitsMayChange(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		before, after := w.NewClient(), w.NewClient()
		held := testbed.Permits(t, w.Ctx, before.NewSemaphore(testbed.Key, 2), 2)
		held = append(held, testbed.Permits(t, w.Ctx, after.NewSemaphore(testbed.Key, 4), 2)...)
		_, err := after.NewSemaphore(testbed.Key, 4).Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		for _, hold := range held[:2] {
			require.NoError(t, hold.Release(w.Ctx))
		}
		_, err = before.NewSemaphore(testbed.Key, 2).Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired, "this client knows of two permits")
		for _, hold := range held[2:] {
			require.NoError(t, hold.Release(w.Ctx))
		}
		for name, err := range testbed.EveryMethod(w.Ctx, before.NewSemaphore(testbed.Key, 0)) {
			require.ErrorIs(t, err, rlock.ErrInvalidConfig, name)
		}
	})
}

func TestATryLockBesideWaitersThatWereServedTakesAPermitThatIsLeft(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock, other := w.NewClient().NewSemaphore(testbed.Key, 2), w.NewClient().NewSemaphore(testbed.Key, 2)
		held := testbed.Permits(t, w.Ctx, lock, 2)
		waiting := testbed.Start(func() error { return other.Lock(w.Ctx) })
		require.True(t, testbed.Pending(waiting))
		for _, hold := range held {
			require.NoError(t, hold.Release(w.Ctx))
		}
		require.NoError(t, <-waiting)
		require.NoError(t, testbed.Permits(t, w.Ctx, lock, 1)[0].Release(w.Ctx))
	})
}

// A client that knows of fewer permits than are held frees one, and a waiter knows of more.
func TestClientsThatDisagreeLeaveNoPermitUnused(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		few, many, more := w.NewClient().NewSemaphore(testbed.Key, 2), w.NewClient().NewSemaphore(testbed.Key, 4), w.NewClient().NewSemaphore(testbed.Key, 4)
		held := append(testbed.Permits(t, w.Ctx, few, 2), testbed.Permits(t, w.Ctx, many, 2)...)
		me := w.Caller()
		waiting := testbed.Start(func() error { return more.Lock(me) })
		require.True(t, testbed.Pending(waiting))
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, held[0].Release(w.Ctx))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, more.Unlock(me))
		for _, hold := range held[1:] {
			require.NoError(t, hold.Release(w.Ctx))
		}
		assert.Empty(t, w.Keys())
	})
}
