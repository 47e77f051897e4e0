package groups_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/rlocktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests over all kinds cover RedLock as one of the kinds. These are the differences, over
// five servers.

// A fiveWorlds is so many independent worlds, five as a rule.
type fiveWorlds struct {
	*testbed.VirtualKind
}

func quorum(t *testing.T, run func(t *testing.T, w *fiveWorlds)) {
	t.Helper()
	quorumOf(5, t, run)
}

// quorumOf is quorum with another number of servers.
func quorumOf(servers int, t *testing.T, run func(t *testing.T, w *fiveWorlds)) {
	t.Helper()
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		r := &testbed.VirtualKind{World: w, Kind: testbed.Kind{Name: "red", Lock: testbed.RedLock}, Worlds: []*testbed.World{w}}
		for len(r.Worlds) < servers {
			r.Worlds = append(r.Worlds, testbed.NewWorld(t, w.Ctx))
		}
		run(t, &fiveWorlds{r})
	})
}

// member is a peer, with its lock.
type member struct {
	*testbed.Peer
	testbed.Locker
}

func (w *fiveWorlds) member(changes ...func(*rlock.Config)) *member {
	w.T.Helper()
	p := w.NewProcess(changes...)
	return &member{p, rlock.NewRedLock(p.Clients, testbed.Key)}
}

// have returns the servers that have the key.
func (w *fiveWorlds) have() (servers []int) {
	for i, world := range w.Worlds {
		if world.Exists(testbed.Key) {
			servers = append(servers, i)
		}
	}
	return servers
}

// occupy gives the key on these servers to another client.
func (w *fiveWorlds) occupy(servers ...int) {
	for _, i := range servers {
		w.Worlds[i].HSet(testbed.Key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
		w.Worlds[i].SetTTL(testbed.Key, time.Hour)
	}
}

func TestARedLockOfNothingIsErrInvalidConfig(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		one, other := w.NewClient(), rlocktest.New(t)
		for what, bad := range map[string]struct {
			lock *rlock.Lock
			err  error
		}{
			"no clients":         {rlock.NewRedLock(nil, testbed.Key), rlock.ErrInvalidConfig},
			"no majority":        {rlock.NewRedLock([]*rlock.Client{one.Client, nil}, testbed.Key), rlock.ErrInvalidConfig},
			"nil clients":        {rlock.NewRedLock([]*rlock.Client{nil, nil, nil}, testbed.Key), rlock.ErrInvalidConfig},
			"one twice, and nil": {rlock.NewRedLock([]*rlock.Client{nil, one.Client, one.Client}, testbed.Key), rlock.ErrInvalidConfig},
			"one twice":          {rlock.NewRedLock([]*rlock.Client{one.Client, other, one.Client}, testbed.Key), rlock.ErrInvalidConfig},
			"no name":            {rlock.NewRedLock([]*rlock.Client{one.Client, other}, ""), rlock.ErrInvalidName},
		} {
			for method, err := range testbed.EveryMethod(w.Ctx, bad.lock) {
				assert.ErrorIs(t, err, bad.err, "%s: %s", what, method)
			}
			assert.False(t, bad.lock.IsHeld(w.Ctx))
		}
		assert.Empty(t, one.Net.Sent("EVALSHA"), "no command")

		single := rlock.NewRedLock([]*rlock.Client{one.Client}, testbed.Key)
		require.NoError(t, single.Lock(w.Ctx))
		assert.False(t, testbed.Tries(t, w.Caller(), single))
		require.NoError(t, single.Unlock(w.Ctx), "over one server a RedLock is a Lock")
	})
}

func TestAServerWithoutAClientIsOneThatGrantsNothing(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		all, me := w.NewProcess().Clients, w.Caller()
		some := rlock.NewRedLock([]*rlock.Client{nil, all[1], nil, all[3], all[4]}, testbed.Key)
		whole := rlock.NewRedLock(w.NewProcess().Clients, testbed.Key)

		require.NoError(t, some.Lock(me))
		require.Equal(t, []int{1, 3, 4}, w.have())
		require.False(t, testbed.Tries(t, w.Caller(), whole), "three of five are a majority")
		require.NoError(t, some.Unlock(me))

		w.Settle()
		w.occupy(4)
		require.False(t, testbed.Tries(t, w.Caller(), some), "two of five are not")
		require.NoError(t, whole.Lock(me), "the others are")
		require.NoError(t, whole.Unlock(me))
		w.Settle()
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
		assert.True(t, testbed.TriesFor(t, me, m, time.Second))
		taken, err := m.TryLockFor(w.Caller(), 10*time.Millisecond, 0)
		require.NoError(t, err, "another owner holds the lock")
		assert.False(t, taken)
		require.NoError(t, m.Unlock(me))
	})
}

func TestARedLockReturnsAPermanentErrorAtOnce(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		for _, world := range w.Worlds[2:] {
			world.HSet(testbed.Key, "status", "new")
		}
		testbed.Within(t, 0, time.Second, func() { require.ErrorIs(t, m.Lock(me), rlock.ErrWrongType) })
		assert.Equal(t, "new", w.Worlds[2].HGet(testbed.Key, "status"))
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

func TestTheErrorAndTheLogOfARedLockSayWhatTheServersSaidLast(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, world := range w.Worlds[2:] {
			world.AnswerScripts(testbed.Passing[1])
		}
		for _, wait := range []time.Duration{time.Millisecond, 333 * time.Millisecond, 30 * time.Second} {
			ctx, cancel := context.WithTimeout(w.Caller(), wait)
			err := m.Lock(ctx)
			cancel()
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "READONLY", wait)
		}
		assert.Equal(t, 1, m.TestClients[0].Logged(testbed.Unserved))
		assert.Equal(t, 1, m.TestClients[0].Logged("READONLY"))
	})
}
