// Package queue_test is about the order of owners: the queue in Redis and the line inside a
// process, and turns with clients that are not ours.
package queue_test

import (
	"context"
	"errors"
	"fmt"
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

// A waiter whose context ends does not get the lock, though it was granted before the waiter has
// looked.
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

// Redis stands still for a while, and loses nothing: the answers are late, and those that a client
// has given up do not come. Each waiter keeps its place.
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

// keepsOrder has waiters of several clients join one after the other, and Redis pause so long after
// that.
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
	redistest.Await(t, released)
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

// Clients that are not ours: guests, which only poll and cannot be counted, and subscribers.
// Package internal/redisson has the real ones.

func TestAGuestThatOnlyPollsHasATurnEveryFewSeconds(t *testing.T) {
	testbed.ManyCommands(t)
	for _, c := range []struct {
		clients int
		met     bool
	}{{1, true}, {3, false}} {
		t.Run(fmt.Sprintf("%d clients, met before %v", c.clients, c.met), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				f := w.NewGuest()
				if c.met {
					f.Take()
				}
				end := time.Now().Add(5 * time.Second)
				var crowds []func() int
				for range c.clients {
					crowds = append(crowds, w.NewClient(func(config *rlock.Config) { config.Advanced.RedissonPolls = rlock.RedissonPollsAlways }).Crowd(4, w, end))
				}
				time.Sleep(10 * time.Millisecond)
				if c.met {
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
		})
	}
}

// The parts that a subscriber has of the sections, beside clients with so many callers each that
// always want the lock.
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

// lateEvery51 is longer than the head waits for those that it lets pass, once in 51 times; else it
// comes behind the head, if that lets no other pass.
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
		require.NoError(t, testbed.Soon(next))
		require.True(t, refused)
	})
}

// No message says that a lock which was passed on is free.
func TestTheNextOneLooksWhenALockEndsThatWasPassedOn(t *testing.T) {
	testbed.EachBubble(t, testbed.LocksOf("plain", "fair", "write", "semaphore"), func(t *testing.T, w *testbed.World, lock func(*rlock.Client) *rlock.Lock) {
		hold := testbed.Take(t, w.Ctx, lock(w.NewClient().Client))
		ctx, leave := context.WithCancel(w.Caller())
		first := testbed.Waits(t, func() error { return lock(w.NewClient().Client).Lock(ctx) })
		time.Sleep(time.Second)
		next := testbed.Waits(t, func() error { return lock(w.NewClient().Client).Do(w.Caller(), testbed.Nothing) })
		testbed.PassedOn(t, w.Ctx, hold, 1500*time.Millisecond)
		testbed.Within(t, 1500*time.Millisecond, 1510*time.Millisecond, func() {
			time.Sleep(100 * time.Millisecond)
			leave()
			require.ErrorIs(t, <-first, context.Canceled)
			require.NoError(t, <-next)
		})
	})
}

// Of three permits that stay for a second each, twelve callers have the last ones after three.
func TestPermitsWithALeastTimeKeepARate(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		clients := []*testbed.Client{w.NewClient(), w.NewClient()}
		testbed.Within(t, 3*time.Second, 3100*time.Millisecond, func() {
			var all []<-chan error
			for i := range 12 {
				limit := clients[i%2].NewSemaphore(testbed.Key, 3)
				all = append(all, testbed.Start(func() error { return limit.Do(w.Caller(), testbed.Nothing, rlock.WithMinHold(time.Second)) }))
			}
			testbed.Succeed(t, all...)
		})
	})
}

// The calls of a large tenant, of two processes, are half of the grants while a small one has calls
// in the queue, and a third tenant with one call waits for one turn of the small and two of the large
// one. Without lines the first fifty are those of the large one.
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
