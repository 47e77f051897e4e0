package groups_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARedLockSurvivesTheLossOfAMinorityAndNoMore(t *testing.T) {
	redistest.Slow(t)
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		hold, err := m.Acquire(me)
		require.NoError(t, err)
		w.Settle()
		m.TestClients[0].Net.Refuse()
		m.TestClients[4].Net.Refuse() // else the part would be taken again
		w.Worlds[4].FlushAll()
		time.Sleep(5 * time.Minute)
		require.NoError(t, context.Cause(hold.Context()))

		begin := time.Now()
		m.TestClients[2].Net.Rule(network.Silence)
		<-hold.Context().Done()
		assert.Greater(t, time.Since(begin), 19*time.Second, "the lease less a third")
		assert.Less(t, time.Since(begin), 30*time.Second)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, hold.Valid())
		time.Sleep(time.Millisecond)
		assert.NotContains(t, w.have(), 1, "the remaining parts are released")
		assert.NotContains(t, w.have(), 3)
		require.ErrorIs(t, hold.Release(me), rlock.ErrLost)
		m.Heal()
		require.NoError(t, m.Lock(me))
		require.NoError(t, m.Unlock(me))
		time.Sleep(time.Minute)
		assert.Empty(t, w.have())
	})
}

// restart restarts a server without its data, after so long.
func (w *fiveWorlds) restart(server int, away time.Duration) {
	world := w.Worlds[server]
	world.Redis.Stop()
	world.FlushAll()
	time.Sleep(away)
	world.Redis.Start()
}

func TestARedLockOutlivesTheRestartOfAllItsServersOneAfterTheOther(t *testing.T) {
	redistest.Slow(t)
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		hold, err := m.Acquire(me)
		require.NoError(t, err)
		w.Settle()
		require.NoError(t, m.Lock(hold.Context()), "a second level")
		for round := range 2 {
			for i := range w.Worlds {
				w.restart(i, 30*time.Second)
				require.NoError(t, context.Cause(hold.Context()), "server %d, round %d", i, round)
			}
		}
		time.Sleep(40 * time.Second)
		assert.Len(t, w.have(), 5)
		require.NoError(t, m.Unlock(hold.Context()))
		require.NoError(t, hold.Release(me))
		time.Sleep(time.Minute)
		assert.Empty(t, w.have())
		assert.Equal(t, 2*2, m.TestClients[2].Logged("a red lock has a part again"), "both levels, in both rounds")
	})
}

func TestTheLossOfARedLockIsReportedOnceForEachLevel(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		require.NoError(t, m.Lock(me))
		require.NoError(t, m.Lock(me))
		w.Settle()
		for _, world := range w.Worlds[:3] {
			world.FlushAll()
		}
		time.Sleep(11 * time.Second)
		assert.False(t, m.IsHeld(me))
		require.ErrorIs(t, m.Lock(me), rlock.ErrLost, "a nested Lock fails after a loss")
		require.ErrorIs(t, m.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, m.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, m.Unlock(me), rlock.ErrNotHeld)
		require.NoError(t, m.Lock(me))
		require.NoError(t, m.Unlock(me))
	})
}

func TestSilentServersDelayNoAcquireAndJoinLater(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		for _, i := range []int{0, 1} {
			m.TestClients[i].Net.Rule(network.Silence)
		}
		testbed.Within(t, 0, 0, func() { require.NoError(t, m.Lock(me)) })
		time.Sleep(time.Second)
		assert.Equal(t, []int{2, 3, 4}, w.have())
		m.Heal()
		synctest.Wait()
		assert.Len(t, w.have(), 5)
		w.Worlds[2].FlushAll()
		w.Worlds[3].FlushAll()
		time.Sleep(20 * time.Second) // less than until the parts are taken again
		assert.True(t, m.IsHeld(me), "the servers that have joined are a majority")
		assert.Equal(t, []int{0, 1, 4}, w.have())

		m.TestClients[0].Net.Rule(network.Silence)
		testbed.Within(t, 0, 4*time.Second, func() {
			require.ErrorIs(t, m.Unlock(me), rlock.ErrUnconfirmed, "two of three releases are not confirmed")
		})
		m.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.have())
	})
}

func TestADeadServerDelaysNoWait(t *testing.T) {
	for what, die := range map[string]func(*member){
		"refused": func(m *member) { m.TestClients[0].Net.Refuse() },
		"silent":  func(m *member) { m.TestClients[0].Net.Rule(network.Silence) },
	} {
		t.Run(what, func(t *testing.T) {
			quorum(t, func(t *testing.T, w *fiveWorlds) {
				holder, waiter := w.member(), w.member()
				me, them := w.Caller(), w.Caller()
				for range 5 {
					require.NoError(t, holder.Lock(me))
					w.Settle()
					result := testbed.Start(func() error { return waiter.Lock(them) })
					require.True(t, testbed.Pending(result))
					die(waiter)
					time.Sleep(1100 * time.Millisecond)
					require.NoError(t, holder.Unlock(me))
					testbed.Within(t, 0, 2200*time.Millisecond, func() { require.NoError(t, <-result) })
					w.Settle()
					require.NoError(t, waiter.Unlock(them))
				}
				waiter.Heal()
			})
		})
	}
}

// A realServers is five independent redis-servers.
type realServers struct {
	*testbed.Site // the first
	sites         []*testbed.Site
}

