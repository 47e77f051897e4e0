package groups_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same if the answer never came.
func TestARedLockWhoseRepliesAreLostLeavesNothingBehind(t *testing.T) {
	for _, stage := range []network.Stage{network.Request, network.Reply} {
		for n := 1; n <= 5; n++ {
			t.Run(fmt.Sprintf("%v, %d servers", stage, n), func(t *testing.T) {
				quorum(t, func(t *testing.T, w *fiveWorlds) {
					m, me := w.member(), w.Caller()
					require.NoError(t, m.Lock(me)) // the scripts are known
					require.NoError(t, m.Unlock(me))
					w.Settle()
					for _, client := range m.TestClients[:n] {
						client.Net.Rule(testbed.Scripts(1, network.Cut, stage, "acquired"))
					}
					taken, err := m.TryLock(me)
					assert.Equal(t, n <= 2, taken)
					if taken {
						require.NoError(t, err)
						require.NoError(t, m.Unlock(me))
					} else {
						require.Error(t, err)
					}
					time.Sleep(time.Minute)
					assert.Empty(t, w.have())
					for _, client := range m.TestClients[:n] {
						client.Net.Rule(testbed.Scripts(1, network.Cut, stage, "released"))
					}
					require.NoError(t, m.Lock(me))
					w.Settle()
					err = m.Unlock(me)
					if n > 2 {
						require.ErrorIs(t, err, rlock.ErrUnconfirmed)
					} else {
						require.NoError(t, err)
					}
					time.Sleep(time.Minute)
					assert.Empty(t, w.have())
				})
			})
		}
	}
}

func TestACallerThatLeavesHoldsNoPartOfARedLock(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		for _, client := range m.TestClients[:3] {
			client.Net.Rule(testbed.EveryScript(network.Hold, network.Reply))
		}
		ctx, cancel := context.WithCancelCause(me)
		result := testbed.Start(func() error { return m.Lock(ctx) })
		require.True(t, testbed.Pending(result))
		cancel(errors.New("gone"))
		testbed.Within(t, 0, 0, func() { require.ErrorIs(t, <-result, context.Canceled) })
		m.Heal()
		time.Sleep(time.Second)
		assert.Empty(t, w.have())
	})
}

// The caller leaves when the servers' answers come. The granted parts are released in the
// background, and are no hold of the caller.
func TestACallerThatLeavesHoldsNoPartThatIsAboutToBeReleased(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		for _, client := range m.TestClients {
			client.Net.SetRoundTrip(100 * time.Millisecond)
		}
		left := 0
		for range 100 {
			ctx, cancel := context.WithTimeout(me, 100*time.Millisecond)
			err := m.Lock(ctx)
			cancel()
			if err != nil {
				left++
				require.Zero(t, m.HoldCount(me))
				taken, err := m.TryLock(me)
				if err != nil || !taken {
					continue
				}
				require.Equal(t, 1, m.HoldCount(me))
			}
			require.NoError(t, m.Unlock(me))
			time.Sleep(time.Second)
		}
		assert.Positive(t, left)
		time.Sleep(time.Second) // the last round's parts are released in the background
		w.Settle()
		assert.Empty(t, w.have())
	})
}

// While another part is waited for, the watchdog keeps the late grants as well, though they
// were asked for with a shorter lease.
func TestALateGrantJoinsARedLockThatIsAPart(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m, me := w.member(), w.Caller()
		require.NoError(t, m.Lock(me)) // the scripts are known
		require.NoError(t, m.Unlock(me))
		w.Settle()
		for _, client := range m.TestClients[3:] {
			client.Net.SetRoundTrip(100 * time.Millisecond)
		}
		w.Worlds[0].HSet("waited for", "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
		w.Worlds[0].SetTTL("waited for", time.Minute)
		lock := rlock.NewMultiLock(rlock.NewRedLock(m.Clients, testbed.Key), m.Clients[0].NewLock("waited for"))
		hold, err := lock.Acquire(me, rlock.WithLease(20*time.Second))
		require.NoError(t, err)
		assert.Len(t, w.have(), 5)
		w.Worlds[1].FlushAll()
		w.Worlds[2].FlushAll()
		time.Sleep(15 * time.Second)
		require.NoError(t, context.Cause(hold.Context()))
		<-hold.Context().Done()
		time.Sleep(time.Second)
		assert.Empty(t, w.have())
		require.ErrorIs(t, hold.Release(me), rlock.ErrLost)
	})
}
