package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
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
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/goredis"
)

func TestTheFieldsAreConverted(t *testing.T) {
	config := &tls.Config{ServerName: "redis.example"}
	one, two := []string{"a:1"}, []string{"a:1", "b:1"}
	dialer := net.Dialer{Timeout: time.Second}
	for name, c := range map[string]struct {
		options any
		want    rueidis.ClientOption
	}{
		"nothing": {&redis.Options{}, rueidis.ClientOption{InitAddress: []string{"localhost:6379"}, ForceSingleClient: true}},
		"everything": {
			&redis.Options{Addr: "a:1", Network: "tcp", DB: 3, Protocol: 2, TLSConfig: config, Username: "alice", Password: "secret", ClientName: "orders",
				DisableIdentity: true, DialTimeout: time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: 4 * time.Second},
			rueidis.ClientOption{InitAddress: one, ForceSingleClient: true, SelectDB: 3, AlwaysRESP2: true, TLSConfig: config, Username: "alice", Password: "secret",
				ClientName: "orders", ClientSetInfo: rueidis.DisableClientSetInfo, Dialer: dialer, ConnWriteTimeout: 4 * time.Second},
		},
		"a longer time to read":     {&redis.Options{Addr: "a:1", ReadTimeout: time.Minute}, rueidis.ClientOption{InitAddress: one, ForceSingleClient: true, ConnWriteTimeout: time.Minute}},
		"a user without a password": {&redis.Options{Addr: "a:1", Username: "bob"}, rueidis.ClientOption{InitAddress: one, ForceSingleClient: true}},
		//lint:ignore SA1019 go-redis still has its older name
		"no identity":           {&redis.Options{Addr: "a:1", DisableIndentity: true}, rueidis.ClientOption{InitAddress: one, ForceSingleClient: true, ClientSetInfo: rueidis.DisableClientSetInfo}},
		"timeouts switched off": {&redis.Options{Addr: "a:1", DialTimeout: -1, ReadTimeout: -1, WriteTimeout: -2}, rueidis.ClientOption{InitAddress: one, ForceSingleClient: true}},
		"a pool, and retries": {
			&redis.Options{Addr: "a:1", PoolSize: 1, MaxRetries: -1, ConnMaxLifetime: time.Minute, ContextTimeoutEnabled: true},
			rueidis.ClientOption{InitAddress: one, ForceSingleClient: true},
		},
		"a Cluster":                      {&redis.ClusterOptions{Addrs: one, Protocol: 2, PoolSize: 3}, rueidis.ClientOption{InitAddress: one, AlwaysRESP2: true}},
		"one server by universal":        {&redis.UniversalOptions{Addrs: one, DB: 1}, rueidis.ClientOption{InitAddress: one, ForceSingleClient: true, SelectDB: 1}},
		"several addresses by universal": {&redis.UniversalOptions{Addrs: two}, rueidis.ClientOption{InitAddress: two}},
		"a Cluster by universal":         {&redis.UniversalOptions{Addrs: one, IsClusterMode: true}, rueidis.ClientOption{InitAddress: one}},
		"Sentinels by universal": {
			&redis.UniversalOptions{Addrs: two, MasterName: "m", IsClusterMode: true},
			rueidis.ClientOption{InitAddress: two, Sentinel: rueidis.SentinelOption{MasterSet: "m"}},
		},
		"Sentinels with a login of their own": {
			&redis.FailoverOptions{MasterName: "m", SentinelAddrs: two, DB: 1, ClientName: "orders", Username: "alice", Password: "secret",
				SentinelUsername: "watcher", SentinelPassword: "other", DialTimeout: time.Second, TLSConfig: config},
			rueidis.ClientOption{InitAddress: two, SelectDB: 1, ClientName: "orders", Username: "alice", Password: "secret", Dialer: dialer, TLSConfig: config,
				Sentinel: rueidis.SentinelOption{MasterSet: "m", Username: "watcher", Password: "other", ClientName: "orders", Dialer: dialer, TLSConfig: config}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := []any{c.options}
			switch o := c.options.(type) { // a client has filled in some fields of its options
			case *redis.Options:
				all = append(all, live(t, redis.NewClient(o)))
			case *redis.ClusterOptions:
				all = append(all, live(t, redis.NewClusterClient(o)))
			}
			for _, options := range all {
				option, err := from(options)
				require.NoError(t, err)
				option.DialCtxFn = nil // see below
				assert.Equal(t, c.want, option)
			}
		})
	}
}

