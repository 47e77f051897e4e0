package groups_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneAttemptFailsWithTheErrorsOfTheMajorityAndAWaitRetries(t *testing.T) {
	testbed.ManyCommands(t)
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		for _, client := range m.TestClients[1:4] {
			client.Net.Refuse()
		}
		taken, err := m.TryLock(me)
		assert.False(t, taken)
		require.Error(t, err)
		assert.NotErrorIs(t, err, rlock.ErrNotAcquired, "no other owner holds the lock")
		w.Settle()
		assert.Empty(t, w.have())

		ctx, cancel := context.WithTimeout(me, 10*time.Second)
		defer cancel()
		testbed.Within(t, 10*time.Second, 10*time.Second, func() { require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded) })
		result := testbed.Start(func() error { return m.Lock(me) })
		time.Sleep(10 * time.Second)
		require.True(t, testbed.Pending(result))
		m.Heal()
		testbed.Within(t, 0, time.Second, func() { require.NoError(t, <-result) })
		require.NoError(t, m.Unlock(me))
	})
}

func TestARedLockWithoutAnswersFromAMajorityIsNotReportedAsHeld(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		for _, client := range m.TestClients[2:] {
			client.Net.SetRoundTrip(400 * time.Millisecond)
		}
		testbed.Within(t, 0, 400*time.Millisecond, func() {
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
		w.Settle()
		taken, err = them.TryLockFor(w.Caller(), 10*time.Millisecond, 0)
		require.NoError(t, err, "another owner holds the lock")
		assert.False(t, taken)
		require.NoError(t, them.Unlock(me))
	})
}

func TestARedLockReturnsAPermanentErrorAtOnce(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		for _, world := range w.Worlds[2:] {
			require.NoError(t, world.Set(testbed.Key, "a string"))
		}
		testbed.Within(t, 0, time.Second, func() { require.ErrorIs(t, m.Lock(me), rlock.ErrWrongType) })
		w.Worlds[2].Del(testbed.Key)
		require.NoError(t, m.Lock(me), "a failing minority does not matter")
		require.NoError(t, m.Unlock(me))
		w.Worlds[3].Del(testbed.Key)
		w.Worlds[4].Del(testbed.Key)
		require.NoError(t, m.Clients[0].Close())
		require.NoError(t, m.Lock(me))
		require.NoError(t, m.Unlock(me), "nor do closed clients, if they are a minority")
		require.NoError(t, m.Clients[1].Close())
		require.NoError(t, m.Clients[2].Close())
		require.ErrorIs(t, m.Lock(me), rlock.ErrClosed)
	})
}

func TestARedLockIsRefusedIfMostKeysHoldOtherData(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, world := range w.Worlds[2:] {
			world.HSet(testbed.Key, "status", "new")
		}
		testbed.Within(t, 0, time.Second, func() { require.ErrorIs(t, m.Lock(w.Caller()), rlock.ErrWrongType) })
		for _, world := range w.Worlds[2:] {
			require.Equal(t, "new", world.HGet(testbed.Key, "status"))
			world.Del(testbed.Key)
		}
	})
}

func TestTheErrorOfARedLockSaysWhatTheServersSaidLast(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, world := range w.Worlds[2:] {
			world.AnswerScripts("READONLY You can't write against a read only replica.")
		}
		for _, wait := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 333 * time.Millisecond, time.Minute} {
			ctx, cancel := context.WithTimeout(w.Caller(), wait)
			err := m.Lock(ctx)
			cancel()
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "READONLY", wait)
		}
		for _, world := range w.Worlds[2:] {
			world.AnswerScripts("")
		}
	})
}

func TestALineLogsWhyARedLockIsNotServed(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, world := range w.Worlds[2:] {
			world.AnswerScripts(testbed.Passing[1])
		}
		ctx, cancel := context.WithTimeout(w.Caller(), 30*time.Second)
		defer cancel()
		require.Error(t, m.Lock(ctx))
		assert.Equal(t, 1, m.TestClients[0].Logged(testbed.Unserved))
		assert.Equal(t, 1, m.TestClients[0].Logged("READONLY"))
	})
}
