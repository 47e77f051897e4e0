package calls_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		of := uint64(p.Held()[0].Owner)
		for _, owner := range []uint64{42, contract.GoroutineID(), of} {
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
			id := contract.PrintedGoroutineID()
			assert.Equal(t, contract.GoroutineID(), id)
			done <- id
		}()
		id := <-done
		assert.False(t, seen[id])
		seen[id] = true
	}
}

// The stories of outlived.txt have the rest.
func TestWhatIsLockedWithAContextAfterItsHoldIsTheGoroutines(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock := w.NewProcess().NewLock(testbed.Key)
		var background context.Context
		require.NoError(t, lock.Do(w.Ctx, func(ctx context.Context) error { background = context.WithoutCancel(ctx); return nil }))
		testbed.Elsewhere(func() {
			assert.NoError(t, lock.Lock(background))
			assert.True(t, lock.IsHeld(w.Ctx))
			assert.NoError(t, lock.Unlock(w.Ctx))
			assert.NoError(t, lock.Lock(w.Ctx))
			assert.NoError(t, lock.Unlock(background))
		})
		require.NoError(t, lock.Do(w.Ctx, func(ctx context.Context) error {
			testbed.Elsewhere(func() { assert.NoError(t, lock.Lock(context.WithoutCancel(ctx))) })
			return nil
		}))
		require.ErrorIs(t, lock.Unlock(w.Ctx), rlock.ErrNotHeld, "it is another goroutine's")
		testbed.Elsewhere(func() { assert.NoError(t, lock.Unlock(background)) })
	})
}

// Of all clients that resume a lock one succeeds, on a real server as well, and beside renewals of
// the client that passed it on.
func TestOneClientWinsTheRaceForAPass(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		site := testbed.At(t, s)
		clients := []*rlock.Client{site.NewClient(), site.NewClient(), site.NewClient()}
		for n := range testbed.Thorough(10_000, 100) {
			ctx, cancel := context.WithTimeout(t.Context(), testbed.Hang)
			hold := testbed.Take(t, ctx, clients[n%3].NewLock(testbed.Key))
			text, err := hold.Pass(ctx, 10*time.Second)
			require.NoError(t, err)
			var won atomic.Pointer[rlock.Hold]
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					h, err := c.Resume(ctx, text)
					switch {
					case err == nil && !won.CompareAndSwap(nil, h):
						t.Error("two have resumed the lock")
					case err != nil && !errors.Is(err, rlock.ErrNotPassed):
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.NotNil(t, won.Load(), "none has resumed the lock")
			require.NoError(t, won.Load().Release(ctx))
			cancel()
		}
	})
}
