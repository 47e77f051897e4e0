package groups_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
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
		taken, err := single.TryLock(w.Caller())
		require.NoError(t, err)
		assert.False(t, taken)
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
		taken, err := whole.TryLock(w.Caller())
		require.NoError(t, err)
		require.False(t, taken, "three of five are a majority")
		require.NoError(t, some.Unlock(me))

		w.Settle()
		w.occupy(4)
		taken, err = some.TryLock(w.Caller())
		require.NoError(t, err)
		require.False(t, taken, "two of five are not")
		require.NoError(t, whole.Lock(me), "the others are")
		require.NoError(t, whole.Unlock(me))
		w.Settle()
	})
}

func TestARedLockIsHeldByTheOwnerOfTheMajority(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		w.occupy(1, 3)
		require.NoError(t, m.Lock(me))
		w.Settle()
		assert.True(t, m.IsHeld(me))
		locked, err := m.IsLocked(me)
		require.NoError(t, err)
		assert.True(t, locked)
		require.NoError(t, m.Unlock(me))
		w.Settle()
		assert.Equal(t, []int{1, 3}, w.have())

		locked, err = m.IsLocked(me)
		require.NoError(t, err)
		assert.False(t, locked, "a minority of parts does not lock")
		w.occupy(4)
		taken, err := m.TryLock(me)
		require.NoError(t, err)
		assert.False(t, taken)
		w.Settle()
		assert.Equal(t, []int{1, 3, 4}, w.have(), "a failed attempt left a part")
		_, err = m.Acquire(me, rlock.WithWait(5*time.Second))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		w.Settle()
		assert.Equal(t, []int{1, 3, 4}, w.have())
		forced, err := m.ForceUnlock(me)
		require.NoError(t, err)
		assert.True(t, forced)
		assert.Empty(t, w.have())
	})
}

func TestARedLockIsHeldAsSoonAsTheThirdFastestOfFiveHasAnswered(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		require.NoError(t, m.Lock(me)) // the scripts are known
		require.NoError(t, m.Unlock(me))
		w.Settle()
		for i, client := range m.TestClients {
			client.Net.SetRoundTrip(time.Duration(5-i) * 100 * time.Millisecond)
		}
		for range 3 {
			begin := time.Now()
			hold, err := m.Acquire(me, rlock.WithLease(10*time.Second))
			require.NoError(t, err)
			assert.Equal(t, 300*time.Millisecond, time.Since(begin))
			assert.Equal(t, begin.Add(10*time.Second-112*time.Millisecond), hold.ValidUntil(), "the lease counts from before the send")
			time.Sleep(201 * time.Millisecond)
			assert.Len(t, w.have(), 5, "the other servers have joined")
			testbed.Within(t, 300*time.Millisecond, 300*time.Millisecond, func() { require.NoError(t, hold.Release(me)) })
			time.Sleep(time.Second)
			assert.Empty(t, w.have())
		}
	})
}

func TestARedLockIsValidAsLongAsTheMajorityIs(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		var clients []*rlock.Client
		for i, lease := range []time.Duration{20, 50, 10, 40, 30} {
			clients = append(clients, w.Worlds[i].NewClient(testbed.WithLease(lease*time.Second)).Client)
		}
		begin := time.Now()
		hold, err := rlock.NewRedLock(clients, testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		w.Settle()
		assert.Equal(t, begin.Add(30*time.Second-testbed.Drift), hold.ValidUntil(), "the third longest of five")
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestAGrantThatComesTooLateDoesNotCount(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, client := range m.TestClients[:3] {
			client.Net.Rule(testbed.EveryScript(network.Hold, network.Reply))
		}
		var hold *rlock.Hold
		result := testbed.Start(func() (err error) {
			hold, err = m.Acquire(w.Ctx, rlock.WithWait(0), rlock.WithLease(time.Second))
			return err
		})
		time.Sleep(1100 * time.Millisecond)
		require.True(t, testbed.Pending(result))
		m.Heal()
		healed := time.Now()
		require.NoError(t, <-result, "the servers were not asked again")
		assert.True(t, hold.ValidUntil().After(healed.Add(900*time.Millisecond)), "the lease is that of the late grants")
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.Empty(t, w.have())
	})
}

func TestANestedRedLockSendsNothing(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		require.NoError(t, m.Lock(me))
		w.Settle()
		m.Silence()
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, m.Lock(me))
			taken, err := m.TryLockFor(me, 0, time.Minute)
			require.NoError(t, err)
			assert.True(t, taken)
			assert.Equal(t, 3, m.HoldCount(me))
			require.NoError(t, m.Unlock(me))
			require.NoError(t, m.Unlock(me))
		})
		m.Heal()
		require.NoError(t, m.Unlock(me))
	})
}

func TestAWaiterForARedLockIsWokenByMessages(t *testing.T) {
	redistest.Slow(t)
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		holder, waiter := w.member(), w.member()
		me, them := w.Caller(), w.Caller()
		require.NoError(t, holder.Lock(me))
		result := testbed.Start(func() error { return waiter.Lock(them) })
		require.True(t, testbed.Pending(result))
		before := waiter.Scripts()
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, waiter.Scripts()-before, 60*2*5, "it looks every one or two seconds")
		require.NoError(t, holder.Unlock(me))
		testbed.Within(t, 0, time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, waiter.Unlock(them))
	})
}

// Each process is near the servers that are far from the other, and asks in the opposite
// order. The first answers of each are from half of the servers.
func TestRedLocksThatGoOppositeWaysDoNotWaitForEachOtherForEver(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		w.Worlds = w.Worlds[:4]
		ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		var results []<-chan error
		for i := range 2 {
			p := w.NewProcess()
			for j, client := range p.TestClients {
				if j/2 != i {
					client.Net.SetRoundTrip(10 * time.Millisecond)
				}
			}
			clients := p.Clients
			if i == 1 {
				clients = []*rlock.Client{clients[3], clients[2], clients[1], clients[0]}
			}
			lock, me := rlock.NewRedLock(clients, testbed.Key), rlock.WithOwner(ctx, rlock.NewOwner())
			results = append(results, testbed.Start(func() error {
				for range 10 {
					if err := lock.Lock(me); err != nil {
						return err
					}
					if err := lock.Unlock(me); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
	})
}
