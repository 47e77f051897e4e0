package groups_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestADeadServerDelaysNoWait(t *testing.T) {
	for what, die := range map[string]func(*member){
		"refused": func(m *member) { m.TestClients[0].Net.Refuse() },
		"silent":  func(m *member) { m.TestClients[0].Net.Rule(network.Silence) },
	} {
		t.Run(what, func(t *testing.T) {
			quorum(t, func(t *testing.T, w *fiveWorlds) {
				holder, waiter := w.member(), w.member()
				me, them := w.Caller(), w.Caller()
				for range 2 {
					require.NoError(t, holder.Lock(me))
					w.Settle()
					result := testbed.Waits(t, func() error { return waiter.Lock(them) })
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

// rolls restarts each server without its data, the next one as much later as docs/operations.md says.
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
