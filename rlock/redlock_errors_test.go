package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneAttemptFailsWithTheErrorsOfTheMajorityAndAWaitRetries(t *testing.T) {
	manyCommands(t)
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.caller()
		for _, client := range m.testClients[1:4] {
			client.net.Refuse()
		}
		taken, err := m.TryLock(me)
		assert.False(t, taken)
		require.Error(t, err)
		assert.NotErrorIs(t, err, rlock.ErrNotAcquired, "no other owner holds the lock")
		w.settle()
		assert.Empty(t, w.have())

		ctx, cancel := context.WithTimeout(me, 10*time.Second)
		defer cancel()
		within(t, 10*time.Second, 10*time.Second, func() { require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded) })
		result := start(func() error { return m.Lock(me) })
		time.Sleep(10 * time.Second)
		require.True(t, pending(result))
		m.heal()
		within(t, 0, time.Second, func() { require.NoError(t, <-result) })
		require.NoError(t, m.Unlock(me))
	})
}

func TestARedLockWithoutAnswersFromAMajorityIsNotReportedAsHeld(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.caller()
		for _, client := range m.testClients[2:] {
			client.net.SetRoundTrip(400 * time.Millisecond)
		}
		within(t, 0, 400*time.Millisecond, func() {
			taken, err := m.TryLockFor(me, 10*time.Millisecond, 0)
			assert.False(t, taken)
			require.Error(t, err, "false would mean that another owner holds the lock")
			assert.NotErrorIs(t, err, rlock.ErrNotAcquired)
			assert.ErrorContains(t, err, "has not answered")
		})
		time.Sleep(time.Second)
		taken, err := m.TryLockFor(me, time.Second, 0)
		require.NoError(t, err)
		assert.True(t, taken)
		require.NoError(t, m.Unlock(me))

		them := w.member()
		require.NoError(t, them.Lock(me))
		w.settle()
		taken, err = them.TryLockFor(w.caller(), 10*time.Millisecond, 0)
		require.NoError(t, err, "another owner holds the lock")
		assert.False(t, taken)
		require.NoError(t, them.Unlock(me))
	})
}

func TestARedLockReturnsAPermanentErrorAtOnce(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.caller()
		for _, world := range w.worlds[2:] {
			require.NoError(t, world.Set(key, "a string"))
		}
		within(t, 0, time.Second, func() { require.ErrorIs(t, m.Lock(me), rlock.ErrWrongType) })
		w.worlds[2].Del(key)
		require.NoError(t, m.Lock(me), "a failing minority does not matter")
		require.NoError(t, m.Unlock(me))
		w.worlds[3].Del(key)
		w.worlds[4].Del(key)
		require.NoError(t, m.clients[0].Close())
		require.NoError(t, m.Lock(me))
		require.NoError(t, m.Unlock(me), "nor do closed clients, if they are a minority")
		require.NoError(t, m.clients[1].Close())
		require.NoError(t, m.clients[2].Close())
		require.ErrorIs(t, m.Lock(me), rlock.ErrClosed)
	})
}

func TestARedLockIsRefusedIfMostKeysHoldOtherData(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, world := range w.worlds[2:] {
			world.HSet(key, "status", "new")
		}
		within(t, 0, time.Second, func() { require.ErrorIs(t, m.Lock(w.caller()), rlock.ErrWrongType) })
		for _, world := range w.worlds[2:] {
			require.Equal(t, "new", world.HGet(key, "status"))
			world.Del(key)
		}
	})
}

func TestTheErrorOfARedLockSaysWhatTheServersSaidLast(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, world := range w.worlds[2:] {
			world.answerScripts("READONLY You can't write against a read only replica.")
		}
		for _, wait := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 333 * time.Millisecond, time.Minute} {
			ctx, cancel := context.WithTimeout(w.caller(), wait)
			err := m.Lock(ctx)
			cancel()
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "READONLY", wait)
		}
		for _, world := range w.worlds[2:] {
			world.answerScripts("")
		}
	})
}
