package insight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownChannel is the channel of messages about the client's tenures.
func ownChannel(p *testbed.Client) string { return testbed.OwnChannels + p.ID() }

func TestAClientSubscribesToItsOwnChannelOnceWithItsFirstLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		time.Sleep(time.Minute)
		require.Empty(t, w.PubSubChannels("*"), "the client has held nothing yet")
		for _, name := range []string{"one", "two"} {
			require.NoError(t, p.NewLock(name).Lock(me))
			synctest.Wait()
			require.Equal(t, []string{ownChannel(p)}, w.PubSubChannels("*"))
			require.NoError(t, p.NewLock(name).Unlock(me))
		}
		time.Sleep(time.Minute)
		assert.Len(t, p.Net.Sent("SUBSCRIBE"), 1)
		assert.Equal(t, []string{ownChannel(p)}, w.PubSubChannels("*"), "the subscription lasts until Close")
		require.NoError(t, p.Close())
		synctest.Wait()
		assert.Empty(t, w.PubSubChannels("*"))
	})
}

func TestWithoutAClientChannelNothingIsSubscribed(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(func(c *rlock.Config) { c.NoClientChannel = true }), w.Caller()
		require.NoError(t, p.NewLock(testbed.Key).Lock(me))
		time.Sleep(time.Minute)
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
		assert.Empty(t, p.Net.Sent("SUBSCRIBE"))
	})
}

// A server that refuses the channel, or is silent about it, makes no difference to a lock,
// and the log reports no waiters that poll.
func TestNoLockDependsOnTheClientsOwnChannel(t *testing.T) {
	for name, fault := range map[string]func(w *testbed.World, p *testbed.Client){
		"refused": func(w *testbed.World, _ *testbed.Client) { w.Answer(testbed.RefusePubSub) },
		"silent": func(_ *testbed.World, p *testbed.Client) {
			p.Net.Rule(network.All(network.Hold, network.Request, "SUBSCRIBE"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				fault(w, p)
				testbed.Within(t, 0, 0, func() { require.NoError(t, p.NewLock(testbed.Key).Lock(me)) })
				time.Sleep(time.Minute)
				testbed.Within(t, 0, 0, func() { require.NoError(t, p.NewLock(testbed.Key).Unlock(me)) })
				require.NoError(t, p.Close())
				assert.Zero(t, p.Logged("level=WARN"))
			})
		})
	}
}

// The holder's client gets a message, and asks Redis: two round trips after the call.
func TestTheHoldersClientIsNotifiedOfAnUnlockByForce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		holder, other := w.NewProcess(), w.NewProcess()
		hold := testbed.Take(t, w.Ctx, holder.NewLock(testbed.Key))
		synctest.Wait() // until the client has subscribed
		testbed.Within(t, 0, 100*time.Millisecond, func() {
			freed, err := other.NewLock(testbed.Key).ForceUnlock(w.Ctx)
			require.NoError(t, err)
			require.True(t, freed)
			<-hold.Context().Done()
		})
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		again := testbed.Take(t, w.Ctx, other.NewLock(testbed.Key), rlock.WithWait(0))
		require.NoError(t, again.Release(w.Ctx))
	})
}

func TestALossByForceIsReportedWithinTwoRoundTrips(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const roundTrip = 40 * time.Millisecond
		holder, other := w.NewClient(), w.NewClient()
		hold := testbed.Take(t, w.Ctx, holder.NewLock(testbed.Key))
		require.NoError(t, other.NewLock("another").Do(w.Ctx, testbed.Nothing))
		time.Sleep(11 * time.Second) // it was renewed: the server knows all scripts
		holder.Net.SetRoundTrip(roundTrip)
		other.Net.SetRoundTrip(roundTrip)
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			_, _ = other.NewLock(testbed.Key).ForceUnlock(w.Ctx)
		}()
		testbed.Within(t, 3*roundTrip, 3*roundTrip+2*time.Millisecond, func() { <-hold.Context().Done() }) // the first round trip is a query for the holder
		<-looked
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
	})
}
