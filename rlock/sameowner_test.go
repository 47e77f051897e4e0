package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// An owner in several goroutines nests with itself, even while it waits: a grant to one of
// them admits the others, wherever they are in the queue.

// soon returns the result of a call, or an error when ten virtual seconds have passed.
func soon(result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-time.After(10 * time.Second):
		return errors.New("it waits")
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
