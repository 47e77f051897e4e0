package goredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/goredis"
)

func TestOptionsThatCannotBeConvertedAreRefused(t *testing.T) {
	connected := func(context.Context, *redis.Conn) error { return nil }
	slots := func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }
	addrs := []string{"127.0.0.1:1"}
	for says, options := range map[string][]any{
		"OnConnect is set":           {&redis.Options{OnConnect: connected}, &redis.UniversalOptions{MasterName: "m", OnConnect: connected}},
		"Limiter is set":             {&redis.Options{Limiter: limiter{}}},
		"ReadOnly is set, and repli": {&redis.ClusterOptions{Addrs: addrs, ReadOnly: true}, &redis.UniversalOptions{IsClusterMode: true, ReadOnly: true, Addrs: addrs}, live(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, RouteByLatency: true}))},
		"RouteByLatency is set":      {&redis.ClusterOptions{Addrs: addrs, RouteByLatency: true}},
		"RouteRandomly is set":       {&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs, RouteRandomly: true}},
		"ReplicaOnly is set":         {&redis.UniversalOptions{MasterName: "m", ReadOnly: true}},
		"UseDisconnectedReplicas is": {&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs, UseDisconnectedReplicas: true}},
		"FromOptions for one server": {&redis.ClusterOptions{Addrs: addrs, ClusterSlots: slots}},
		"Config.Client":              {&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs, CredentialsProvider: func() (string, string) { return "", "" }}},
		"Addrs is empty":             {&redis.ClusterOptions{}},
		"MasterName or":              {&redis.FailoverOptions{SentinelAddrs: addrs}, &redis.FailoverOptions{MasterName: "m"}},
		"options are nil":            {(*redis.Options)(nil), (*redis.ClusterOptions)(nil), (*redis.FailoverOptions)(nil), (*redis.UniversalOptions)(nil)},
		"client is nil":              {nil, (*redis.Client)(nil)},
		"NewRedLock":                 {live(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addrs[0]}}))},
		"goredis_test.wrapped":       {wrapped{live(t, redis.NewClient(&redis.Options{Addr: addrs[0]}))}},
		"call FromFailover": {
			live(t, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs})),
			live(t, redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs})),
		},
	} {
		for _, o := range options {
			option, err := from(o)
			require.ErrorIs(t, err, rlock.ErrInvalidConfig)
			assert.Zero(t, option)
			assert.ErrorContains(t, err, says)
		}
	}
}

// from converts options of any type, or a client.
func from(options any) (rueidis.ClientOption, error) {
	switch o := options.(type) {
	case *redis.Options:
		return goredis.FromOptions(o)
	case *redis.ClusterOptions:
		return goredis.FromCluster(o)
	case *redis.FailoverOptions:
		return goredis.FromFailover(o)
	case *redis.UniversalOptions:
		return goredis.FromUniversal(o)
	case redis.UniversalClient:
		return goredis.FromClient(o)
	default:
		return goredis.FromClient(nil)
	}
}

// wrapped is a client whose options are not to be seen.
type wrapped struct{ redis.UniversalClient }

type limiter struct{}

func (limiter) Allow() error       { return nil }
func (limiter) ReportResult(error) {}

func TestOptionsStayAsTheyAre(t *testing.T) {
	u := redis.UniversalOptions{MasterName: "m"}
	_, err := goredis.FromUniversal(&u)
	require.NoError(t, err)
	assert.Empty(t, u.Addrs)

	o := &redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}
	option, err := goredis.FromCluster(o)
	require.NoError(t, err)
	option.InitAddress[0] = "127.0.0.1:2"
	assert.Equal(t, "127.0.0.1:1", o.Addrs[0])
}
