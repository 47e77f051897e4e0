package servers_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
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
		"no such pub/sub":         {Redis: server.Options(), Advanced: rlock.Advanced{PubSub: 9}},
		"negative pub/sub":        {Redis: server.Options(), Advanced: rlock.Advanced{PubSub: -1}},
		"negative replicas":       {Redis: server.Options(), SyncReplicas: -1},
		"too many replicas":       {Redis: server.Options(), SyncReplicas: 101},
		"connections that expire": {Redis: expiring},
		"a lease too long":        {Redis: server.Options(), Lease: time.Minute, LongestLease: 59 * time.Second},
		"a negative lease":        {Redis: server.Options(), Lease: -time.Second},
		"a negative longest one":  {Redis: server.Options(), LongestLease: -time.Second},
		"a negative hand-off":     {Redis: server.Options(), Advanced: rlock.Advanced{HandoffTime: -time.Second}},
		"too short a lease":       {Redis: server.Options(), Lease: 99 * time.Millisecond},
		"rueidis.ParseURL":        {Redis: rueidis.ClientOption{InitAddress: []string{"redis://127.0.0.1:6379"}}},
		"host:port":               {Redis: rueidis.ClientOption{InitAddress: []string{"redis.example"}}},
		"host:port of IPv6":       {Redis: rueidis.ClientOption{InitAddress: []string{"::1"}}},
	} {
		client, err := rlock.New(config)
		assert.ErrorIs(t, err, rlock.ErrInvalidConfig, what)
		if advice := strings.TrimSuffix(what, " of IPv6"); strings.ContainsAny(advice, ".:") {
			assert.ErrorContains(t, err, advice)
		}
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

func TestTheFieldsOfAClientBeginWithItsIDAndNoTwoClientsShareOne(t *testing.T) {
	server := redistest.Embedded(t)
	s := testbed.At(t, server)
	one, two := s.NewClient(), s.NewClient()
	assert.NotEqual(t, inspect.Of(one).ID(), inspect.Of(two).ID())
	for _, client := range []*rlock.Client{one, two} {
		require.NoError(t, client.NewLock(testbed.Key).Lock(s.Ctx))
		s.AwaitHash(client, testbed.GoroutineID(), "1") // compares the ID
		require.NoError(t, client.NewLock(testbed.Key).Unlock(s.Ctx))
	}
}

func TestTheNameOfAClientTellsItsProcess(t *testing.T) {
	t.Parallel()
	all := testbed.At(t, redistest.Standalone(t))
	t.Run("by default", func(t *testing.T) {
		s, me := all.In(t), testbed.ThisProcess(t)
		client := s.NewClient()
		assert.Equal(t, []string{fmt.Sprintf("rlock:%s:%s:%d:%s", me.Program, me.Host, os.Getpid(), inspect.Of(client).ID())}, s.ClientNames())
	})
	t.Run("the Config leaves it out", func(t *testing.T) {
		s := all.In(t)
		s.NewClient(func(c *rlock.Config) { c.Advanced.NoClientName = true })
		assert.Empty(t, s.ClientNames())
	})
	t.Run("the Config has another", func(t *testing.T) {
		s := all.In(t)
		named := s.NewClient(func(c *rlock.Config) { c.Redis.ClientName = "billing" })
		assert.Equal(t, []string{"billing"}, s.ClientNames())
		require.NoError(t, named.NewLock(testbed.Key).Lock(s.Ctx))
		i := testbed.Inspected(t, s.Ctx, named)
		require.NoError(t, i.Unresolved)
		assert.Nil(t, i.Holders[0].Process, "the name does not identify a process")
		require.NoError(t, named.NewLock(testbed.Key).Unlock(s.Ctx))
	})
	for _, old := range []bool{false, true} { // in RESP2 a separate command sets the name, and it needs a right
		t.Run(fmt.Sprint("the user may not set it, RESP2 ", old), func(t *testing.T) {
			s := all.In(t)
			limited := s.Limited(s.Rights(s.AclLines()...)...)
			client := s.NewClient(func(c *rlock.Config) { c.Redis, c.Redis.AlwaysRESP2 = limited.Redis, old })
			assert.Equal(t, old, len(s.ClientNames()) == 0, "HELLO needs no right")
			require.NoError(t, client.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing))
		})
	}
}

func TestAnUncontendedLockAndUnlockAreTwoCommands(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient()
		lock := client.NewLock(testbed.Key)
		require.NoError(t, lock.Do(s.Ctx, testbed.Nothing)) // the server learns the scripts
		s.AwaitListeners(1, testbed.Plain, testbed.OwnChannels+inspect.Of(client).ID())
		for what, ctx := range map[string]context.Context{"with a context that may end": s.Ctx, "with one that never ends": context.Background()} {
			calls := s.CountCalls(t, func() {
				require.NoError(t, lock.Do(ctx, testbed.Nothing))
			})
			assert.EqualValues(t, 2, calls["evalsha"], what)
			assert.Zero(t, calls["eval"]+calls["script|load"]+calls[strings.ToLower(s.Family().Subscribe)], what)
		}
	})
}

func TestTheCommandsOfPubSubAreThoseOfRedissonOrOfTheConfig(t *testing.T) {
	t.Parallel()
	type choice struct {
		name   string
		pubSub rlock.PubSub
		family testbed.Family
	}
	onServer := func(t *testing.T, server *redistest.Server, choices []choice) {
		families := []testbed.Family{testbed.Plain}
		if server.HasShardedPubSub() {
			families = append(families, testbed.Sharded)
		}
		for _, choice := range choices {
			t.Run(choice.name, func(t *testing.T) {
				if !slices.Contains(families, choice.family) {
					t.Skip("the server has no sharded pub/sub")
				}
				s := testbed.At(t, server)
				choose := func(c *rlock.Config) { c.Advanced.PubSub = choice.pubSub }
				s.Wakes(s.NewClient(choose), s.NewClient(choose), choice.family)

				lock := s.NewLock(choose)
				heard := make(map[testbed.Family]*testbed.Listener)
				for _, family := range families {
					heard[family] = s.Listen(family, testbed.Channel)
				}
				require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
				for family, listener := range heard {
					if family == choice.family {
						assert.Equal(t, []string{"00"}, listener.Heard())
					} else {
						assert.Empty(t, listener.Heard())
					}
				}
			})
		}
	}
	t.Run("standalone", func(t *testing.T) {
		onServer(t, redistest.Standalone(t), []choice{
			{"auto", rlock.PubSubAuto, testbed.Plain},
			{"plain", rlock.PubSubPlain, testbed.Plain},
			{"sharded", rlock.PubSubSharded, testbed.Sharded},
		})
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := testbed.Calm(redistest.Cluster(t))
		onServer(t, cluster, []choice{
			{"auto", rlock.PubSubAuto, testbed.At(t, cluster).Family()},
			{"plain", rlock.PubSubPlain, testbed.Plain},
			{"sharded", rlock.PubSubSharded, testbed.Sharded},
		})
	})
}

func TestShardedPubSubIsRefusedWhereTheServerHasNone(t *testing.T) {
	server := redistest.Embedded(t)
	_, err := rlock.New(rlock.Config{Redis: server.Options(), Advanced: rlock.Advanced{PubSub: rlock.PubSubSharded}})
	assert.ErrorIs(t, err, rlock.ErrUnsupported)
}
