package servers_test

import (
	"net"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The network between Redis and some of its clients is cut, in both directions and silently: a
// holder on the far side has lost the lock before it is granted on the near side, and a far waiter
// goes on when the network is back.
func TestTwoNetworksThatAreCutApart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s, link := testbed.At(t, server), network.New(func() (net.Conn, error) { return net.Dial("tcp", server.Addr()) })
	t.Cleanup(link.Close)
	far := func(c *rlock.Config) {
		c.Lease = 3 * time.Second
		c.Redis.DialCtxFn = link.Dial
		c.Redis.ConnWriteTimeout, c.Redis.Dialer.Timeout = 0, 0 // the client notices the silence
	}
	holder, waiter, near := s.NewLock(far), s.NewLock(far), s.NewLock()
	here, there := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())

	hold := testbed.Take(t, s.Ctx, holder)
	granted := testbed.Start(func() error {
		err := near.Lock(here)
		assert.False(t, hold.Valid(), "two holders at once")
		return err
	})
	s.AwaitWaiters(1, testbed.Key)
	waits := testbed.Start(func() error { return waiter.Lock(there) })
	s.AwaitWaiters(2, testbed.Key)

	cut := time.Now()
	link.Rule(network.Silence)
	testbed.RequireLoss(t, s.Ctx, hold)
	lost := time.Since(cut)
	require.NoError(t, redistest.Await(t, granted))
	t.Logf("after the cut the far holder lost the lock in %v, and the near client had it in %v", lost, time.Since(cut))

	require.NoError(t, near.Unlock(here)) // the message of the release does not arrive
	assert.Empty(t, waits)
	healed := time.Now()
	link.Heal()
	require.NoError(t, redistest.Await(t, waits))
	t.Logf("after the cut was healed the far waiter had the lock in %v", time.Since(healed))
	require.NoError(t, waiter.Unlock(there))
}
