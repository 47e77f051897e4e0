package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownChannel is the channel of messages about the client's tenures.
func (p *testClient) ownChannel() string { return ownChannels + p.ID() }

func TestAClientSubscribesToItsOwnChannelOnceWithItsFirstLock(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		time.Sleep(time.Minute)
		require.Empty(t, w.PubSubChannels("*"), "the client has held nothing yet")
		for _, name := range []string{"one", "two"} {
			require.NoError(t, p.NewLock(name).Lock(me))
			synctest.Wait()
			require.Equal(t, []string{p.ownChannel()}, w.PubSubChannels("*"))
			require.NoError(t, p.NewLock(name).Unlock(me))
		}
		time.Sleep(time.Hour)
		assert.Len(t, p.net.Sent("SUBSCRIBE"), 1)
		assert.Equal(t, []string{p.ownChannel()}, w.PubSubChannels("*"), "the subscription lasts until Close")
		require.NoError(t, p.Close())
		synctest.Wait()
		assert.Empty(t, w.PubSubChannels("*"))
	})
}

func TestWithoutAClientChannelNothingIsSubscribed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(func(c *rlock.Config) { c.NoClientChannel = true }), w.caller()
		require.NoError(t, p.NewLock(key).Lock(me))
		time.Sleep(time.Minute)
		require.NoError(t, p.NewLock(key).Unlock(me))
		assert.Empty(t, p.net.Sent("SUBSCRIBE"))
	})
}

// A server that refuses the channel, or is silent about it, makes no difference to a lock,
// and the log reports no waiters that poll.
func TestNoLockDependsOnTheClientsOwnChannel(t *testing.T) {
	for name, fault := range map[string]func(w *world, p *testClient){
		"refused": func(w *world, _ *testClient) { w.answer(refusePubSub) },
		"silent":  func(_ *world, p *testClient) { p.net.Rule(network.All(network.Hold, network.Request, "SUBSCRIBE")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				fault(w, p)
				within(t, 0, 0, func() { require.NoError(t, p.NewLock(key).Lock(me)) })
				time.Sleep(time.Minute)
				within(t, 0, 0, func() { require.NoError(t, p.NewLock(key).Unlock(me)) })
				require.NoError(t, p.Close())
				assert.Zero(t, p.logged("level=WARN"))
			})
		})
	}
}

// The holder's client gets a message, and asks Redis: two round trips after the call.
func TestTheHoldersClientIsNotifiedOfAnUnlockByForce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		holder, other := w.process(), w.process()
		hold, err := holder.lock(key).Acquire(w.ctx)
		require.NoError(t, err)
		synctest.Wait() // until the client has subscribed
		within(t, 0, 100*time.Millisecond, func() {
			freed, err := other.lock(key).ForceUnlock(w.ctx)
			require.NoError(t, err)
			require.True(t, freed)
			<-hold.Context().Done()
		})
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		again, err := other.lock(key).Acquire(w.ctx, rlock.WithWait(0))
		require.NoError(t, err)
		require.NoError(t, again.Release(w.ctx))
	})
}

func TestALossByForceIsReportedWithinTwoRoundTrips(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const roundTrip = 40 * time.Millisecond
		holder, other := w.client(), w.client()
		hold, err := holder.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, other.NewLock("another").Do(w.ctx, nothing))
		time.Sleep(11 * time.Second) // it was renewed: the server knows all scripts
		holder.net.SetRoundTrip(roundTrip)
		other.net.SetRoundTrip(roundTrip)
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			_, _ = other.NewLock(key).ForceUnlock(w.ctx)
		}()
		within(t, 3*roundTrip, 3*roundTrip+2*time.Millisecond, func() { <-hold.Context().Done() }) // the first round trip is a query for the holder
		<-looked
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}
