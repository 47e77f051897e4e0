package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// Errors name the holder of the lock, as far as the client knows it.

func TestARefusalNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		me := w.caller()
		owner, _ := rlock.OwnerFrom(me)
		refusal := func(p *testClient, wait time.Duration) string {
			_, err := p.NewLock(key).Acquire(w.ctx, rlock.WithWait(wait))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err.Error()
		}
		for _, wait := range []time.Duration{0, time.Second} {
			require.NoError(t, here.NewLock(key).Lock(me))
			assert.Contains(t, refusal(here, wait), "held by owner "+fmt.Sprint(owner)+" of this process")
			assert.Contains(t, refusal(there, wait), "held by "+here.ID())
			assert.Contains(t, refusal(there, wait), fmt.Sprint(owner)+" of another client")
			require.NoError(t, here.NewLock(key).Unlock(me))

			hold, err := here.NewLock(key).Acquire(w.ctx)
			require.NoError(t, err)
			assert.Contains(t, refusal(here, wait), "held by a Hold of this process")
			require.NoError(t, hold.Release(w.ctx))

			w.HSet(key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
			w.SetTTL(key, time.Hour)
			assert.Contains(t, refusal(here, wait), "held by 7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1, which is no client of rlock")
			w.Del(key)
			time.Sleep(3 * time.Second) // until the abandoned tickets are gone
		}
	})
}

func TestALockThatTimesOutNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		require.NoError(t, here.NewLock(key).Lock(w.ctx))
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		err := there.NewLock(key).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "held by "+here.ID())
		require.NoError(t, here.NewLock(key).Unlock(w.ctx))
	})
}

func TestAnUnlockInAnotherGoroutineSaysWhereToUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		require.NoError(t, lock.Lock(w.ctx))
		err := <-start(func() error { return lock.Unlock(w.ctx) })
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by goroutine ")
		require.ErrorContains(t, err, "unlock there, or use Acquire or WithOwner")
		require.NoError(t, lock.Unlock(w.ctx))
	})
}

func TestAnUnlockOfALockThatAHoldHasRefersToRelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		hold, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		err = lock.Unlock(w.ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by a Hold of this process: call its Release")
		require.NoError(t, hold.Release(w.ctx))
	})
}
