package storms_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repeated runs a load several times and asserts that after each round its resources are free
// again: goroutines, keys, subscriptions, memory. Other tests may leave something in the
// process at any time; a leak of this load grows in every round.
func repeated(t *testing.T, s *testbed.Site, clients []*rlock.Client, load func(round int)) {
	t.Helper()
	var goroutines, heap []int
	for round := range 5 {
		begin := time.Now()
		load(round)
		virtual := time.Since(begin)
		time.Sleep(time.Minute) // subscriptions linger
		synctest.Wait()
		goroutines, heap = append(goroutines, runtime.NumGoroutine()), append(heap, allocated())
		t.Logf("after %v there are %d goroutines and %d KiB", virtual.Round(time.Millisecond), goroutines[round], heap[round]>>10)
	}
	assert.Less(t, leastGrowth(goroutines), 10)
	assert.Less(t, leastGrowth(heap), heap[0]/64+64<<10) // miniredis keeps a record of every key
	keys, err := s.Outside.Do(context.Background(), s.Outside.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	assert.Zero(t, keys)
	channels, err := s.Outside.Do(context.Background(), s.Outside.B().PubsubChannels().Build()).AsStrSlice()
	require.NoError(t, err)
	assert.Empty(t, testbed.OfLocks(channels))
	for _, client := range clients {
		require.NoError(t, client.Close())
	}
}

// leastGrowth returns the smallest growth from one round to the next.
func leastGrowth(sizes []int) int {
	least := sizes[1] - sizes[0]
	for i := range sizes[1:] {
		least = min(least, sizes[i+1]-sizes[i])
	}
	return least
}

// allocated returns the size of the heap in use.
func allocated() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // objects that the first collection has taken out of pools
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func TestTenThousandWaitersOfALockAreAllServed(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := &testbed.Site{Server: server, T: t, Outside: server.Client(t)}
		client := s.NewClient()
		lock := client.NewLock(testbed.Key)
		repeated(t, s, []*rlock.Client{client}, func(int) {
			var served int
			var waiters sync.WaitGroup
			for range 10_000 {
				me := rlock.WithOwner(context.Background(), rlock.NewOwner())
				waiters.Go(func() {
					if assert.NoError(t, lock.Lock(me)) {
						served++
						assert.NoError(t, lock.Unlock(me))
					}
				})
			}
			waiters.Wait()
			assert.Equal(t, 10_000, served)
		})
	})
}

func TestManyLocksWithAWaiterEachAreAllHandedOff(t *testing.T) {
	redistest.Slow(t)
	crowd := testbed.Thorough(10_000, 200)
	if testbed.Fewer() {
		crowd = 40
	}
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := &testbed.Site{Server: server, T: t, Outside: server.Client(t)}
		here, there := s.NewClient(), s.NewClient()
		repeated(t, s, []*rlock.Client{here, there}, func(round int) {
			holds := make([]*rlock.Hold, crowd)
			served := make([]bool, crowd)
			var waiters sync.WaitGroup
			for i := range crowd {
				name := fmt.Sprintf("orders:%d:%d", round, i)
				var err error
				holds[i], err = here.NewLock(name).Acquire(context.Background())
				require.NoError(t, err)
				waiters.Go(func() {
					assert.NoError(t, there.NewLock(name).Do(context.Background(), func(context.Context) error {
						served[i] = true
						return nil
					}))
				})
			}
			synctest.Wait() // all calls wait
			for i, hold := range holds {
				assert.False(t, served[i])
				assert.NoError(t, hold.Release(context.Background()))
			}
			waiters.Wait()
			assert.NotContains(t, served, false)
		})
	})
}

func TestMixedLoadLeavesNothingBehind(t *testing.T) {
	redistest.Slow(t)
	length := testbed.Thorough(15*time.Minute, 15*time.Second)
	if testbed.Fewer() {
		length = 5 * time.Second
	}
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := &testbed.Site{Server: server, T: t, Outside: server.Client(t)}
		clients := []*rlock.Client{s.NewClient(), s.NewClient(), s.NewClient()}
		seed := uint64(time.Now().UnixNano())
		repeated(t, s, clients, func(int) {
			m := &mix{end: time.Now().Add(length), inside: make(map[string]bool)}
			for i, client := range clients {
				for j := range 8 {
					random := rand.New(rand.NewPCG(seed, uint64(i*8+j)))
					m.workers.Go(func() { m.work(t, client, random) })
				}
			}
			m.workers.Wait()
			t.Logf("%d sections, %d given up, %d leases that ended", m.sections, m.givenUp, m.ended)
			assert.NotZero(t, m.sections)
			assert.NotZero(t, m.givenUp)
			assert.NotZero(t, m.ended)
		})
	})
}

// A mix is workers that use a few locks in every way.
type mix struct {
	end     time.Time
	workers sync.WaitGroup

	mu                       sync.Mutex // protects following
	inside                   map[string]bool
	sections, givenUp, ended int
}

func (m *mix) work(t *testing.T, client *rlock.Client, random *rand.Rand) {
	me := rlock.WithOwner(context.Background(), rlock.NewOwner())
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for time.Now().Before(m.end) {
		lock, section := client.NewLock(fmt.Sprintf("orders:%d", random.IntN(12))), upTo(time.Second)
		var err error
		switch random.IntN(6) {
		case 0:
			err = lock.Do(me, func(context.Context) error {
				m.section(t, lock, section)
				return nil
			})
		case 1: // nested
			err = lock.Do(me, func(ctx context.Context) error {
				return lock.Do(ctx, func(context.Context) error {
					m.section(t, lock, section)
					return nil
				})
			})
		case 2: // one attempt
			var taken bool
			if taken, err = lock.TryLock(me); taken {
				m.section(t, lock, section)
				err = lock.Unlock(me)
			} else if err == nil {
				err = rlock.ErrNotAcquired
			}
		case 3: // for some time
			var hold *rlock.Hold
			if hold, err = lock.Acquire(me, rlock.WithWait(upTo(time.Second))); err == nil {
				m.section(t, lock, section)
				err = hold.Release(me)
			}
		case 4: // until the caller gives up
			ctx, cancel := context.WithTimeout(me, upTo(time.Second))
			if err = lock.Lock(ctx); err == nil {
				m.section(t, lock, section)
				err = lock.Unlock(me)
			}
			cancel()
		case 5: // longer than the lease
			if err = lock.LockFor(me, section+time.Second); err == nil {
				m.section(t, lock, section)
				time.Sleep(upTo(2 * time.Second))
				err = lock.Unlock(me)
			}
		}
		m.note(t, err)
		time.Sleep(upTo(time.Second))
	}
}

// section asserts that no other section runs.
func (m *mix) section(t *testing.T, lock *rlock.Lock, d time.Duration) {
	m.mu.Lock()
	assert.False(t, m.inside[lock.Name()], "two sections overlap")
	m.inside[lock.Name()] = true
	m.sections++
	m.mu.Unlock()
	time.Sleep(d)
	m.mu.Lock()
	m.inside[lock.Name()] = false
	m.mu.Unlock()
}

func (m *mix) note(t *testing.T, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, rlock.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded):
		m.givenUp++
	case errors.Is(err, rlock.ErrLost):
		m.ended++
	default:
		assert.NoError(t, err)
	}
}
