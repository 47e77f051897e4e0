package rlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnOwnerTravelsWithTheContextOverACallTreeOfGoroutines(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		ctx, cancel := context.WithCancel(rlock.WithOwner(s.ctx, rlock.NewOwner()))
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
		assert.Zero(t, lock.HoldCount(s.ctx), "the goroutine itself is not the owner")
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrNotHeld)
		for range 5 {
			elsewhere(func() { assert.NoError(t, lock.Unlock(ctx)) })
		}
		assert.True(t, s.isFree(lock))
	})
}

func TestTwoOwnersInOneGoroutineKeepEachOtherOut(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		one, two := rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner())
		require.NoError(t, lock.Lock(one))
		for _, ctx := range []context.Context{two, s.ctx} {
			taken, err := lock.rival.TryLock(ctx)
			require.NoError(t, err)
			assert.False(t, taken)
			assert.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld)
		}
		assert.True(t, lock.IsHeld(one))
		require.NoError(t, lock.Unlock(one))
	})
}

func TestAHoldNestsInTheOwnerOfItsContext(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		owner := rlock.NewOwner()
		ctx := rlock.WithOwner(s.ctx, owner)
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
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		for _, owner := range []uint64{uint64(rlock.NewOwner()), p.Held()[0].Owner} {
			assert.Equal(t, owner, uint64(float64(owner)))
		}
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestTheOwnerOfAHoldIsNoOwnerForAContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		assert.Panics(t, func() { rlock.WithOwner(w.ctx, rlock.Owner(p.Held()[0].Owner)) })
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestAGoroutineIsNoOwnerForAContext(t *testing.T) {
	assert.Panics(t, func() { rlock.WithOwner(context.Background(), 42) })
	assert.Panics(t, func() { rlock.WithOwner(context.Background(), rlock.Owner(rlock.GoroutineID())) })
}

func TestAGoroutineIsKnownWithoutTheRuntimesLayoutToo(t *testing.T) {
	seen := make(map[uint64]bool)
	for range 100 {
		done := make(chan uint64)
		go func() {
			id := rlock.PrintedGoroutineID()
			assert.Equal(t, rlock.GoroutineID(), id)
			done <- id
		}()
		id := <-done
		assert.False(t, seen[id])
		seen[id] = true
	}
}

func TestAnOwnerInSeveralGoroutinesDoesNotWaitForItself(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		holder, p := w.process().lock(key), w.process().lock(key)
		for _, held := range []bool{false, true} {
			them, me := w.caller(), w.caller()
			if held {
				require.NoError(t, holder.rival.Lock(them))
			}
			const goroutines = 3
			var waiting [goroutines]<-chan error
			for i := range waiting {
				waiting[i] = start(func() error { return p.Lock(me) })
				require.True(t, !held || pending(waiting[i]))
			}
			if held {
				require.NoError(t, holder.rival.Unlock(them))
			}
			for _, result := range waiting {
				require.NoError(t, soon(result))
			}
			w.settle()
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
			eachExclusiveVirtualKind(t, func(t *testing.T, w *virtualKind) {
				if w.kind.name == "red" {
					t.Skip("a RedLock promises no order")
				}
				p := w.process().lock(key)
				holder := p
				if where == "another client has it" {
					holder = w.process().lock(key)
				}
				them, me, other := w.caller(), w.caller(), w.caller()
				require.NoError(t, holder.Lock(them))
				first := start(func() error { return p.Lock(me) })
				require.True(t, pending(first))
				between := start(func() error { return p.Lock(other) })
				require.True(t, pending(between))
				last := start(func() error { return p.LockFor(me, time.Hour) })
				require.True(t, pending(last))

				require.NoError(t, holder.Unlock(them))
				require.NoError(t, soon(first))
				require.NoError(t, soon(last))
				assert.Equal(t, 2, p.HoldCount(me))
				require.NoError(t, p.Unlock(me))
				require.True(t, pending(between))
				require.NoError(t, p.Unlock(me))
				require.NoError(t, soon(between))
				require.NoError(t, p.Unlock(other))
				w.drain()
				assert.Empty(t, w.keys())
			})
		})
	}
}

