package programs_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// The load of a service: some thousand names in one client, each with a goroutine, and more
// commands due than there are places for, so that all else comes between the end of a section and
// the command that says so. In real time, and on real servers, torture has it.
func TestAClientHasThousandsOfNames(t *testing.T) {
	redistest.WithoutServer(t)
	redistest.Slow(t)
	const names = 1500
	var p *programs.Process
	redistest.Virtual(t, func(t *testing.T) {
		s := inmemory.New()
		defer s.Close()
		var err error
		server := embedded(s)
		server.Refuse = nil // the faults are those of its networks
		ground := programs.Ground{Servers: []programs.Server{server}}
		p, err = programs.Begin(t.Context(), programs.Endless(1, 1, names, 3*time.Second, false), ground, 1)
		require.NoError(t, err)
		most := 0
		for range 3 {
			p.Storm()
			time.Sleep(5 * time.Second)
			settled := p.Settle(2 * time.Minute)
			require.Empty(t, settled.Hung)
			require.Empty(t, settled.Problems)
			most = max(most, settled.Most)
		}
		require.Empty(t, p.End())
		require.Greater(t, most, names/4, "levels at once")
	})
	require.Empty(t, p.Verdict())
}

// Wide loads without a fault. The full load, 10 000 locks and an hour, takes minutes:
//
//	go test -v -timeout 30m -run 'TenThousand|ManyLocks' ./rlock/tests/programs -long

// repeated runs a load several times, and asserts that after each round its resources are free
// again: goroutines, keys, subscriptions, memory. The first round may leave something behind; a
// leak of this load grows in every round. names is the number of new names in each round, of which
// miniredis keeps a record, for good: the version of each key.
func repeated(t *testing.T, names int, load func(w *testbed.World, round int, here, there *rlock.Client)) {
	redistest.Slow(t)
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		var clients [2]*rlock.Client
		for i := range clients {
			var err error
			clients[i], err = rlock.New(rlock.Config{Redis: w.Redis.Options(), Logger: testbed.Quiet})
			require.NoError(t, err)
			t.Cleanup(func() { _ = clients[i].Close() })
		}
		goroutines, heap := make([]int, 5), make([]int, 5)
		for round := range goroutines {
			load(w, round, clients[0], clients[1])
			time.Sleep(time.Minute) // subscriptions linger
			synctest.Wait()
			var stats runtime.MemStats
			runtime.GC()
			runtime.GC() // objects that the first collection has taken out of pools
			runtime.ReadMemStats(&stats)
			goroutines[round], heap[round] = runtime.NumGoroutine(), int(stats.HeapAlloc)
			t.Logf("round %d: there are %d goroutines and %d KiB", round, goroutines[round], heap[round]>>10)
		}
		leastGrowth := func(sizes []int) int {
			least := sizes[1] - sizes[0]
			for i := range sizes[1:] {
				least = min(least, sizes[i+1]-sizes[i])
			}
			return least
		}
		assert.Less(t, leastGrowth(goroutines), 10)
		assert.Less(t, leastGrowth(heap), heap[0]/64+64<<10+80*names)
		assert.Empty(t, slices.DeleteFunc(w.Keys(), testbed.IsCounter))
		assert.Empty(t, testbed.LockChannels(w.Miniredis))
	})
}

func TestTenThousandWaitersOfALockAreAllServed(t *testing.T) {
	testbed.ManyCommands(t)
	repeated(t, 0, func(w *testbed.World, _ int, here, _ *rlock.Client) {
		served := 0 // protected by the lock
		var waiters sync.WaitGroup
		for range 10_000 {
			me := w.Caller()
			waiters.Go(func() {
				assert.NoError(t, here.NewLock(testbed.Key).Lock(me))
				served++
				assert.NoError(t, here.NewLock(testbed.Key).Unlock(me))
			})
		}
		waiters.Wait()
		assert.Equal(t, 10_000, served)
	})
}

func TestManyLocksWithAWaiterEachAreAllHandedOff(t *testing.T) {
	crowd := testbed.Thorough(10_000, 200)
	if testbed.Fewer() {
		crowd = 40
	}
	repeated(t, crowd, func(w *testbed.World, round int, here, there *rlock.Client) {
		holds, waiters := make([]*rlock.Hold, crowd), make([]<-chan error, crowd)
		for i := range crowd {
			name := fmt.Sprintf("orders:%d:%d", round, i)
			holds[i] = testbed.Take(t, w.Ctx, here.NewLock(name))
			waiters[i] = testbed.Start(func() error { return there.NewLock(name).Do(w.Ctx, testbed.Nothing) })
		}
		for i, hold := range holds {
			require.True(t, testbed.Pending(waiters[i]))
			assert.NoError(t, hold.Release(w.Ctx))
		}
		testbed.Succeed(t, waiters...)
	})
}
