package goredis_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/goredis"
)

// eachWay locks with the options themselves, with those of a client, and with those of a universal
// client.
func eachWay(t *testing.T, o redis.Options) {
	t.Helper()
	rdb := live(t, redis.NewClient(new(o))) // which fills in o
	ways := map[string]any{"the options": new(o), "a client": rdb}
	if o.Network == "" {
		ways["universal options"] = &redis.UniversalOptions{
			Addrs: []string{o.Addr}, DB: o.DB, Dialer: o.Dialer, TLSConfig: o.TLSConfig, Protocol: o.Protocol, ClientName: o.ClientName,
			Username: o.Username, Password: o.Password, DisableIdentity: o.DisableIdentity,
		}
	}
	for way, options := range ways {
		t.Run(way, func(t *testing.T) {
			option, err := from(options)
			require.NoError(t, err)
			lockWith(t, option, rdb)
		})
	}
}

func TestASingleServer(t *testing.T) {
	s := redistest.Standalone(t)
	admin := s.Client(t)
	acl := admin.B().AclSetuser().Username("alice").Rule("on", ">secret", "~*", "&*", "+@all").Build()
	require.NoError(t, admin.Do(t.Context(), acl).Error())

	for name, o := range map[string]redis.Options{
		"an address":                 {Addr: s.Addr()},
		"a database":                 {Addr: s.Addr(), DB: 3},
		"protocol 2":                 {Addr: s.Addr(), Protocol: 2},
		"a user":                     {Addr: s.Addr(), Username: "alice", Password: "secret"},
		"a user without a password":  {Addr: s.Addr(), Username: "bob"},
		"the network":                {Addr: s.Addr(), Network: "tcp4"},
		"no identity":                {Addr: s.Addr(), DisableIdentity: true},
		"timeouts":                   {Addr: s.Addr(), DialTimeout: redistest.Hang, ReadTimeout: -1, WriteTimeout: -2},
		"a pool, and retries":        {Addr: s.Addr(), PoolSize: 1, MaxRetries: -1, ConnMaxLifetime: time.Minute, ContextTimeoutEnabled: true},
		"a name for the connections": {Addr: s.Addr(), ClientName: "orders"},
	} {
		t.Run(name, func(t *testing.T) { eachWay(t, o) })
	}
}

func TestAnEmptyAddressIsThatOfGoRedis(t *testing.T) {
	option, err := from(&redis.Options{})
	require.NoError(t, err)
	assert.Equal(t, []string{"localhost:6379"}, option.InitAddress)
}

func TestAUnixSocket(t *testing.T) {
	folder, err := os.MkdirTemp("", "s") // a socket's path has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "redis.sock")
	redistest.Standalone(t, "--unixsocket", path)
	t.Run("by its network", func(t *testing.T) { eachWay(t, redis.Options{Network: "unix", Addr: path}) })
	t.Run("by its path", func(t *testing.T) { eachWay(t, redis.Options{Addr: path}) })
}

func TestTLS(t *testing.T) {
	s, config := redistest.TLS(t)
	eachWay(t, redis.Options{Addr: s.TLSAddr(), TLSConfig: config})

	t.Run("is done by a Dialer that is set, not once more", func(t *testing.T) {
		eachWay(t, redis.Options{Addr: "redis.example:6379", TLSConfig: &tls.Config{}, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, s.TLSAddr())
		}})
	})
	t.Run("is the same for Sentinels and their primary", func(t *testing.T) {
		option, err := goredis.FromFailover(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:26379"}, TLSConfig: config})
		require.NoError(t, err)
		assert.Same(t, config, option.TLSConfig)
		assert.Same(t, config, option.Sentinel.TLSConfig)
	})
}

func TestADialerOpensAllConnections(t *testing.T) {
	s := redistest.Standalone(t)
	var dialled atomic.Int64
	o := &redis.Options{Addr: "redis.example:6379", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		assert.Equal(t, "tcp", network)
		assert.Equal(t, "redis.example:6379", addr)
		_, limited := ctx.Deadline()
		assert.True(t, limited)
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, s.Addr())
	}}
	option, err := goredis.FromOptions(o)
	require.NoError(t, err)
	lockWith(t, option, nil)
	assert.GreaterOrEqual(t, dialled.Load(), int64(4), "two clients, with a connection for messages each")
}

