package goredis_test

import (
	"context"
	"os"
	"reflect"
	"regexp"
	"strings"
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
	provider := func() (username, password string) { return "", "" }
	addrs := []string{"127.0.0.1:1"}

	client := func(c redis.UniversalClient) func() (rueidis.ClientOption, error) {
		return func() (rueidis.ClientOption, error) {
			t.Cleanup(func() {
				if v := reflect.ValueOf(c); c != nil && (v.Kind() != reflect.Pointer || !v.IsNil()) {
					_ = c.Close()
				}
			})
			return goredis.FromClient(c)
		}
	}
	cluster := func(o redis.ClusterOptions) func() (rueidis.ClientOption, error) {
		o.Addrs = addrs
		return func() (rueidis.ClientOption, error) { return goredis.FromCluster(&o) }
	}
	failover := func(o redis.FailoverOptions) func() (rueidis.ClientOption, error) {
		o.SentinelAddrs, o.MasterName = addrs, "m"
		return func() (rueidis.ClientOption, error) { return goredis.FromFailover(&o) }
	}
	universal := func(o redis.UniversalOptions) func() (rueidis.ClientOption, error) {
		o.Addrs = append(addrs, addrs...)
		return func() (rueidis.ClientOption, error) { return goredis.FromUniversal(&o) }
	}
	for name, test := range map[string]struct {
		from func() (rueidis.ClientOption, error)
		says string
	}{
		"a Ring":                      {client(redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addrs[0]}})), "NewRedLock"},
		"a failover client":           {client(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs})), "call FromFailover"},
		"a failover cluster client":   {client(redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs})), "call FromFailover"},
		"a cluster client, read only": {client(redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, RouteByLatency: true})), "RouteByLatency"},
		"a client of another type":    {client(wrapped{redis.NewClient(&redis.Options{Addr: addrs[0]})}), "goredis_test.wrapped"},
		"no client":                   {client(nil), "is nil"},
		"a nil client":                {client((*redis.Client)(nil)), "is nil"},
		"a cluster, ReadOnly":         {cluster(redis.ClusterOptions{ReadOnly: true}), "a copy of the options"},
		"a cluster, RouteByLatency":   {cluster(redis.ClusterOptions{RouteByLatency: true}), "a copy of the options"},
		"a cluster, RouteRandomly":    {cluster(redis.ClusterOptions{RouteRandomly: true}), "a copy of the options"},
		"a cluster, ClusterSlots":     {cluster(redis.ClusterOptions{ClusterSlots: slots}), "FromOptions for one server"},
		"a cluster, OnConnect":        {cluster(redis.ClusterOptions{OnConnect: connected}), "a copy of the options"},
		"a cluster without addresses": {func() (rueidis.ClientOption, error) { return goredis.FromCluster(&redis.ClusterOptions{}) }, "Addrs is empty"},
		"a failover, ReplicaOnly":     {failover(redis.FailoverOptions{ReplicaOnly: true}), "a copy of the options"},
		"a failover, RouteByLatency":  {failover(redis.FailoverOptions{RouteByLatency: true}), "a copy of the options"},
		"a failover, RouteRandomly":   {failover(redis.FailoverOptions{RouteRandomly: true}), "a copy of the options"},
		"a failover, OnConnect":       {failover(redis.FailoverOptions{OnConnect: connected}), "a copy of the options"},
		"a failover with a provider":  {failover(redis.FailoverOptions{CredentialsProvider: provider}), "Config.Client"},
		"a failover without a name": {func() (rueidis.ClientOption, error) {
			return goredis.FromFailover(&redis.FailoverOptions{SentinelAddrs: addrs})
		}, "MasterName"},
		"an option, OnConnect":            {func() (rueidis.ClientOption, error) { return goredis.FromOptions(&redis.Options{OnConnect: connected}) }, "a copy of the options"},
		"universal, ReadOnly":             {universal(redis.UniversalOptions{ReadOnly: true}), "a copy of the options"},
		"universal, RouteRandomly":        {universal(redis.UniversalOptions{RouteRandomly: true}), "a copy of the options"},
		"universal, Sentinels, ReadOnly":  {universal(redis.UniversalOptions{MasterName: "m", ReadOnly: true}), "a copy of the options"},
		"universal, Sentinels, OnConnect": {universal(redis.UniversalOptions{MasterName: "m", OnConnect: connected}), "a copy of the options"},
		"no options":                      {func() (rueidis.ClientOption, error) { return goredis.FromOptions(nil) }, "are nil"},
		"no cluster options":              {func() (rueidis.ClientOption, error) { return goredis.FromCluster(nil) }, "are nil"},
		"no failover options":             {func() (rueidis.ClientOption, error) { return goredis.FromFailover(nil) }, "are nil"},
		"no universal options":            {func() (rueidis.ClientOption, error) { return goredis.FromUniversal(nil) }, "are nil"},
	} {
		t.Run(name, func(t *testing.T) {
			option, err := test.from()
			require.ErrorIs(t, err, rlock.ErrInvalidConfig)
			assert.ErrorContains(t, err, test.says)
			assert.Empty(t, option.InitAddress)
		})
	}
}

// wrapped is a client whose options are not to be seen.
type wrapped struct{ redis.UniversalClient }

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

// A field that a version of go-redis adds is in none of the lists until we add it.
func TestThePackageDocumentsEachField(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	named := make(map[string]bool)
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(string(doc), -1) {
		named[word] = true
	}
	for _, options := range []any{redis.Options{}, redis.ClusterOptions{}, redis.FailoverOptions{}, redis.UniversalOptions{}} {
		for field := range reflect.TypeOf(options).Fields() {
			if field.IsExported() && !strings.HasPrefix(field.Name, "ClientSideCache") {
				assert.True(t, named[field.Name], "%T.%s", options, field.Name)
			}
		}
	}
}
