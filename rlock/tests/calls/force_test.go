package calls_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson: testForceUnlock.
func TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		lock := s.NewLock()
		assert.False(t, testbed.Frees(t, s.Ctx, lock), "no owner holds the lock")

		require.NoError(t, lock.Lock(s.Ctx))
		require.NoError(t, lock.Lock(s.Ctx))
		testbed.Elsewhere(func() {
			forced, err := lock.ForceUnlock(s.Ctx)
			assert.NoError(t, err)
			assert.True(t, forced)
		})
		assert.False(t, testbed.IsLocked(t, s.Ctx, lock))
		assert.False(t, lock.IsHeld(s.Ctx), "the holder of the same client knows at once")
		assert.ErrorIs(t, lock.Lock(s.Ctx), rlock.ErrLost, "a nested Lock fails after a loss")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrLost)
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrLost, "the loss is reported once for each level")
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)
		require.Eventually(t, func() bool { return s.IsFree(lock) }, testbed.Hang, time.Millisecond, "the other parts are released")
	})
}

// On each server all kinds run at the same time: they wait for their renewals.
func TestAForceUnlockByAnotherClientIsLearntWhateverTheServer(t *testing.T) {
	redistest.Over(t, testbed.EveryServer[1:], func(t *testing.T, server *redistest.Server) {
		s := &testbed.Subject{Site: testbed.At(t, server)}
		s.Sites = []*testbed.Site{s.Site}
		s.LeavesNothing()
		var all sync.WaitGroup
		for _, k := range testbed.Kinds {
			if k.Servers > 1 {
				continue
			}
			s.KindOfLock = k
			here, there := s.NewProcess(testbed.WithLease(3*time.Second)), s.NewProcess()
			all.Go(func() {
				t.Run(k.Name, func(t *testing.T) {
					learnsOfForce(s.Ctx, t, here.NewLock(k.Name), there.NewLock(k.Name))
				})
			})
		}
		all.Wait()
	})
}

// In learnsOfForce one client takes the lock and another unlocks it by force; it returns when
// the former holder knows.
func learnsOfForce(ctx context.Context, t *testing.T, here, there *testbed.Trial) {
	hold := testbed.Take(t, ctx, here)
	assert.True(t, testbed.Frees(t, ctx, there))
	require.NoError(t, there.Rival.Lock(ctx), "the lock is free")
	testbed.RequireLoss(t, ctx, hold)
	assert.True(t, there.Rival.IsHeld(ctx))
	require.NoError(t, there.Rival.Unlock(ctx), "the next holder's lock is unchanged")
}

func TestEachOfTheTwoLocksIsFreedByForceOnlyByItself(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		me, other := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		force := func(lock testbed.Locker, want bool) {
			t.Helper()
			forced, err := lock.ForceUnlock(s.Ctx)
			require.NoError(t, err)
			assert.Equal(t, want, forced)
		}
		force(here.Read(), false)
		force(here.Write(), false)

		require.NoError(t, here.Write().Lock(me))
		require.NoError(t, here.Read().Lock(me))
		force(there.Read(), false)
		assert.False(t, s.IsFree(there.Read()))
		force(there.Write(), true)
		assert.True(t, s.IsFree(there.Write()))
		testbed.Frees(t, s.Ctx, here.Write())

		client := s.NewClient().NewReadWriteLock(testbed.Key)
		require.NoError(t, client.Read().Lock(me))
		hold := testbed.Take(t, s.Ctx, client.Read())
		require.NoError(t, there.Read().Lock(other))
		force(client.Write(), false)
		assert.False(t, s.IsFree(there.Write()))
		force(client.Read(), true)
		assert.True(t, s.IsFree(s.NewClient().NewReadWriteLock(testbed.Key).Write()))
		assert.ErrorIs(t, client.Read().Unlock(me), rlock.ErrLost, "the holder of the same client knows at once")
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, there.Read().Unlock(other), rlock.ErrLost)
	})
}
