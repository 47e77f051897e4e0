// Package queue_test is about the order of owners: the queue in Redis and the line inside a
// process, and turns with clients that are not ours.
package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// A lateContext has ended, and the goroutines that wait for its end have not been woken yet.
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

// A waiter whose context ends does not get the lock, even if the grant came before the waiter was
// woken.
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

// Foreign clients are guests, which only poll and cannot be counted, and subscribers. Package
// internal/redisson has the real Redisson.

func TestAGuestThatOnlyPollsHasATurnEveryFewSeconds(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.EachBubble(t, map[string]int{"a client, met before": 1, "three clients": 3}, func(t *testing.T, w *testbed.World, clients int) {
		met := clients == 1
		f := w.NewGuest()
		if met {
			f.Take()
		}
		end := time.Now().Add(5 * time.Second)
		var crowds []func() int
		for range clients {
			crowds = append(crowds, w.NewClient(func(config *rlock.Config) { config.Advanced.RedissonPolls = rlock.RedissonPollsAlways }).Crowd(4, w, end))
		}
		time.Sleep(10 * time.Millisecond)
		if met {
			f.Free()
		}
		for time.Now().Before(end) {
			assert.Less(t, f.Take(), 3*time.Second)
			f.Sections++
			time.Sleep(testbed.Section)
			f.Free()
		}
		for _, ours := range crowds {
			assert.Positive(t, ours())
		}
		assert.Greater(t, f.Sections, 1)
	})
}

// A subscriber has its share of the sections beside clients whose callers always want the lock.
func TestASubscriberHasItsShare(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	type contest struct {
		clients, callers int
		least, most      float64 // of all sections
		lateness         func() time.Duration
	}
	testbed.EachBubble(t, map[string]contest{
		"beside a crowd":            {1, 4, 1. / 4, 3. / 4, testbed.Punctual},
		"late now and then":         {1, 4, 1. / 4, 1, lateEvery51()},
		"beside two that alternate": {2, 1, 1. / 4, 3. / 4, testbed.Punctual},
		"beside many":               {8, 1, 1. / 17, 1. / 5, testbed.Punctual},
	}, func(t *testing.T, w *testbed.World, c contest) {
		end := time.Now().Add(2 * time.Second)
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		var crowds []func() int
		for range c.clients {
			crowds = append(crowds, w.NewClient().Crowd(c.callers, w, end))
		}
		time.Sleep(20 * time.Millisecond)
		f.Contend(end, c.lateness)
		all := f.Sections
		for _, sections := range crowds {
			all += sections()
		}
		t.Logf("%d of %d sections", f.Sections, all)
		assert.Greater(t, float64(f.Sections), c.least*float64(all))
		assert.Less(t, float64(f.Sections), c.most*float64(all))
	})
}

// lateEvery51 returns a lateness of 3 ms once in 51 times, for which the head of the queue does not
// wait when it lets others pass; else of 1 ms, which is late only if the head lets no other pass.
func lateEvery51() func() time.Duration {
	turn := 0
	return func() time.Duration {
		if turn++; turn%51 == 0 {
			return 3 * time.Millisecond
		}
		return time.Millisecond
	}
}

func TestOthersThatNeverComeCostLittle(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1") // listens, and does not contend
		began := time.Now()
		end := began.Add(4 * time.Second)
		ours := w.NewClient().Crowd(4, w, end)()
		lost := time.Since(began) - time.Duration(ours)*testbed.Section
		t.Logf("%d sections, %v lost", ours, lost)
		assert.Less(t, lost, 350*time.Millisecond, "turns of 10, 20, 40, 80 and 140 ms, then a seventeenth of the time")
		require.Positive(t, ours)
	})
}

// A user without HMGET cannot tell when a window of foreign clients ends: a step goes on as if
// there was none. This is also about the Lua of the embedded server, gopher-lua 1.1.1: in "x = not
// a and b" x keeps its old value if a is true.
func TestAWindowThatCannotBeReadIsNone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		held := testbed.Take(t, w.Ctx, w.NewClient().NewLock(testbed.Key))
		waiter := w.NewClient().NewLock(testbed.Key)
		next := testbed.Start(func() error { return waiter.Do(w.Caller(), testbed.Nothing) })
		synctest.Wait()
		foreign := w.NewSubscriber()
		defer foreign.Close()
		foreign.Subscribe(testbed.Channel)
		go func() {
			for range foreign.Messages() {
			}
		}()
		_, err := w.ZAdd("rlock_queue:{"+testbed.Key+"}", 1, "?")
		require.NoError(t, err)
		refused := false
		w.Answer(func(command string, _ ...string) string {
			if command == "hmget" {
				refused = true
				return "NOPERM this user has no permissions to run the 'hmget' command"
			}
			return ""
		})
		require.NoError(t, held.Release(w.Ctx))
		testbed.Succeed(t, next)
		require.True(t, refused)
	})
}

// The calls of a large tenant, of two processes, are half of the grants while a small one has calls
// in the queue, and a third tenant with one call waits for one turn of the small and two of the
// large one. Without lines the first fifty grants are the large tenant's.
func TestEachLineHasItsTurn(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient()
		for name, lock := range map[string]func(*testbed.Client) *rlock.Lock{
			"fair":      func(c *testbed.Client) *rlock.Lock { return c.NewFairLock("lines") },
			"semaphore": func(c *testbed.Client) *rlock.Lock { return c.NewSemaphore("lines", 1) },
		} {
			var mu sync.Mutex
			var order []string
			var all sync.WaitGroup
			add := func(tenant string, calls int) {
				for i := range calls {
					all.Go(func() {
						assert.NoError(t, lock([]*testbed.Client{here, there}[i%2]).Do(w.Caller(), func(context.Context) error {
							mu.Lock()
							order = append(order, tenant)
							mu.Unlock()
							time.Sleep(50 * time.Millisecond)
							return nil
						}, rlock.WithLine(tenant)))
					})
				}
				synctest.Wait()
				time.Sleep(time.Millisecond)
			}
			add("large", 50)
			add("small", 10)
			add("one", 1)
			all.Wait()
			require.Len(t, order, 61, name)
			assert.Contains(t, order[1:5], "one", name)
			share := map[string]int{}
			for _, tenant := range order[1:23] { // one of the large tenant ran before the others came
				share[tenant]++
			}
			assert.Equal(t, map[string]int{"large": 11, "small": 10, "one": 1}, share, "%s: %v", name, order)
		}
		for _, lock := range []*rlock.Lock{here.NewLock("l"), here.NewFencedLock("l"), here.NewReadWriteLock("l").Read(), here.NewReadWriteLock("l").Write(), rlock.NewMultiLock(here.NewLock("l"))} {
			_, err := lock.Acquire(w.Caller(), rlock.WithLine("large"))
			assert.ErrorIs(t, err, errors.ErrUnsupported)
		}
	})
}
