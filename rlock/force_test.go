package rlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson: testForceUnlock.
func TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		forced, err := lock.ForceUnlock(s.ctx)
		require.NoError(t, err)
		assert.False(t, forced, "no owner holds the lock")

		require.NoError(t, lock.Lock(s.ctx))
		require.NoError(t, lock.Lock(s.ctx))
		elsewhere(func() {
			forced, err := lock.ForceUnlock(s.ctx)
			assert.NoError(t, err)
			assert.True(t, forced)
		})
		locked, err := lock.IsLocked(s.ctx)
		require.NoError(t, err)
		assert.False(t, locked)
		assert.False(t, lock.IsHeld(s.ctx), "the holder of the same client knows at once")
		assert.ErrorIs(t, lock.Lock(s.ctx), rlock.ErrLost, "a nested Lock fails after a loss")
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrLost, "the loss is reported once for each level")
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrNotHeld)
		require.Eventually(t, func() bool { return s.isFree(lock) }, hang, time.Millisecond, "the other parts are released")
	})
}

func TestAForceUnlockByAnotherClientIsLearntAtTheNextRenewal(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		here, there := w.process(), w.process()
		within(t, 0, 10*time.Second+10*time.Millisecond, func() {
			learnsOfForce(w.caller(), t, here.lock(key), there.lock(key))
		})
	})
}

// On each server all kinds run at the same time: they wait for their renewals.
func TestAForceUnlockByAnotherClientIsLearntWhateverTheServer(t *testing.T) {
	redistest.Over(t, everyServer[1:], func(t *testing.T, server *redistest.Server) {
		s := &subject{site: at(t, server)}
		s.sites = []*site{s.site}
		s.leavesNothing()
		var all sync.WaitGroup
		for _, k := range kinds {
			if k.servers > 1 {
				continue
			}
			s.kind = k
			here, there := s.process(withLease(3*time.Second)), s.process()
			all.Go(func() {
				t.Run(k.name, func(t *testing.T) {
					learnsOfForce(s.ctx, t, here.lock(k.name), there.lock(k.name))
				})
			})
		}
		all.Wait()
	})
}

// In learnsOfForce one client takes the lock and another unlocks it by force; it returns when
// the former holder knows.
func learnsOfForce(ctx context.Context, t *testing.T, here, there *trial) {
	hold, err := here.Acquire(ctx)
	require.NoError(t, err)
	forced, err := there.ForceUnlock(ctx)
	require.NoError(t, err)
	assert.True(t, forced)
	require.NoError(t, there.rival.Lock(ctx), "the lock is free")
	select {
	case <-hold.Context().Done():
	case <-ctx.Done():
		require.FailNow(t, "the holder was not notified")
	}
	assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	assert.ErrorIs(t, hold.Release(ctx), rlock.ErrLost)
	assert.True(t, there.rival.IsHeld(ctx))
	require.NoError(t, there.rival.Unlock(ctx), "the next holder's lock is unchanged")
}

func TestAForceUnlockByAnotherClientIsLearntByUnlock(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.kind.lingers > 0 {
			t.Skip("Unlock does not ask Redis")
		}
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		_, err := there.ForceUnlock(s.ctx)
		require.NoError(t, err)
		require.NoError(t, there.rival.Lock(s.ctx))
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld)
		assert.True(t, there.rival.IsHeld(s.ctx))
		require.NoError(t, there.rival.Unlock(s.ctx), "the next holder's lock is unchanged")
	})
}

func TestAHoldIsLostWhenTheLockIsUnlockedByForce(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		hold, err := lock.Acquire(s.ctx)
		require.NoError(t, err)
		forced, err := lock.ForceUnlock(s.ctx)
		require.NoError(t, err)
		assert.True(t, forced)
		<-hold.Context().Done()
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
	})
}

func TestEachOfTheTwoLocksIsFreedByForceOnlyByItself(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client().NewReadWriteLock(key), s.client().NewReadWriteLock(key)
		me, other := rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner())
		force := func(lock locker, want bool) {
			t.Helper()
			forced, err := lock.ForceUnlock(s.ctx)
			require.NoError(t, err)
			assert.Equal(t, want, forced)
		}
		force(here.Read(), false)
		force(here.Write(), false)

		require.NoError(t, here.Write().Lock(me))
		require.NoError(t, here.Read().Lock(me))
		force(there.Read(), false)
		assert.False(t, s.available(there.Read()))
		force(there.Write(), true)
		assert.True(t, s.available(there.Write()))
		_, err := here.Write().ForceUnlock(s.ctx)
		require.NoError(t, err)

		client := s.client().NewReadWriteLock(key)
		require.NoError(t, client.Read().Lock(me))
		hold, err := client.Read().Acquire(s.ctx)
		require.NoError(t, err)
		require.NoError(t, there.Read().Lock(other))
		force(client.Write(), false)
		assert.False(t, s.available(there.Write()))
		force(client.Read(), true)
		assert.True(t, s.available(s.client().NewReadWriteLock(key).Write()))
		assert.ErrorIs(t, client.Read().Unlock(me), rlock.ErrLost, "the holder of the same client knows at once")
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, there.Read().Unlock(other), rlock.ErrLost)
	})
}

func TestForceUnlockFreesAllPermits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client().NewSemaphore(key, 2), w.client().NewSemaphore(key, 2)
		mine, theirs := permits(t, w.ctx, here, 1)[0], permits(t, w.ctx, there, 1)[0]
		freed, err := here.ForceUnlock(w.ctx)
		require.NoError(t, err)
		assert.True(t, freed)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(mine.Context()), rlock.ErrLost, "at once")
		assert.Empty(t, w.Keys())
		<-theirs.Context().Done()
		require.ErrorIs(t, theirs.Release(w.ctx), rlock.ErrLost, "found by the next renewal")
	})
}
