package storms_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
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

// Load, in virtual time. The full load, 10 000 locks and an hour, takes minutes:
//
//	go test -v -timeout 30m -run 'TenThousand|ManyLocks' ./rlock/tests/storms -long

// repeated runs a load several times, and asserts that after each round its resources are free
// again: goroutines, keys, subscriptions, memory. The first round may leave something behind; a
// leak of this load grows in every round. names is the number of new names in each round, of which
// miniredis keeps a record, for good: the version of each key.
func repeated(t *testing.T, names int, load func(w *testbed.World, round int)) {
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		var goroutines, heap []int
		for round := range 5 {
			begin := time.Now()
			load(w, round)
			virtual := time.Since(begin)
			time.Sleep(time.Minute) // subscriptions linger
			synctest.Wait()
			goroutines, heap = append(goroutines, runtime.NumGoroutine()), append(heap, allocated())
			t.Logf("after %v there are %d goroutines and %d KiB", virtual.Round(time.Millisecond), goroutines[round], heap[round]>>10)
		}
		assert.Less(t, leastGrowth(goroutines), 10)
		assert.Less(t, leastGrowth(heap), heap[0]/64+64<<10+80*names)
		assert.Empty(t, slices.DeleteFunc(w.Keys(), testbed.IsCounter))
		assert.Empty(t, testbed.LockChannels(w.Miniredis))
	})
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

// unrecorded returns a client whose network keeps no record of what it carried.
func unrecorded(w *testbed.World, changes ...func(*rlock.Config)) *testbed.Client {
	n := network.New(w.Dial)
	config := rlock.Config{Redis: w.Redis.Options(), Logger: testbed.Quiet}
	config.Redis.DialCtxFn = n.Dial
	for _, change := range changes {
		change(&config)
	}
	client, err := rlock.New(config)
	require.NoError(w.T, err)
	w.T.Cleanup(func() { _ = client.Close(); n.Close() })
	return &testbed.Client{Client: client, Net: n}
}

func TestTenThousandWaitersOfALockAreAllServed(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	var client *testbed.Client
	repeated(t, 0, func(w *testbed.World, _ int) {
		if client == nil {
			client = unrecorded(w)
		}
		served := 0 // protected by the lock
		var waiters sync.WaitGroup
		for range 10_000 {
			me := w.Caller()
			waiters.Go(func() {
				assert.NoError(t, client.NewLock(testbed.Key).Lock(me))
				served++
				assert.NoError(t, client.NewLock(testbed.Key).Unlock(me))
			})
		}
		waiters.Wait()
		assert.Equal(t, 10_000, served)
	})
}

func TestManyLocksWithAWaiterEachAreAllHandedOff(t *testing.T) {
	redistest.Slow(t)
	crowd := testbed.Thorough(10_000, 200)
	if testbed.Fewer() {
		crowd = 40
	}
	var here, there *testbed.Client
	repeated(t, crowd, func(w *testbed.World, round int) {
		if round == 0 {
			here, there = unrecorded(w), unrecorded(w)
		}
		holds, waiters := make([]*rlock.Hold, crowd), make([]<-chan error, crowd)
		for i := range crowd {
			name := fmt.Sprintf("orders:%d:%d", round, i)
			var err error
			holds[i], err = here.NewLock(name).Acquire(w.Ctx)
			require.NoError(t, err)
			waiters[i] = testbed.Start(func() error { return there.NewLock(name).Do(w.Ctx, testbed.Nothing) })
		}
		for i, hold := range holds {
			require.True(t, testbed.Pending(waiters[i]))
			assert.NoError(t, hold.Release(w.Ctx))
		}
		for _, waiter := range waiters {
			assert.NoError(t, <-waiter)
		}
	})
}
