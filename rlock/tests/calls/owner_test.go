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
			assert.False(t, testbed.Tries(t, ctx, lock.Rival))
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
		of := uint64(p.Held()[0].Owner)
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
			testbed.Succeed(t, waiting[:]...)
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

// The context of a hold carries the hold: the same lock nests, from any goroutine.

func TestALockNestsInItsHoldFromAnyGoroutineThatHasTheContext(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		lock := p.NewLock(testbed.Key)
		for name, nest := range map[string]func(ctx context.Context) error{
			"Lock": func(ctx context.Context) error {
				if err := lock.Lock(ctx); err != nil {
					return err
				}
				return lock.Unlock(ctx)
			},
			"Acquire": func(ctx context.Context) error {
				h, err := lock.Acquire(ctx)
				if err != nil {
					return err
				}
				return h.Release(ctx)
			},
			"Do": func(ctx context.Context) error {
				return lock.Do(ctx, func(ctx context.Context) error {
					return lock.Do(ctx, func(context.Context) error { return nil })
				})
			},
			"a lock of the same name": func(ctx context.Context) error {
				return p.NewLock(testbed.Key).Do(ctx, func(context.Context) error { return nil })
			},
		} {
			elsewhereWith := func(ctx context.Context) error {
				return <-testbed.Start(func() error { return nest(ctx) })
			}
			require.NoError(t, lock.Do(w.Ctx, elsewhereWith), "in Do: %s", name)

			h := testbed.Take(t, w.Ctx, lock)
			require.NoError(t, elsewhereWith(h.Context()), "in the context of a hold: %s", name)
			require.NoError(t, elsewhereWith(h.With(w.Ctx)), "in a context with the hold: %s", name)
			require.True(t, h.Valid())
			require.NoError(t, h.Release(w.Ctx))
		}
	})
}

func TestOtherLocksAreNotAffectedByAHoldsContext(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		require.NoError(t, p.NewLock(testbed.Key).Do(w.Ctx, func(ctx context.Context) error {
			_, carries := rlock.OwnerFrom(ctx)
			assert.False(t, carries)
			other := p.NewLock("another")
			require.NoError(t, other.Lock(ctx)) // taken by this goroutine
			assert.True(t, other.IsHeld(w.Ctx))
			taken := make(chan bool)
			go func() {
				ok, err := other.TryLock(ctx)
				assert.NoError(t, err)
				taken <- ok
			}()
			assert.False(t, <-taken, "goroutines that share the context are different owners")
			return other.Unlock(ctx)
		}))
	})
}

func TestTheInnermostOfOwnersAndHoldsCounts(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewFencedLock(testbed.Key)
		h := testbed.Take(t, w.Ctx, lock)
		assert.True(t, lock.IsHeld(h.Context()))
		token, err := lock.Token(h.Context())
		require.NoError(t, err)
		assert.Equal(t, testbed.TokenOf(t, h), token)
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.NewOwner())))
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.Owner(0))))
		assert.True(t, lock.IsHeld(h.With(w.Caller())))
		require.NoError(t, h.Release(w.Ctx))
	})
}

func TestPartsNestInTheHoldOfTheWhole(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		a, b := p.NewLock("a"), p.NewLock("b")
		both := rlock.NewMultiLock(a, b)
		require.NoError(t, both.Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return a.Do(ctx, func(context.Context) error { return nil }) })
		}))
		require.NoError(t, a.Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return both.Do(ctx, func(context.Context) error { return nil }) })
		}))
	})
}

func TestAWriterReadsInItsHoldAndAReaderIsRefused(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		rw := w.NewClient().NewReadWriteLock(testbed.Key)
		require.NoError(t, rw.Write().Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return rw.Read().Do(ctx, func(context.Context) error { return nil }) })
		}))
		err := rw.Read().Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return rw.Write().Lock(ctx) })
		})
		require.ErrorIs(t, err, rlock.ErrUpgrade)
	})
}

func TestALockInTheContextOfALostHoldIsRefusedWithTheReason(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		h := testbed.Take(t, w.Ctx, lock)
		require.NoError(t, lock.Lock(h.Context()))
		w.Del(testbed.Key)
		<-h.Context().Done()
		for _, ctx := range []context.Context{h.Context(), h.With(w.Ctx)} {
			err := lock.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrLost, "the nested level is lost")
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrNotHeld)
	})
}

func TestAContextWithAHoldEndsWithTheLossAndWithTheRequest(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		h := testbed.Take(t, w.Ctx, lock)
		type requestKey struct{}
		request, cancel := context.WithTimeout(context.WithValue(w.Ctx, requestKey{}, "42"), time.Second)
		defer cancel()
		first, second := h.With(request), h.With(w.Ctx)
		assert.Equal(t, "42", first.Value(requestKey{}))

		<-first.Done()
		require.ErrorIs(t, first.Err(), context.DeadlineExceeded)
		require.NoError(t, second.Err())
		require.NoError(t, context.Cause(h.Context()), "the end of a request does not release the lock")

		w.Del(testbed.Key)
		<-second.Done()
		require.ErrorIs(t, context.Cause(second), rlock.ErrLost)
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrLost)
		third := h.With(w.Ctx)
		<-third.Done()
	})
}