func TestAHandleOfAnOwnerThatWaitsTwiceIsOneLevel(t *testing.T) {
	eachExclusiveVirtualKind(t, func(t *testing.T, w *virtualKind) {
		holder, p := w.process().lock(key), w.process().lock(key)
		them, me := w.caller(), w.caller()
		require.NoError(t, holder.Lock(them))
		var one, two *rlock.Hold
		acquire := func(h **rlock.Hold) <-chan error {
			result := start(func() (err error) {
				*h, err = p.Acquire(me)
				return err
			})
			require.True(t, pending(result))
			return result
		}
		first, second := acquire(&one), acquire(&two)
		require.NoError(t, holder.Unlock(them))
		require.NoError(t, soon(first))
		require.NoError(t, soon(second))
		require.NoError(t, context.Cause(one.Context()))
		require.NoError(t, one.Release(w.ctx))
		require.NoError(t, context.Cause(two.Context()))
		require.NoError(t, two.Release(w.ctx))
		w.drain()
		assert.Empty(t, w.keys())
	})
}

func TestAnOwnerThatWaitsToWriteIsRefusedOnceItReads(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		there, here, me, them := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, there.write.Lock(them))
		reads := start(func() error { return here.read.Lock(me) })
		require.True(t, pending(reads))
		writes := start(func() error { return here.write.Lock(me) })
		require.True(t, pending(writes))
		again := start(func() error { return here.read.Lock(me) })
		require.True(t, pending(again))
		require.NoError(t, there.write.Unlock(them))
		require.NoError(t, soon(reads))
		require.NoError(t, soon(again), "a reader nests, though a writer waits")
		require.ErrorIs(t, soon(writes), rlock.ErrUpgrade)
		assert.Equal(t, 2, here.read.HoldCount(me))
		require.NoError(t, here.read.Unlock(me))
		require.NoError(t, here.read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestAReaderNestsInTheWriteLockThatItsOwnerIsGranted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		there, here, me, them := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, there.write.Lock(them))
		writes := start(func() error { return here.write.Lock(me) })
		require.True(t, pending(writes))
		reads := start(func() error { return here.read.Lock(me) })
		require.True(t, pending(reads))
		require.NoError(t, there.write.Unlock(them))
		require.NoError(t, soon(writes))
		require.NoError(t, soon(reads))
		require.NoError(t, here.write.Unlock(me))
		assert.True(t, here.read.IsHeld(me))
		require.NoError(t, here.read.Unlock(me))
	})
}

func TestAReaderThatJoinsTakesItsOwnersOtherGoroutinesAlong(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		there, here := w.rwClient(), w.rwClient()
		them, one, two, writer := w.caller(), w.caller(), w.caller(), w.caller()
		require.NoError(t, there.write.Lock(them))
		var waiting []<-chan error
		for _, me := range []func() error{
			func() error { return here.read.Lock(one) },
			func() error { return here.read.Lock(two) },
			func() error { return here.write.Lock(writer) },
			func() error { return here.read.Lock(two) },
		} {
			waiting = append(waiting, start(me))
			require.True(t, pending(waiting[len(waiting)-1]))
		}
		require.NoError(t, there.write.Unlock(them))
		for _, i := range []int{0, 1, 3} {
			require.NoError(t, soon(waiting[i]))
		}
		require.True(t, pending(waiting[2]))
		require.NoError(t, here.read.Unlock(one))
		require.NoError(t, here.read.Unlock(two))
		require.True(t, pending(waiting[2]))
		require.NoError(t, here.read.Unlock(two))
		require.NoError(t, soon(waiting[2]))
		require.NoError(t, here.write.Unlock(writer))
	})
}
