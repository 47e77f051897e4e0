package rlock_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Fair locks, in virtual time: the order of the holders, and the number of commands.

const queue = "rlock_queue:{orders:42}"

// strict turns off hand-offs, so that no waiter of the holder's client comes first.
var strict = handoff(-1, 0)

// A line lists the holders of a fair lock, in order. Protected by the lock.
type line struct {
	*world
	order   []int
	joined  int
	waiters sync.WaitGroup
}

// join starts a waiter, known by its number, that takes the client's lock for a section and
// unlocks it. It returns when Redis has the waiter's ticket.
func (l *line) join(p *testClient) {
	who := l.joined
	l.joined++
	lock, me := p.NewFairLock(key), l.caller()
	l.waiters.Go(func() {
		if !assert.NoError(l.t, lock.Lock(me)) {
			return
		}
		l.order = append(l.order, who)
		time.Sleep(section)
		assert.NoError(l.t, lock.Unlock(me))
	})
	time.Sleep(50 * time.Millisecond)
}

// inOrder waits for all and asserts that they held the lock in the order in which they
// joined.
func (l *line) inOrder() {
	l.t.Helper()
	l.waiters.Wait()
	want := make([]int, l.joined)
	for i := range want {
		want[i] = i
	}
	assert.Equal(l.t, want, l.order)
	assert.Empty(l.t, l.Keys())
}

// queued returns the tickets in the queue in Redis, the first one first, without the mark of
// a granted ticket.
func (w *world) queued() (tickets []string) {
	members, err := w.ZMembers(queue)
	if err != nil {
		return nil
	}
	for _, member := range members {
		if !strings.HasPrefix(member, "!") {
			tickets = append(tickets, member[1:]) // without its mode
		}
	}
	return tickets
}

func TestAFairLockServesTheWaitersOfAllClientsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := &line{world: w}
		clients := []*testClient{w.client(strict), w.client(strict), w.client(strict)}
		me := w.caller()
		require.NoError(t, clients[0].NewFairLock(key).Lock(me))
		for i := range 60 {
			l.join(clients[i*i%7%3])
		}
		assert.Len(t, w.queued(), 60)
		require.NoError(t, clients[0].NewFairLock(key).Unlock(me))
		l.inOrder()
	})
}

func TestOneCommandHandsTheLockOver(t *testing.T) {
	redistest.Slow(t)
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		const clients, each, rounds = 4, 8, 50
		var testClients []*testClient
		for range clients {
			p := w.client(strict)
			p.net.SetRoundTrip(500 * time.Microsecond)
			testClients = append(testClients, p)
		}
		var all sync.WaitGroup
		var freed time.Time
		var latencies []time.Duration
		shares := make([]int, clients)
		begin := time.Now()
		for i, p := range testClients {
			for range each {
				lock, me := p.NewFairLock(key), w.caller()
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
			commands += len(p.net.Sent(""))
		}
		slices.Sort(latencies)
		t.Logf("%d sections in %v with %d commands; hand-over p50 %v, p99 %v", sections, time.Since(begin), commands,
			latencies[len(latencies)/2], latencies[len(latencies)*99/100])
		assert.LessOrEqual(t, commands, sections*21/10)
		assert.LessOrEqual(t, latencies[len(latencies)/2], 1200*time.Microsecond)
	})
}

func TestAGrantIsPublishedToOneClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, me := w.client(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		l := &line{world: w}
		var pushes [3]atomic.Int64
		for i := range pushes {
			p := w.client()
			l.join(p)
			p.net.Rule(func(f network.Frame) network.Fate {
				if f.Stage == network.Push && slices.Contains(f.Args, "message") {
					pushes[i].Add(1)
				}
				return network.Pass
			})
		}
		release := start(func() error { return holder.NewFairLock(key).Unlock(me) })
		synctest.Wait()
		for i, want := range []int64{1, 0, 0} {
			assert.Equal(t, want, pushes[i].Load())
		}
		require.NoError(t, <-release)
		l.inOrder()
	})
}

func TestALockWithoutWaitersCostsTwoCommandsAndNoSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewFairLock(key)
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))
		synctest.Wait() // the client subscribes to its own channel
		before := len(p.net.Sent(""))
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		assert.Len(t, p.net.Sent("")[before:], 2)
		assert.Empty(t, p.subscribed())
	})
}

// A fair lock is never handed off inside a process ahead of a waiter in another, whatever the
// config says of other locks.
func TestAFairLockIsNotHandedOffPastOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, me := w.client(handoff(3, time.Hour)), w.client(), w.caller()
		require.NoError(t, here.NewFairLock(key).Lock(me))
		l := &line{world: w}
		for range 4 {
			l.join(here)
			l.join(there)
		}
		require.NoError(t, here.NewFairLock(key).Unlock(me))
		l.inOrder()
	})
}

func TestAWaiterThatGivesUpLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me := w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		for _, wait := range []time.Duration{time.Nanosecond, time.Millisecond, 15 * time.Millisecond, 2 * time.Second} {
			for range 3 {
				ok, err := p.NewFairLock(key).TryLockFor(w.caller(), wait, 0)
				require.NoError(t, err)
				assert.False(t, ok)
			}
		}
		ctx, cancel := context.WithCancel(w.caller())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				lock := p.NewFairLock(key)
				assert.ErrorIs(t, lock.Lock(rlock.WithOwner(ctx, rlock.NewOwner())), context.Canceled)
			})
		}
		time.Sleep(time.Second)
		assert.Len(t, w.queued(), 20)
		cancel()
		all.Wait()
		time.Sleep(50 * time.Millisecond)
		assert.Empty(t, w.queued())
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
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

func TestAQueueOfAnotherTypeIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	require.NoError(t, s.do("SET", queue, "another's").Error())
	lock := s.client().NewFairLock(key)
	require.ErrorIs(t, lock.Lock(s.ctx), rlock.ErrWrongType)
	got, err := s.do("GET", queue).ToString()
	require.NoError(t, err)
	assert.Equal(t, "another's", got)
	assert.Zero(t, s.number("EXISTS", key))
	s.number("DEL", queue)
}
