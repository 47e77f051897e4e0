package rlock_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
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
