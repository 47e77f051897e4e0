package queue_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Fair locks, in virtual time: the order of the holders, and the number of commands.

func TestAFairLockServesTheWaitersOfAllClientsInOrder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l := &testbed.Line{World: w}
		clients := []*testbed.Client{w.NewClient(testbed.Strict), w.NewClient(testbed.Strict), w.NewClient(testbed.Strict)}
		me := w.Caller()
		require.NoError(t, clients[0].NewFairLock(testbed.Key).Lock(me))
		for i := range 60 {
			l.Join(clients[i*i%7%3])
		}
		assert.Len(t, w.Queued(), 60)
		require.NoError(t, clients[0].NewFairLock(testbed.Key).Unlock(me))
		l.InOrder()
	})
}

func TestOneCommandHandsTheLockOver(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const clients, each, rounds = 4, 8, 50
		var testClients []*testbed.Client
		for range clients {
			p := w.NewClient(testbed.Strict)
			p.Net.SetRoundTrip(500 * time.Microsecond)
			testClients = append(testClients, p)
		}
		var all sync.WaitGroup
		var freed time.Time
		var latencies []time.Duration
		shares := make([]int, clients)
		begin := time.Now()
		for i, p := range testClients {
			for range each {
				lock, me := p.NewFairLock(testbed.Key), w.Caller()
				all.Go(func() {
					for range rounds {
						assert.NoError(t, lock.Lock(me))
						if !freed.IsZero() {
							latencies = append(latencies, time.Since(freed))
						}
						if len(latencies) == clients*each*rounds/2 {
							t.Logf("shares %v", shares)
							assert.GreaterOrEqual(t, float64(slices.Min(shares)), 0.95*float64(slices.Max(shares)))
						}
						shares[i]++
						time.Sleep(100 * time.Microsecond)
						freed = time.Now()
						assert.NoError(t, lock.Unlock(me))
					}
				})
			}
		}
		all.Wait()
		sections := clients * each * rounds
		commands := 0
		for _, p := range testClients {
			commands += len(p.Net.Sent(""))
		}
		slices.Sort(latencies)
		t.Logf("%d sections in %v with %d commands; hand-over p50 %v, p99 %v", sections, time.Since(begin), commands,
			latencies[len(latencies)/2], latencies[len(latencies)*99/100])
		assert.LessOrEqual(t, commands, sections*21/10)
		assert.LessOrEqual(t, latencies[len(latencies)/2], 1200*time.Microsecond)
	})
}

func TestAGrantIsPublishedToOneClient(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, me := w.NewClient(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		l := &testbed.Line{World: w}
		var pushes [3]atomic.Int64
		for i := range pushes {
			p := w.NewClient()
			l.Join(p)
			p.Net.Rule(func(f network.Frame) network.Fate {
				if f.Stage == network.Push && slices.Contains(f.Args, "message") {
					pushes[i].Add(1)
				}
				return network.Pass
			})
		}
		release := testbed.Start(func() error { return holder.NewFairLock(testbed.Key).Unlock(me) })
		synctest.Wait()
		for i, want := range []int64{1, 0, 0} {
			assert.Equal(t, want, pushes[i].Load())
		}
		require.NoError(t, <-release)
		l.InOrder()
	})
}

func TestALockWithoutWaitersCostsTwoCommandsAndNoSubscription(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewFairLock(testbed.Key)
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))
		synctest.Wait() // the client subscribes to its own channel
		before := len(p.Net.Sent(""))
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		assert.Len(t, p.Net.Sent("")[before:], 2)
		assert.Empty(t, p.Subscribed())
	})
}

// A fair lock is never handed off inside a process ahead of a waiter in another, whatever the
// config says of other locks.
func TestAFairLockIsNotHandedOffPastOthers(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, me := w.NewClient(testbed.Handoff(3, time.Hour)), w.NewClient(), w.Caller()
		require.NoError(t, here.NewFairLock(testbed.Key).Lock(me))
		l := &testbed.Line{World: w}
		for range 4 {
			l.Join(here)
			l.Join(there)
		}
		require.NoError(t, here.NewFairLock(testbed.Key).Unlock(me))
		l.InOrder()
	})
}

func TestAWaiterThatGivesUpLeavesNothingBehind(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, p, me := w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(me))
		for _, wait := range []time.Duration{time.Nanosecond, time.Millisecond, 15 * time.Millisecond, 2 * time.Second} {
			for range 3 {
				ok, err := p.NewFairLock(testbed.Key).TryLockFor(w.Caller(), wait, 0)
				require.NoError(t, err)
				assert.False(t, ok)
			}
		}
		ctx, cancel := context.WithCancel(w.Caller())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				lock := p.NewFairLock(testbed.Key)
				assert.ErrorIs(t, lock.Lock(rlock.WithOwner(ctx, rlock.NewOwner())), context.Canceled)
			})
		}
		time.Sleep(time.Second)
		assert.Len(t, w.Queued(), 20)
		cancel()
		all.Wait()
		time.Sleep(50 * time.Millisecond)
		assert.Empty(t, w.Queued())
		require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(me))
		assert.Empty(t, w.Keys())
	})
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient()
		for name, waits := range map[string]*testbed.Client{"in the same client": here, "elsewhere": there} {
			me := w.Caller()
			require.NoError(t, here.NewFairLock(testbed.Key).Lock(me))
			ctx, called := &lateContext{Context: w.Caller()}, false
			result := testbed.Start(func() error {
				return waits.NewFairLock(testbed.Key).Do(ctx, func(ctx context.Context) error {
					called = true
					return ctx.Err()
				})
			})
			require.True(t, testbed.Pending(result))
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

func TestAQueueOfAnotherTypeIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	require.NoError(t, s.Do("SET", testbed.Queue, "another's").Error())
	lock := s.NewClient().NewFairLock(testbed.Key)
	require.ErrorIs(t, lock.Lock(s.Ctx), rlock.ErrWrongType)
	got, err := s.Do("GET", testbed.Queue).ToString()
	require.NoError(t, err)
	assert.Equal(t, "another's", got)
	assert.Zero(t, s.Number("EXISTS", testbed.Key))
	s.Number("DEL", testbed.Queue)
}
