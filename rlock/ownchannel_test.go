package rlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// ownChannel is the channel on which the client is told of its tenures.
func (p *party) ownChannel() string { return ownChannels + p.ID() }

func TestAClientSubscribesToItsOwnChannelOnceWithItsFirstLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		time.Sleep(time.Minute)
		require.Empty(t, w.PubSubChannels("*"), "it has held nothing yet")
		for _, name := range []string{"one", "two"} {
			require.NoError(t, p.NewLock(name).Lock(me))
			synctest.Wait()
			require.Equal(t, []string{p.ownChannel()}, w.PubSubChannels("*"))
			require.NoError(t, p.NewLock(name).Unlock(me))
		}
		time.Sleep(time.Hour)
		assert.Len(t, p.net.Sent("SUBSCRIBE"), 1)
		assert.Equal(t, []string{p.ownChannel()}, w.PubSubChannels("*"), "it is there until the end")
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

// Neither a server that refuses the channel nor one that is silent about it makes a
// difference to a lock, and the log says nothing of waiters that poll.
func TestNoLockDependsOnTheClientsOwnChannel(t *testing.T) {
	for name, fault := range map[string]func(w *world, p *party){
		"refused": func(w *world, _ *party) { w.answer(refusePubSub) },
		"silent":  func(_ *world, p *party) { p.net.Rule(network.All(network.Hold, network.Request, "SUBSCRIBE")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				fault(w, p)
				within(t, 0, 0, func() { require.NoError(t, p.NewLock(key).Lock(me)) })
				time.Sleep(time.Minute)
				within(t, 0, 0, func() { require.NoError(t, p.NewLock(key).Unlock(me)) })
				require.NoError(t, p.Close())
				assert.Zero(t, p.log.count("level=WARN"))
			})
		})
	}
}
