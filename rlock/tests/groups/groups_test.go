// Package groups_test is about locks over several locks and servers: multi and red.
package groups_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/rlocktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// The tests over all kinds cover MultiLock as one of the kinds. These are the differences.

func TestALockOfNothingIsErrInvalidConfig(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), rlocktest.New(t)
		var none *rlock.Lock
		multi := rlock.NewMultiLock
		red := func(name string, clients ...*rlock.Client) *rlock.Lock { return rlock.NewRedLock(clients, name) }
		for what, bad := range map[string]*rlock.Lock{
			"none": multi(), "nil": multi(p.NewLock("a"), nil), "a nil lock": multi(none), "one of none": multi(multi()),
			"a red of none": multi(red("a")), "a zero lock": multi(&rlock.Lock{}), "zero": {},
			"two kinds":  multi(p.NewLock("a"), p.NewLock("b"), p.NewFencedLock("a")),
			"a bad name": multi(p.NewLock("a"), p.NewLock("")), "no name": red("", p.Client, other),
			"no clients": red("a"), "no majority": red("a", p.Client, nil), "half of four": red("a", p.Client, other, nil, nil), "nil clients": red("a", nil, nil, nil),
			"one twice, and nil": red("a", nil, p.Client, p.Client), "one twice": red("a", p.Client, other, p.Client),
		} {
			wants := rlock.ErrInvalidConfig
			if strings.HasSuffix(what, "name") {
				wants = rlock.ErrInvalidName
			}
			for _, err := range []error{
				bad.Lock(w.Ctx), bad.LockFor(w.Ctx, time.Minute), bad.Unlock(w.Ctx), bad.Do(w.Ctx, func(context.Context) error { panic("called") }),
				testbed.ErrorOf(bad.TryLock(w.Ctx)), testbed.ErrorOf(bad.Acquire(w.Ctx)), testbed.ErrorOf(bad.IsLocked(w.Ctx)),
				testbed.ErrorOf(bad.TTL(w.Ctx)), testbed.ErrorOf(bad.ForceUnlock(w.Ctx)),
			} {
				assert.ErrorIs(t, err, wants, what)
			}
			assert.Zero(t, bad.HoldCount(w.Ctx))
			_ = bad.Name()
		}
		assert.Empty(t, p.Net.Sent("EVALSHA"), "no command")

		single := red(testbed.Key, p.Client)
		require.NoError(t, single.Lock(w.Ctx))
		assert.False(t, testbed.Tries(t, w.Caller(), single))
		require.NoError(t, single.Unlock(w.Ctx), "over one server a RedLock is a Lock")
	})
}

// Such a multi-lock would wait for itself. It is not refused if a client has its own DialCtxFn: its
// server is not known.
func TestAMultiLockRefusesANameByTwoClientsOfOneServer(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		shared := w.Outsider()
		var clients []*rlock.Client
		for range 2 {
			c, err := rlock.New(rlock.Config{Client: shared, Logger: testbed.Quiet})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			clients = append(clients, c)
		}
		a, b := clients[0].NewLock("a"), clients[1].NewLock("b")
		require.NoError(t, rlock.NewMultiLock(a, b).Do(w.Ctx, testbed.Nothing))
		for _, lock := range []*rlock.Lock{rlock.NewMultiLock(a, clients[1].NewLock("a")), rlock.NewMultiLock(b, rlock.NewMultiLock(a, clients[0].NewFairLock("b")))} {
			err := lock.Lock(w.Ctx)
			require.ErrorIs(t, err, rlock.ErrInvalidConfig)
			require.ErrorContains(t, err, "by two clients of one server")
		}
	})
}

func TestTheOrderOfAMultiLockTellsTheDatabasesOfAServerApart(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		me := w.Caller()
		there := w.NewClient(func(c *rlock.Config) { c.Redis.SelectDB = 1 })
		first, second := w.NewClient().NewLock(testbed.Key), there.NewLock(testbed.Key)
		require.NoError(t, w.NewClient().NewLock(testbed.Key).Lock(w.Caller()))
		for _, lock := range []*rlock.Lock{rlock.NewMultiLock(first, second), rlock.NewMultiLock(second, first)} {
			require.False(t, testbed.TriesFor(t, me, lock, time.Second))
		}
		assert.Empty(t, there.Net.Sent("EVALSHA"), "a waiter for the first part must not ask for others")
	})
}