func fiveServers(t *testing.T) *realServers {
	h := new(realServers)
	for range 5 {
		h.sites = append(h.sites, testbed.At(t, redistest.Standalone(t)))
	}
	h.Site = h.sites[0]
	return h
}

// lock returns the lock of a process of its own.
func (h *realServers) lock(changes ...func(*rlock.Config)) *rlock.Lock {
	h.T.Helper()
	var clients []*rlock.Client
	for _, s := range h.sites {
		clients = append(clients, s.NewClient(changes...))
	}
	return rlock.NewRedLock(clients, testbed.Key)
}

// eventually waits until every server has n keys of the lock.
func (h *realServers) eventually(keys int64) {
	h.T.Helper()
	for _, s := range h.sites {
		require.Eventually(h.T, func() bool {
			n, err := s.Do("EXISTS", testbed.Key).AsInt64()
			return err == nil && n == keys
		}, testbed.Hang, time.Millisecond)
	}
}

func TestARedLockOutlivesTwoOfFiveServersAndNotThree(t *testing.T) {
	t.Parallel()
	h := fiveServers(t)
	here, there := h.lock(testbed.WithLease(2*time.Second)), h.lock(testbed.WithLease(2*time.Second))
	hold, err := here.Acquire(h.Ctx)
	require.NoError(t, err)
	h.eventually(1) // and none of the waiter's
	granted := make(chan *rlock.Hold, 1)
	waiter := testbed.Start(func() error {
		hold, err := there.Acquire(h.Ctx)
		granted <- hold
		return err
	})
	h.sites[0].Stop()
	h.sites[3].Stop()
	first := hold.ValidUntil()
	require.Eventually(t, func() bool { return hold.ValidUntil().After(first) || context.Cause(hold.Context()) != nil }, testbed.Hang, time.Millisecond)
	require.NoError(t, context.Cause(hold.Context()), "the hold is renewed")
	require.NoError(t, hold.Release(h.Ctx), "two servers stopped while the lock is held")
	require.NoError(t, h.Await(waiter), "two servers stopped while the lock is waited for")
	hold = <-granted

	h.sites[0].Start()
	h.sites[3].Start()
	_, err = here.Acquire(h.Ctx, rlock.WithWait(0))
	require.ErrorIs(t, err, rlock.ErrNotAcquired, "the restarted servers are a minority")
	for _, s := range h.sites[1:4] {
		s.Stop()
	}
	<-hold.Context().Done()
	require.ErrorIs(t, hold.Release(h.Ctx), rlock.ErrLost)
	_, err = here.Acquire(h.Ctx, rlock.WithWait(0))
	require.Error(t, err)
	waiter = testbed.Start(func() error { return here.Do(h.Ctx, func(context.Context) error { return nil }) })
	for _, s := range h.sites[1:4] {
		s.Start()
	}
	require.NoError(t, h.Await(waiter), "a majority is back")
}

// With -long only: on a machine that is suspended for two seconds, a lost hold and the next
// one may overlap, as documented. The storms test the same in virtual time.
func TestARedLockIsHeldThroughPausesWithoutTwoSectionsAtOnce(t *testing.T) {
	if !*testbed.Long {
		t.Skip("it depends on the machine's speed: -long")
	}
	h := fiveServers(t)
	r := new(testbed.Record)
	var done atomic.Int64
	const processes, goroutines, rounds = 3, 3, 25
	for range processes {
		lock := h.lock(testbed.WithLease(2 * time.Second)) // Close waits for as long for unknown acquires
		for range goroutines {
			r.Workers.Go(func() {
				for range rounds {
					err := lock.Lock(h.Ctx)
					if !assert.NoError(t, err) {
						return
					}
					from := time.Now()
					r.Counter++
					one := testbed.Span{From: from, To: time.Now()}
					r.Mu.Lock()
					r.Spans = append(r.Spans, one)
					r.Mu.Unlock()
					done.Add(1)
					if err := lock.Unlock(h.Ctx); err != nil {
						assert.True(t, errors.Is(err, rlock.ErrUnconfirmed) || errors.Is(err, rlock.ErrLost), err)
					}
				}
			})
		}
	}
	const sections = processes * goroutines * rounds
	for range 3 { // the workers go on with any two servers paused
		frozen := rand.Perm(5)[:2]
		for _, i := range frozen {
			h.sites[i].Pause()
		}
		more := min(done.Load()+5, sections)
		assert.Eventually(t, func() bool { return done.Load() >= more }, testbed.Hang, time.Millisecond)
		for _, i := range frozen {
			h.sites[i].Resume()
		}
	}
	r.Check(t, sections)
	h.eventually(0) // a resumed server may execute old commands
}

func TestARedLockRefusesAServerThatIsThereTwice(t *testing.T) {
	h := fiveServers(t)
	var clients []*rlock.Client
	for _, i := range []int{0, 1, 0} {
		clients = append(clients, h.sites[i].NewClient(func(c *rlock.Config) { c.Redis.DialCtxFn = nil }))
	}
	_, err := rlock.NewRedLock(clients[:2], testbed.Key).IsLocked(h.Ctx)
	require.NoError(t, err)
	_, err = rlock.NewRedLock(clients, testbed.Key).Acquire(h.Ctx, rlock.WithWait(0))
	require.ErrorIs(t, err, rlock.ErrInvalidConfig)
	assert.ErrorContains(t, err, "clients 0 and 2")
}
