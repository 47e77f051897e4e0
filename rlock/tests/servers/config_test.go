package servers_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	server := redistest.Embedded(t)
	expiring := server.Options()
	expiring.ConnLifetime = time.Hour
	for what, config := range map[string]rlock.Config{
		"no address":              {},
		"an address and a client": {Redis: server.Options(), Client: server.Client(t)},
		"no such pub/sub":         {Redis: server.Options(), PubSub: 9},
		"negative pub/sub":        {Redis: server.Options(), PubSub: -1},
		"negative replicas":       {Redis: server.Options(), SyncReplicas: -1},
		"too many replicas":       {Redis: server.Options(), SyncReplicas: 101},
		"connections that expire": {Redis: expiring},
		"a lease too long":        {Redis: server.Options(), Lease: time.Minute, LongestLease: 59 * time.Second},
		"a negative lease":        {Redis: server.Options(), Lease: -time.Second},
		"a negative longest one":  {Redis: server.Options(), LongestLease: -time.Second},
		"a negative hand-off":     {Redis: server.Options(), HandoffTime: -time.Second},
		"too short a lease":       {Redis: server.Options(), Lease: 99 * time.Millisecond},
	} {
		client, err := rlock.New(config)
		assert.ErrorIs(t, err, rlock.ErrInvalidConfig, what)
		assert.Nil(t, client, what)
	}
}

func TestAServerThatCannotBeReachedIsTheErrorOfNew(t *testing.T) {
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"},
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, syscall.ECONNREFUSED
		},
	}})
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.ErrorContains(t, err, "127.0.0.1:6379")
	assert.Nil(t, client)
}

func TestTheDefaultLeaseIsRedissonsAndTheConfigsOtherwise(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		for lease, lock := range map[time.Duration]*rlock.Lock{
			30 * time.Second: s.NewLock(testbed.WithLease(0)),
			time.Hour:        s.NewLock(testbed.WithLease(time.Hour)),
		} {
			require.NoError(t, lock.Lock(s.Ctx))
			ttl, err := lock.TTL(s.Ctx)
			require.NoError(t, err)
			assert.LessOrEqual(t, ttl, lease)
			assert.Greater(t, ttl, lease-30*time.Second)
			require.NoError(t, lock.Unlock(s.Ctx))
		}
	})
}

func TestTheFieldsOfAClientBeginWithItsIDAndNoTwoClientsShareOne(t *testing.T) {
	server := redistest.Embedded(t)
	s := testbed.At(t, server)
	one, two := s.NewClient(), s.NewClient()
	assert.NotEqual(t, one.ID(), two.ID())
	for _, client := range []*rlock.Client{one, two} {
		require.NoError(t, client.NewLock(testbed.Key).Lock(s.Ctx))
		s.AwaitHash(client, testbed.GoroutineID(), "1") // compares the ID
		require.NoError(t, client.NewLock(testbed.Key).Unlock(s.Ctx))
	}
}

func TestTheConnectionsOfAClientTellItsProcess(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	client := s.NewClient()
	me := testbed.ThisProcess(t)
	assert.Equal(t, []string{fmt.Sprintf("rlock:%s:%s:%d:%s", me.Program, me.Host, os.Getpid(), client.ID())}, s.ClientNames())
}

func TestTheConfigSetsOrRemovesTheNameOfAClient(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	s.NewClient(func(c *rlock.Config) { c.NoClientName = true })
	assert.Empty(t, s.ClientNames())
	named := s.NewClient(func(c *rlock.Config) { c.Redis.ClientName = "billing" })
	assert.Equal(t, []string{"billing"}, s.ClientNames())

	require.NoError(t, named.NewLock(testbed.Key).Lock(s.Ctx))
	i, err := named.Inspect(s.Ctx, testbed.Key)
	require.NoError(t, err)
	require.NoError(t, i.Unresolved)
	assert.Nil(t, i.Holders[0].Process, "the name does not identify a process")
	require.NoError(t, named.NewLock(testbed.Key).Unlock(s.Ctx))
}

// In RESP2 a separate command sets the name, and it needs a right.
func TestAClientThatMayNotNameItselfWorksWithoutAName(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	for _, old := range []bool{false, true} {
		config := s.Limited(s.Rights(s.AclLines()...)...)
		config.Redis.AlwaysRESP2 = old
		client, err := rlock.New(config)
		require.NoError(t, err)
		if old {
			assert.Empty(t, s.ClientNames())
		} else {
			assert.Len(t, s.ClientNames(), 1, "HELLO needs no right")
		}
		require.NoError(t, client.NewLock(testbed.Key).Lock(s.Ctx))
		require.NoError(t, client.NewLock(testbed.Key).Unlock(s.Ctx))
		require.NoError(t, client.Close())
	}
}