// A hundred free names take as many round trips as one, and a command for thirty-two of them.
func TestFreeNamesAreAcquiredInOneRoundTrip(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		var locks []*rlock.Lock
		for i := range 100 {
			locks = append(locks, p.NewLock(fmt.Sprint("part", i)))
		}
		lock := rlock.NewMultiLock(locks...)
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the scripts are known
		p.Net.SetRoundTrip(100 * time.Millisecond)
		sent := len(p.Net.Sent("EVALSHA"))
		testbed.Within(t, 100*time.Millisecond, 100*time.Millisecond, func() { require.NoError(t, lock.Lock(me)) })
		assert.Equal(t, 4, len(p.Net.Sent("EVALSHA"))-sent)
		require.NoError(t, lock.Unlock(me))

		require.NoError(t, w.NewClient().NewLock("part50").Lock(w.Caller()))
		testbed.Within(t, 100*time.Millisecond, 300*time.Millisecond, func() {
			assert.False(t, testbed.Tries(t, me, lock))
		})
	})
}

// The tests over all kinds cover RedLock as one of the kinds. These are the differences, over
// five servers.

// A fiveWorlds is so many independent worlds, five as a rule.
type fiveWorlds struct {
	*testbed.VirtualKind
}

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

func TestARedLockReturnsAPermanentErrorAtOnce(t *testing.T) {
	quorumOf(5, t, func(t *testing.T, w *fiveWorlds) {
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
	quorumOf(5, t, func(t *testing.T, w *fiveWorlds) {
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

func TestARedLockRefusesAServerThatIsThereTwice(t *testing.T) {
	t.Parallel()
	one, other := testbed.At(t, redistest.Standalone(t)), testbed.At(t, redistest.Standalone(t))
	var clients []*rlock.Client
	for _, s := range []*testbed.Site{one, other, one} {
		clients = append(clients, s.NewClient(func(c *rlock.Config) { c.Redis.DialCtxFn = nil }))
	}
	testbed.IsLocked(t, one.Ctx, rlock.NewRedLock(clients[:2], testbed.Key))
	_, err := rlock.NewRedLock(clients, testbed.Key).Acquire(one.Ctx, rlock.WithWait(0))
	require.ErrorIs(t, err, rlock.ErrInvalidConfig)
	assert.ErrorContains(t, err, "clients 0 and 2")
}

// rolls restarts each server without its data, the next one as much later as docs/operations.md
// says.
func (w *fiveWorlds) rolls() {
	for _, world := range w.Worlds {
		world.Redis.Stop()
		world.FlushAll()
		time.Sleep(30 * time.Second)
		world.Redis.Start()
		time.Sleep(40 * time.Second)
	}
}

// A waiter takes a free part each time that it asks around, and keeps it for a while.
func TestARedLockOutlivesRollingRestartsBesideWaiters(t *testing.T) {
	redistest.Slow(t)
	for i, c := range []struct{ servers, waiters int }{{3, 2}, {3, 5}, {5, 5}} {
		if i > 0 && testbed.Fewer() {
			break // the tests without the race detector run the others: the code is the same
		}
		t.Run(fmt.Sprintf("%d servers, %d waiters", c.servers, c.waiters), func(t *testing.T) {
			quorumOf(c.servers, t, func(t *testing.T, w *fiveWorlds) {
				m := w.member()
				hold := testbed.Take(t, w.Caller(), m)
				var acquired atomic.Int32
				var left []<-chan error
				for range c.waiters {
					m := w.member()
					left = append(left, testbed.Start(func() error {
						h, err := m.Acquire(w.Ctx)
						if err != nil {
							return err
						}
						acquired.Add(1)
						time.Sleep(time.Second)
						return h.Release(w.Ctx)
					}))
				}
				w.rolls()
				require.NoError(t, context.Cause(hold.Context()))
				assert.Positive(t, m.TestClients[1].Logged("a red lock has a part again"))
				assert.Zero(t, acquired.Load(), "no standby leads beside the leader")
				require.NoError(t, hold.Release(w.Ctx))
				time.Sleep(time.Minute)
				assert.EqualValues(t, c.waiters, acquired.Load(), "then each has its turn")
				testbed.Succeed(t, left...)
			})
		})
	}
}
