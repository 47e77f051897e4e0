package rlock_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// The context of a hold carries the hold: the same lock nests, from any goroutine.

func TestALockNestsInItsHoldFromAnyGoroutineThatHasTheContext(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		lock := p.lock(key)
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
				return p.lock(key).Do(ctx, func(context.Context) error { return nil })
			},
		} {
			elsewhereWith := func(ctx context.Context) error {
				return <-start(func() error { return nest(ctx) })
			}
			require.NoError(t, lock.Do(w.ctx, elsewhereWith), "in Do: %s", name)

			h, err := lock.Acquire(w.ctx)
			require.NoError(t, err)
			require.NoError(t, elsewhereWith(h.Context()), "in the context of a hold: %s", name)
			require.NoError(t, elsewhereWith(h.With(w.ctx)), "in a context with the hold: %s", name)
			require.True(t, h.Valid())
			require.NoError(t, h.Release(w.ctx))
		}
	})
}

func TestOtherLocksAreNotAffectedByAHoldsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		require.NoError(t, p.NewLock(key).Do(w.ctx, func(ctx context.Context) error {
			_, carries := rlock.OwnerFrom(ctx)
			assert.False(t, carries)
			other := p.NewLock("another")
			require.NoError(t, other.Lock(ctx)) // taken by this goroutine
			assert.True(t, other.IsHeld(w.ctx))
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
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		h, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		assert.True(t, lock.IsHeld(h.Context()))
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.NewOwner())))
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.Owner(0))))
		assert.True(t, lock.IsHeld(h.With(w.caller())))
		require.NoError(t, h.Release(w.ctx))
	})
}

func TestPartsNestInTheHoldOfTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		a, b := p.NewLock("a"), p.NewLock("b")
		both := rlock.NewMultiLock(a, b)
		require.NoError(t, both.Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return a.Do(ctx, func(context.Context) error { return nil }) })
		}))
		require.NoError(t, a.Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return both.Do(ctx, func(context.Context) error { return nil }) })
		}))
	})
}

func TestAWriterReadsInItsHoldAndAReaderIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rw := w.client().NewReadWriteLock(key)
		require.NoError(t, rw.Write().Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return rw.Read().Do(ctx, func(context.Context) error { return nil }) })
		}))
		err := rw.Read().Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return rw.Write().Lock(ctx) })
		})
		require.ErrorIs(t, err, rlock.ErrUpgrade)
	})
}

func TestALockInTheContextOfALostHoldIsRefusedWithTheReason(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		h, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, lock.Lock(h.Context()))
		w.Del(key)
		<-h.Context().Done()
		for _, ctx := range []context.Context{h.Context(), h.With(w.ctx)} {
			err = lock.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrLost, "the nested level is lost")
		require.ErrorIs(t, h.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrNotHeld)
	})
}

func TestAContextWithAHoldEndsWithTheLossAndWithTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		h, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		type requestKey struct{}
		request, cancel := context.WithTimeout(context.WithValue(w.ctx, requestKey{}, "42"), time.Second)
		defer cancel()
		first, second := h.With(request), h.With(w.ctx)
		assert.Equal(t, "42", first.Value(requestKey{}))

		<-first.Done()
		require.ErrorIs(t, first.Err(), context.DeadlineExceeded)
		require.NoError(t, second.Err())
		require.NoError(t, context.Cause(h.Context()), "the end of a request does not release the lock")

		w.Del(key)
		<-second.Done()
		require.ErrorIs(t, context.Cause(second), rlock.ErrLost)
		require.ErrorIs(t, h.Release(w.ctx), rlock.ErrLost)
		third := h.With(w.ctx)
		<-third.Done()
	})
}

func TestDoTakesTheOptionsOfAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client().NewLock(key), w.client().NewLock(key)
		never := func(context.Context) error { panic("called") }
		require.NoError(t, here.Do(w.ctx, func(ctx context.Context) error {
			within(t, 0, 0, func() {
				require.ErrorIs(t, there.Do(w.ctx, never, rlock.WithWait(0)), rlock.ErrNotAcquired)
			})
			within(t, 3*time.Second, 3*time.Second, func() {
				require.ErrorIs(t, there.Do(w.ctx, never, rlock.WithWait(3*time.Second)), rlock.ErrNotAcquired)
			})
			return nil
		}))
		within(t, 58*time.Second, time.Minute, func() {
			err := here.Do(w.ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}, rlock.WithLease(time.Minute))
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		require.ErrorIs(t, here.Do(w.ctx, never, rlock.WithLease(-1)), rlock.ErrInvalidLease)
	})
}

// The context of With ends before another client can have the lock.
func TestAContextMadeOfAHoldEndsBeforeTheReleaseIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for range rounds(200) {
			hold, err := p.NewFairLock(key).Acquire(w.caller())
			require.NoError(t, err)
			merged := hold.With(w.ctx)
			ended := false
			p.net.Rule(func(f network.Frame) network.Fate {
				if f.Stage == network.Request && isScript(f, "released") {
					ended = merged.Err() != nil
				}
				return network.Pass
			})
			require.NoError(t, hold.Release(w.ctx))
			require.True(t, ended)
			require.ErrorIs(t, context.Cause(merged), rlock.ErrNotHeld)
		}
	})
}

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

func TestTheLogNamesTheOwnerThatLostTheLock(t *testing.T) {
	for name, line := range map[string]struct {
		handler func(j *journal) slog.Handler
		owner   func(owner uint64) string
	}{
		"text": {
			func(j *journal) slog.Handler { return slog.NewTextHandler(j, nil) },
			func(owner uint64) string { return " owner=" + strconv.FormatUint(owner, 10) + " " },
		},
		"JSON": {
			func(j *journal) slog.Handler { return slog.NewJSONHandler(j, nil) },
			func(owner uint64) string { return `,"owner":"` + strconv.FormatUint(owner, 10) + `",` },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				log := new(journal)
				p := w.client(func(c *rlock.Config) { c.Logger = slog.New(line.handler(log)) })
				hold, err := p.NewLock(key).Acquire(w.caller())
				require.NoError(t, err)
				owner := p.Held()[0].Owner
				w.Del(key)
				<-hold.Context().Done()
				synctest.Wait() // until the loss is logged
				assert.Equal(t, 1, log.count(line.owner(owner)))
				require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
			})
		})
	}
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