func TestSettingsAreThoseOfTheConnections(t *testing.T) {
	s := redistest.Standalone(t)
	option, err := goredis.FromOptions(&redis.Options{Addr: s.Addr(), ClientName: "orders", DB: 2, Protocol: 2, DisableIdentity: true})
	require.NoError(t, err)
	lockWith(t, option, nil)
	list := connections(t, s)
	assert.Contains(t, list, "name=orders")
	assert.Contains(t, list, " db=2 ")
	if s.Major() >= 7 {
		assert.Contains(t, list, "resp=2")
	}
	assert.Equal(t, rueidis.DisableClientSetInfo, option.ClientSetInfo)
}

func TestASentinel(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindSentinel}, func(t *testing.T, s *redistest.Server) {
		sentinels, primary := s.Options().InitAddress, s.Options().Sentinel.MasterSet
		u := &redis.UniversalOptions{Addrs: sentinels, MasterName: primary, DB: 1}
		rdb := live(t, redis.NewUniversalClient(u))

		clusterLike := *u
		clusterLike.IsClusterMode = true
		for name, options := range map[string]any{
			"failover options":                       &redis.FailoverOptions{MasterName: primary, SentinelAddrs: sentinels, DB: 1},
			"universal options":                      u,
			"universal options for a cluster client": &clusterLike,
		} {
			t.Run(name, func(t *testing.T) {
				option, err := from(options)
				require.NoError(t, err)
				lockWith(t, option, rdb)
			})
		}
		t.Run("with a Dialer", func(t *testing.T) {
			var dialled atomic.Int64
			option, err := goredis.FromFailover(&redis.FailoverOptions{MasterName: primary, SentinelAddrs: sentinels, DB: 1,
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					dialled.Add(1)
					return new(net.Dialer).DialContext(ctx, network, addr)
				}})
			require.NoError(t, err)
			lockWith(t, option, rdb)
			assert.Positive(t, dialled.Load())
		})
	})
}

func TestTheSentinelsHaveALoginOfTheirOwn(t *testing.T) {
	option, err := goredis.FromFailover(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:26379"}, ClientName: "orders",
		Username: "alice", Password: "secret", SentinelUsername: "watcher", SentinelPassword: "other", DialTimeout: time.Second})
	require.NoError(t, err)
	assert.Equal(t, rueidis.SentinelOption{MasterSet: "m", Username: "watcher", Password: "other", ClientName: "orders", Dialer: net.Dialer{Timeout: time.Second}}, option.Sentinel)
	assert.Equal(t, []string{"alice", "secret"}, []string{option.Username, option.Password})
}

func TestACluster(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindCluster}, func(t *testing.T, s *redistest.Server) {
		addrs := s.Options().InitAddress
		rdb := live(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}))
		for name, options := range map[string]any{
			"cluster options":        &redis.ClusterOptions{Addrs: addrs, PoolSize: 3},
			"a client":               rdb,
			"several addresses":      &redis.UniversalOptions{Addrs: addrs},
			"one address, said so":   &redis.UniversalOptions{Addrs: addrs[:1], IsClusterMode: true},
			"one address, protocol2": &redis.ClusterOptions{Addrs: addrs[:1], Protocol: 2},
		} {
			t.Run(name, func(t *testing.T) {
				option, err := from(options)
				require.NoError(t, err)
				client := lockWith(t, option, rdb)
				for _, name := range []string{"a", "b", "c", "d"} { // on several nodes
					require.NoError(t, client.NewLock(name).Do(t.Context(), func(context.Context) error { return nil }))
				}
			})
		}
		t.Run("a client of one node stays with it", func(t *testing.T) {
			option, err := goredis.FromClient(live(t, redis.NewClient(&redis.Options{Addr: addrs[0]})))
			require.NoError(t, err)
			assert.True(t, option.ForceSingleClient)
		})
	})
}

func TestTimeoutsThatAreSetAreConverted(t *testing.T) {
	for name, test := range map[string]struct {
		options       redis.Options
		dial, command time.Duration
	}{
		"none":                       {redis.Options{}, 0, 0},
		"switched off":               {redis.Options{DialTimeout: -1, ReadTimeout: -1, WriteTimeout: -2}, 0, 0},
		"the larger of the commands": {redis.Options{DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: 4 * time.Second}, time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for _, options := range []any{new(test.options), live(t, redis.NewClient(new(test.options)))} {
				option, err := from(options)
				require.NoError(t, err)
				assert.Equal(t, test.dial, option.Dialer.Timeout)
				assert.Equal(t, test.command, option.ConnWriteTimeout)
			}
		})
	}
}
