package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// A client that has reconnected asks at once whether its locks are still there.

func TestAServerWithoutTheDataIsFoundOutWhenTheConnectionComesBack(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		hold, err := p.lock(key).Acquire(w.ctx)
		require.NoError(t, err)
		w.settle()
		for _, world := range w.worlds {
			world.FlushAll() // a restart without the data
		}
		p.networks(func(n *network.Network) { n.Cut() })
		within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

// Connections are refused for a while, as during a failover.
func TestALossByAFailoverIsReportedSoonAfterTheNewPrimaryAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		w.FlushAll()
		p.net.Refuse()
		time.Sleep(5 * time.Second)
		require.NoError(t, context.Cause(hold.Context()), "no server has answered")
		p.net.Heal()
		within(t, 0, 100*time.Millisecond, func() { // with the first command that is answered
			require.NoError(t, p.NewLock("another").Do(w.ctx, nothing))
			<-hold.Context().Done()
		})
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

func TestASecondLossIsReportedAsSoonAsTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for range 2 {
			hold, err := p.NewLock(key).Acquire(w.ctx)
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
			w.FlushAll()
			p.net.Cut()
			within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
			require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		}
	})
}

func TestVerifyingTakesFewCommandsHoweverOftenConnectionsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(w.ctx))
		}
		before := len(p.net.Sent("EVALSHA"))
		for range 50 { // in 5 seconds
			p.net.Cut()
			time.Sleep(100 * time.Millisecond)
		}
		assert.Less(t, len(p.net.Sent("EVALSHA"))-before, 2*6*320/32, "batches, soon once a second, and those that a cut has interrupted")
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Unlock(w.ctx))
		}
	})
}
