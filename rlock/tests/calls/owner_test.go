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

func TestAHoldNestsInTheOwnerOfItsContext(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		owner := rlock.NewOwner()
		ctx := rlock.WithOwner(s.Ctx, owner)
		require.NoError(t, lock.Lock(ctx))
		hold, err := lock.Acquire(ctx, rlock.WithWait(0))
		require.NoError(t, err)
		from, ok := rlock.OwnerFrom(hold.Context())
		assert.True(t, ok)
		assert.Equal(t, owner, from, "calls under the hold nest in it")
		assert.Equal(t, 2, lock.HoldCount(ctx))
		require.NoError(t, hold.Release(ctx))
		require.NoError(t, lock.Unlock(ctx))
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

func TestJSONParsersThatReadFloatsKeepAnOwner(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		for _, owner := range []uint64{uint64(rlock.NewOwner()), p.Held()[0].Owner} {
			assert.Equal(t, owner, uint64(float64(owner)))
		}
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestTheOwnerOfAHoldIsNoOwnerForAContext(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		assert.Panics(t, func() { rlock.WithOwner(w.Ctx, rlock.Owner(p.Held()[0].Owner)) })
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestAGoroutineIsNoOwnerForAContext(t *testing.T) {
	assert.Panics(t, func() { rlock.WithOwner(context.Background(), 42) })
	assert.Panics(t, func() { rlock.WithOwner(context.Background(), rlock.Owner(terms.GoroutineID())) })
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
	for _, where := range []string{"another client has it", "it is handed off in the client"} {
		t.Run(where, func(t *testing.T) {
			testbed.EachExclusiveVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
				if w.Kind.Name == "red" {
					t.Skip("a RedLock promises no order")
				}
				p := w.NewProcess().NewLock(testbed.Key)
				holder := p
				if where == "another client has it" {
					holder = w.NewProcess().NewLock(testbed.Key)
				}
				them, me, other := w.Caller(), w.Caller(), w.Caller()
				require.NoError(t, holder.Lock(them))
				first := testbed.Start(func() error { return p.Lock(me) })
				require.True(t, testbed.Pending(first))
				between := testbed.Start(func() error { return p.Lock(other) })
				require.True(t, testbed.Pending(between))
				last := testbed.Start(func() error { return p.LockFor(me, time.Hour) })
				require.True(t, testbed.Pending(last))

				require.NoError(t, holder.Unlock(them))
				require.NoError(t, testbed.Soon(first))
				require.NoError(t, testbed.Soon(last))
				assert.Equal(t, 2, p.HoldCount(me))
				require.NoError(t, p.Unlock(me))
				require.True(t, testbed.Pending(between))
				require.NoError(t, p.Unlock(me))
				require.NoError(t, testbed.Soon(between))
				require.NoError(t, p.Unlock(other))
				w.Drain()
				assert.Empty(t, w.KeysLeft())
			})
		})
	}
}

func TestAHandleOfAnOwnerThatWaitsTwiceIsOneLevel(t *testing.T) {
	testbed.EachExclusiveVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		holder, p := w.NewProcess().NewLock(testbed.Key), w.NewProcess().NewLock(testbed.Key)
		them, me := w.Caller(), w.Caller()
		require.NoError(t, holder.Lock(them))
		var one, two *rlock.Hold
		acquire := func(h **rlock.Hold) <-chan error {
			result := testbed.Start(func() (err error) {
				*h, err = p.Acquire(me)
				return err
			})
			require.True(t, testbed.Pending(result))
			return result
		}
		first, second := acquire(&one), acquire(&two)
		require.NoError(t, holder.Unlock(them))
		require.NoError(t, testbed.Soon(first))
		require.NoError(t, testbed.Soon(second))
		require.NoError(t, context.Cause(one.Context()))
		require.NoError(t, one.Release(w.Ctx))
		require.NoError(t, context.Cause(two.Context()))
		require.NoError(t, two.Release(w.Ctx))
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

func TestAnOwnerThatWaitsToWriteIsRefusedOnceItReads(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		there, here, me, them := w.NewRWClient(), w.NewRWClient(), w.Caller(), w.Caller()
		require.NoError(t, there.Write.Lock(them))
		reads := testbed.Start(func() error { return here.Read.Lock(me) })
		require.True(t, testbed.Pending(reads))
		writes := testbed.Start(func() error { return here.Write.Lock(me) })
		require.True(t, testbed.Pending(writes))
		again := testbed.Start(func() error { return here.Read.Lock(me) })
		require.True(t, testbed.Pending(again))
		require.NoError(t, there.Write.Unlock(them))
		require.NoError(t, testbed.Soon(reads))
		require.NoError(t, testbed.Soon(again), "a reader nests, though a writer waits")
		require.ErrorIs(t, testbed.Soon(writes), rlock.ErrUpgrade)
		assert.Equal(t, 2, here.Read.HoldCount(me))
		require.NoError(t, here.Read.Unlock(me))
		require.NoError(t, here.Read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestAReaderNestsInTheWriteLockThatItsOwnerIsGranted(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		there, here, me, them := w.NewRWClient(), w.NewRWClient(), w.Caller(), w.Caller()
		require.NoError(t, there.Write.Lock(them))
		writes := testbed.Start(func() error { return here.Write.Lock(me) })
		require.True(t, testbed.Pending(writes))
		reads := testbed.Start(func() error { return here.Read.Lock(me) })
		require.True(t, testbed.Pending(reads))
		require.NoError(t, there.Write.Unlock(them))
		require.NoError(t, testbed.Soon(writes))
		require.NoError(t, testbed.Soon(reads))
		require.NoError(t, here.Write.Unlock(me))
		assert.True(t, here.Read.IsHeld(me))
		require.NoError(t, here.Read.Unlock(me))
	})
}

func TestAReaderThatJoinsTakesItsOwnersOtherGoroutinesAlong(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		there, here := w.NewRWClient(), w.NewRWClient()
		them, one, two, writer := w.Caller(), w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, there.Write.Lock(them))
		var waiting []<-chan error
		for _, me := range []func() error{
			func() error { return here.Read.Lock(one) },
			func() error { return here.Read.Lock(two) },
			func() error { return here.Write.Lock(writer) },
			func() error { return here.Read.Lock(two) },
		} {
			waiting = append(waiting, testbed.Start(me))
			require.True(t, testbed.Pending(waiting[len(waiting)-1]))
		}
		require.NoError(t, there.Write.Unlock(them))
		for _, i := range []int{0, 1, 3} {
			require.NoError(t, testbed.Soon(waiting[i]))
		}
		require.True(t, testbed.Pending(waiting[2]))
		require.NoError(t, here.Read.Unlock(one))
		require.NoError(t, here.Read.Unlock(two))
		require.True(t, testbed.Pending(waiting[2]))
		require.NoError(t, here.Read.Unlock(two))
		require.NoError(t, testbed.Soon(waiting[2]))
		require.NoError(t, here.Write.Unlock(writer))
	})
}