func TestAProviderOfCredentialsThatFails(t *testing.T) {
	failed := errors.New("the vault is closed")
	withContext := func(ctx context.Context) (string, string, error) {
		_, limited := ctx.Deadline()
		assert.True(t, limited)
		return "alice", "secret", failed
	}
	for _, options := range []redis.Options{
		{CredentialsProviderContext: withContext},
		{CredentialsProviderContext: withContext, CredentialsProvider: func() (string, string) { panic("called") }, Password: "wrong"},
	} {
		option, err := goredis.FromOptions(&options)
		require.NoError(t, err)
		assert.Empty(t, option.Password)
		got, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
		assert.Equal(t, rueidis.AuthCredentials{Username: "alice", Password: "secret"}, got)
		assert.Equal(t, failed, err)
	}
}

// A connection that is opened after the password has changed has the new one.
func TestAPasswordThatChanges(t *testing.T) {
	s, ctx := redistest.Standalone(t), t.Context()
	var password atomic.Value
	login := func(secret string, rules ...string) {
		password.Store(secret)
		for _, command := range [][]string{append([]string{"ACL", "SETUSER", "alice", ">" + secret}, rules...), {"CLIENT", "KILL", "USER", "alice"}} {
			require.NoError(t, s.Client(t).Do(ctx, s.Client(t).B().Arbitrary(command...).Build()).Error())
		}
	}
	login("first", "on", "allkeys", "allchannels", "allcommands")
	option, err := goredis.FromOptions(&redis.Options{Addr: s.Addr(), CredentialsProvider: func() (string, string) { return "alice", password.Load().(string) }})
	require.NoError(t, err)
	client, err := rlock.New(rlock.Config{Redis: option, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer client.Close()
	hold, err := client.NewLock("a").Acquire(ctx)
	require.NoError(t, err)
	login("second", "<first")
	require.NoError(t, client.NewLock("b").Do(ctx, func(context.Context) error { return nil }))
	require.NoError(t, hold.Release(ctx))
}

func TestASingleServer(t *testing.T) {
	folder, err := os.MkdirTemp("", "s") // a socket's path has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "redis.sock")
	s := redistest.Standalone(t, "--unixsocket", path)
	for name, o := range map[string]redis.Options{
		"an address":           {Addr: s.Addr(), DB: 3},
		"a network":            {Addr: s.Addr(), Network: "tcp4"},
		"a socket":             {Network: "unix", Addr: path},
		"a socket by its path": {Addr: path},
		"a Dialer": {Addr: "redis.example:6379", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			assert.Equal(t, []string{"tcp", "redis.example:6379"}, []string{network, addr})
			_, limited := ctx.Deadline()
			assert.True(t, limited)
			return new(net.Dialer).DialContext(ctx, network, s.Addr())
		}},
	} {
		t.Run(name, func(t *testing.T) { lockWith(t, &o, live(t, redis.NewClient(&o))) })
	}
}

func TestTLS(t *testing.T) {
	s, config := redistest.TLS(t)
	for name, o := range map[string]redis.Options{
		"an address":       {Addr: s.TLSAddr(), TLSConfig: config},
		"and its protocol": {Addr: s.TLSAddr(), TLSConfig: config, Network: "tcp4"},
		"a Dialer that does it": {Addr: "redis.example:6379", TLSConfig: &tls.Config{}, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, s.TLSAddr())
		}},
	} {
		t.Run(name, func(t *testing.T) { lockWith(t, &o, live(t, redis.NewClient(&o))) })
	}
}

func TestSentinelsAndACluster(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindSentinel, redistest.KindCluster}, func(t *testing.T, s *redistest.Server) {
		u := &redis.UniversalOptions{Addrs: s.Options().InitAddress, MasterName: s.Options().Sentinel.MasterSet}
		lockWith(t, u, live(t, redis.NewUniversalClient(u)))
	})
}
