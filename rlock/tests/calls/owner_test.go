package calls_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnOwnerTravelsWithTheContextOverACallTreeOfGoroutines(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		ctx, cancel := context.WithCancel(rlock.WithOwner(s.Ctx, rlock.NewOwner()))
		defer cancel()
		require.NoError(t, lock.Lock(ctx))
		var tree sync.WaitGroup
		for range 4 {
			tree.Go(func() {
				below, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				taken, err := lock.TryLock(below)
				assert.NoError(t, err)
				assert.True(t, taken)
			})
		}
		tree.Wait()
		assert.Equal(t, 5, lock.HoldCount(ctx))
		assert.Zero(t, lock.HoldCount(s.Ctx), "the goroutine itself is not the owner")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)
		for range 5 {
			testbed.Elsewhere(func() { assert.NoError(t, lock.Unlock(ctx)) })
		}
		assert.True(t, s.IsFree(lock))
	})
}

func TestTwoOwnersInOneGoroutineKeepEachOtherOut(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		one, two := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		require.NoError(t, lock.Lock(one))
		for _, ctx := range []context.Context{two, s.Ctx} {
			taken, err := lock.Rival.TryLock(ctx)
			require.NoError(t, err)
			assert.False(t, taken)
			assert.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld)
		}
		assert.True(t, lock.IsHeld(one))
		require.NoError(t, lock.Unlock(one))
	})
}

func TestOwnersAreDifferentAndTheZeroOwnerIsNoOwner(t *testing.T) {
	const goroutines, each = 8, 1000
	var mu sync.Mutex
	seen := make(map[rlock.Owner]bool)
	var makers sync.WaitGroup
	for range goroutines {
		makers.Go(func() {
			for range each {
				owner := rlock.NewOwner()
				mu.Lock()
				seen[owner] = true
				mu.Unlock()
			}
		})
	}
	makers.Wait()
	assert.Len(t, seen, goroutines*each)
	assert.NotContains(t, seen, rlock.Owner(0))

	_, ok := rlock.OwnerFrom(context.Background())
	assert.False(t, ok)
	_, ok = rlock.OwnerFrom(rlock.WithOwner(context.Background(), rlock.Owner(0)))
	assert.False(t, ok)
}

func TestNeitherAGoroutineNorAHoldIsAnOwnerForAContext(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		of := p.Held()[0].Owner
		for _, owner := range []uint64{42, terms.GoroutineID(), of} {
			assert.Panics(t, func() { rlock.WithOwner(w.Ctx, rlock.Owner(owner)) }, owner)
		}
		for _, owner := range []uint64{uint64(rlock.NewOwner()), of} {
			assert.Equal(t, owner, uint64(float64(owner)), "any parser of JSON keeps it")
		}
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestAGoroutineIsKnownWithoutTheRuntimesLayoutToo(t *testing.T) {
	seen := make(map[uint64]bool)
	for range 100 {
		done := make(chan uint64)
		go func() {
			id := terms.PrintedGoroutineID()
			assert.Equal(t, terms.GoroutineID(), id)
			done <- id
		}()
		id := <-done
		assert.False(t, seen[id])
		seen[id] = true
	}
}

func TestAnOwnerInSeveralGoroutinesDoesNotWaitForItself(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		holder, p := w.NewProcess().NewLock(testbed.Key), w.NewProcess().NewLock(testbed.Key)
		for _, held := range []bool{false, true} {
			them, me := w.Caller(), w.Caller()
			if held {
				require.NoError(t, holder.Rival.Lock(them))
			}
			const goroutines = 3
			var waiting [goroutines]<-chan error
			for i := range waiting {
				waiting[i] = testbed.Start(func() error { return p.Lock(me) })
				require.True(t, !held || testbed.Pending(waiting[i]))
			}
			if held {
				require.NoError(t, holder.Rival.Unlock(them))
			}
			for _, result := range waiting {
				require.NoError(t, testbed.Soon(result))
			}
			w.Settle()
			assert.Equal(t, goroutines, p.HoldCount(me))
			time.Sleep(time.Minute)
			for range waiting {
				assert.True(t, p.IsHeld(me))
				require.NoError(t, p.Unlock(me))
			}
			require.ErrorIs(t, p.Unlock(me), rlock.ErrNotHeld)
		}
	})
}

func TestAGrantSkipsOtherOwnersForWaitersOfTheSameOwner(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock, them, me, other := w.NewClient().NewLock(testbed.Key), w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, lock.Lock(them))
		first := testbed.Waits(t, func() error { return lock.Lock(me) })
		between := testbed.Waits(t, func() error { return lock.Lock(other) })
		last := testbed.Waits(t, func() error { return lock.LockFor(me, time.Hour) })
		require.NoError(t, lock.Unlock(them))
		require.NoError(t, testbed.Soon(first))
		require.NoError(t, testbed.Soon(last))
		assert.Equal(t, 2, lock.HoldCount(me))
		require.NoError(t, lock.Unlock(me))
		require.True(t, testbed.Pending(between))
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, testbed.Soon(between))
		require.NoError(t, lock.Unlock(other))
	})
}
