package groups_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The stories of docs/operations.md about red locks, beside processes that wait: such a waiter takes a free part each time that
// it asks around, and keeps it for a while.

// rolls restarts each server without its data, the next one as much later as docs/operations.md says.
func (w *fiveWorlds) rolls() {
	for i := range w.Worlds {
		w.restart(i, 30*time.Second)
		time.Sleep(40 * time.Second)
	}
}

func TestARedLockOutlivesRollingRestartsBesideWaiters(t *testing.T) {
	redistest.Slow(t)
	for i, c := range []struct{ servers, waiters int }{{3, 2}, {3, 5}, {5, 5}} {
		if i > 0 && testbed.Fewer() {
			break // the tests without the race detector run the others: the code is the same
		}
		t.Run(fmt.Sprintf("%d servers, %d waiters", c.servers, c.waiters), func(t *testing.T) {
			quorumOf(c.servers, t, func(t *testing.T, w *fiveWorlds) {
				hold, err := w.member().Acquire(w.Caller())
				require.NoError(t, err)
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
				assert.Zero(t, acquired.Load(), "no standby leads beside the leader")
				require.NoError(t, hold.Release(w.Ctx))
				time.Sleep(time.Minute)
				assert.EqualValues(t, c.waiters, acquired.Load(), "then each has its turn")
				for _, result := range left {
					require.NoError(t, <-result)
				}
			})
		})
	}
}

// Each of many holds of one process has lost a part. One whose part is another's for long does not keep the others waiting.
func TestHoldsOfOneProcessDoNotHealOneAfterTheOther(t *testing.T) {
	redistest.Slow(t)
	quorumOf(3, t, func(t *testing.T, w *fiveWorlds) {
		clients := w.NewProcess().Clients
		var holds []*rlock.Hold
		for i := range 200 {
			hold, err := rlock.NewRedLock(clients, fmt.Sprintf("%s:%d", testbed.Key, i)).Acquire(w.Ctx)
			require.NoError(t, err)
			holds = append(holds, hold)
		}
		w.restart(0, time.Second)
		for i := range 100 { // another has these
			name := fmt.Sprintf("%s:%d", testbed.Key, i)
			w.Worlds[0].HSet(name, testbed.ForeignOwner, "1")
			w.Worlds[0].SetTTL(name, time.Hour)
		}
		time.Sleep(40 * time.Second)
		w.restart(1, time.Second)
		time.Sleep(time.Second)
		for i, hold := range holds {
			assert.Equal(t, i >= 100, context.Cause(hold.Context()) == nil, "hold %d", i)
			_ = hold.Release(w.Ctx)
		}
	})
}
