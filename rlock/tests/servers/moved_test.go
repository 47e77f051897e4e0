package servers_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// An endpoint is an address that leads to a server, as a DNS name or a cloud's endpoint does.
// Connections stay where they were opened.
type endpoint struct{ at atomic.Pointer[testbed.Site] }

// client returns a client at the endpoint. Its Close may fail, since a command was in flight when
// the endpoint moved.
func (e *endpoint) client(t *testing.T, change func(*rlock.Config)) *rlock.Client {
	config := rlock.Config{Redis: e.at.Load().Options(), Logger: slog.New(slog.DiscardHandler)}
	config.Redis.DialCtxFn = func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", e.at.Load().Addr())
	}
	change(&config)
	client, err := rlock.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// own returns a server that no other test uses.
func own(t *testing.T) *testbed.Site {
	return testbed.At(t, redistest.Standalone(t, "--repl-diskless-sync-delay", "0"))
}

// follow makes s a replica of the server at that address, and returns when it has the data.
func follow(t *testing.T, s *testbed.Site, primary string) {
	host, port, err := net.SplitHostPort(primary)
	require.NoError(t, err)
	require.NoError(t, s.Do("REPLICAOF", host, port).Error())
	require.Eventually(t, func() bool {
		info, err := s.Do("INFO", "replication").ToString()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}, testbed.Hang, time.Millisecond)
}

// listeners returns the number of subscriptions to channels of the lock at a server.
func listeners(s *testbed.Site) int {
	channels, _ := s.Outside.Do(s.Ctx, s.Outside.B().PubsubChannels().Pattern("*"+testbed.Key+"*").Build()).AsStrSlice()
	return len(channels)
}

var movingClients = map[string]func(*rlock.Config){
	"default":                       func(*rlock.Config) {},
	"RESP2":                         func(c *rlock.Config) { c.Redis.AlwaysRESP2 = true },
	"sync replicas":                 func(c *rlock.Config) { c.SyncReplicas = 1 },
	"several pipelined connections": func(c *rlock.Config) { c.Redis.PipelineMultiplex = 2 },
}

// A failover behind an endpoint: the old primary becomes a replica of the new one, and keeps its
// connections. Locks, holds and messages follow.
func TestClientsFollowAnEndpointToAnotherPrimary(t *testing.T) {
	for name, change := range movingClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica := own(t), own(t)
			follow(t, replica, primary.Addr())
			var e endpoint
			e.at.Store(primary)
			lock, other := e.client(t, change).NewLock(testbed.Key), e.client(t, change).NewLock(testbed.Key)
			for range 20 { // so that a lone caller has a connection of its own
				require.NoError(t, lock.Lock(primary.Ctx))
				require.NoError(t, lock.Unlock(primary.Ctx))
			}
			hold, err := lock.Acquire(primary.Ctx)
			require.NoError(t, err)
			waits := testbed.Start(func() error { return other.Do(primary.Ctx, testbed.Nothing) })
			require.Eventually(t, func() bool { return listeners(primary) > 0 }, testbed.Hang, time.Millisecond)
			require.NoError(t, primary.Outside.Do(primary.Ctx, primary.Outside.B().Wait().Numreplicas(1).Timeout(0).Build()).Error())

			e.at.Store(replica)
			require.NoError(t, replica.Do("REPLICAOF", "NO", "ONE").Error())
			follow(t, primary, replica.Addr())

			require.Eventually(t, func() bool { return listeners(replica) > 0 }, testbed.Hang, time.Millisecond, "subscriptions follow")
			require.NoError(t, context.Cause(hold.Context()), "the new primary has the lock")
			_ = hold.Release(primary.Ctx) // may be refused once, and is repeated
			require.NoError(t, redistest.Await(t, waits))
			require.NoError(t, lock.Do(primary.Ctx, testbed.Nothing))
		})
	}
}

// In a Cluster the connection that is ended is that of the node which serves the slot now, also a
// moment after a failover.
func TestClientsOfAClusterFollowAnEndpointAfterAFailover(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Cluster(t))
	var mu sync.Mutex
	networks := make(map[string]*network.Network)
	config := rlock.Config{Redis: s.Options(), Logger: slog.New(slog.DiscardHandler)}
	config.Redis.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
		mu.Lock()
		n := networks[address]
		if n == nil {
			n = network.New(func() (net.Conn, error) { return net.Dial("tcp", address) })
			networks[address] = n
			t.Cleanup(n.Close)
		}
		mu.Unlock()
		return n.Dial(ctx, address, dialer, secure)
	}
	client, err := rlock.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	lock := client.NewLock(testbed.Key)
	require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
	s.Failover(testbed.Key)
	require.Eventually(t, func() bool { return lock.Do(s.Ctx, testbed.Nothing, rlock.WithWait(0)) == nil }, testbed.Hang, time.Millisecond)
	mu.Lock()
	for _, n := range networks {
		n.Move()
	}
	mu.Unlock()
	require.Eventually(t, func() bool { return lock.Do(s.Ctx, testbed.Nothing, rlock.WithWait(0)) == nil }, 30*time.Second, time.Millisecond, "not only when the client reads the topology again, after a minute")
}

// connections returns the ids of the connections of rlock at a server whose last command was this
// one; "" for any.
func connections(s *testbed.Site, command string) (ids []string) {
	list, _ := s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
	for line := range strings.Lines(list) {
		if strings.Contains(line, " name=rlock:") && strings.Contains(line, " cmd="+command) {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			ids = append(ids, id)
		}
	}
	return ids
}

// A new connection for a command that waits for replicas leads elsewhere, while the old server
// lives on with the connection of all other commands: a release would go to another server than its
// acquire.
func TestAllConnectionsFollowTheOneOfAGrantThatWaitsForReplicas(t *testing.T) {
	old, present := own(t), own(t)
	follow(t, own(t), old.Addr())
	follow(t, own(t), present.Addr())
	var e endpoint
	e.at.Store(old)
	lock := e.client(t, movingClients["sync replicas"]).NewLock(testbed.Key)
	require.NoError(t, lock.Do(old.Ctx, testbed.Nothing))

	e.at.Store(present)
	for _, id := range connections(old, "wait") {
		require.NoError(t, old.Do("CLIENT", "KILL", "ID", id).Error())
	}
	require.Eventually(t, func() bool { return lock.Do(old.Ctx, testbed.Nothing) == nil && len(connections(old, "")) == 0 }, testbed.Hang, 10*time.Millisecond)
	require.NoError(t, lock.Do(old.Ctx, testbed.Nothing))
	assert.NotEmpty(t, connections(present, "wait"))
}
