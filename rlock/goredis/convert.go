//lint:file-ignore SA1019 go-redis still reads DisableIndentity.

package goredis

import (
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// FromClient returns the option for the servers of a client in use, which stays as it is. The
// package's documentation lists the fields and features that are left out.
//
// It fails with [rlock.ErrInvalidConfig] for a Ring, for a client from NewFailoverClient or
// NewFailoverClusterClient (call [FromFailover] with its options), for a type of another package,
// and where [FromOptions] and [FromCluster] fail.
func FromClient(client redis.UniversalClient) (rueidis.ClientOption, error) {
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return refuse("the client is nil")
	}
	switch c := client.(type) {
	case *redis.Client:
		if c.Options().Addr == failoverAddr {
			return refuse("the options of a client from NewFailoverClient do not have the addresses of the Sentinels: call FromFailover with the FailoverOptions, or FromUniversal with the UniversalOptions")
		}
		return FromOptions(c.Options())
	case *redis.ClusterClient:
		return FromCluster(c.Options())
	case *redis.Ring:
		return refuse("a Ring chooses one of several servers for each key, and another one while a server fails, so that a lock would have two holders: call FromOptions for one of the servers, or use NewRedLock with a client for each")
	default:
		return refuse("a client of type %T has no options: call FromOptions, FromCluster or FromFailover with those that it was made from", client)
	}
}

// failoverAddr is the Addr in the options of a client that NewFailoverClient returned.
const failoverAddr = "FailoverClient"

// FromOptions returns the option for a single server, which may be a node of a Cluster. The
// package's documentation lists the fields that are left out.
//
// It fails with [rlock.ErrInvalidConfig] if o is nil or has OnConnect.
func FromOptions(o *redis.Options) (rueidis.ClientOption, error) {
	if o == nil {
		return refuse("the options are nil")
	}
	addr := o.Addr
	if addr == "" {
		addr = "localhost:6379"
	}
	return common{
		addrs: []string{addr}, network: networkOf(o.Network, addr), db: o.DB, single: true,
		dialer: o.Dialer, tls: o.TLSConfig, onConnect: o.OnConnect,
		protocol: o.Protocol, clientName: o.ClientName, noIdentity: o.DisableIdentity || o.DisableIndentity,
		credentials: credentials{o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider},
		dialTimeout: o.DialTimeout, readTimeout: o.ReadTimeout, writeTimeout: o.WriteTimeout,
	}.option()
}

// FromCluster returns the option for a Cluster. The package's documentation lists the fields that
// are left out.
//
// It fails with [rlock.ErrInvalidConfig] if o is nil or has ReadOnly, RouteByLatency,
// RouteRandomly, ClusterSlots or OnConnect.
func FromCluster(o *redis.ClusterOptions) (rueidis.ClientOption, error) {
	switch {
	case o == nil:
		return refuse("the options are nil")
	case o.ClusterSlots != nil:
		return refuse("ClusterSlots is set, and rueidis asks the servers for their slots. For a client from NewFailoverClusterClient, which sets it, call FromFailover with the FailoverOptions; otherwise call FromOptions for one server")
	case o.RouteByLatency || o.RouteRandomly:
		return refuse("RouteByLatency or RouteRandomly is set, and replicas have no locks: %s", without)
	case o.ReadOnly:
		return refuse("ReadOnly is set, and replicas have no locks: %s", without)
	case len(o.Addrs) == 0:
		return refuse("Addrs is empty: give the address of a node of the Cluster")
	}
	return common{
		addrs: o.Addrs, network: "tcp",
		dialer: o.Dialer, tls: o.TLSConfig, onConnect: o.OnConnect,
		protocol: o.Protocol, clientName: o.ClientName, noIdentity: o.DisableIdentity || o.DisableIndentity,
		credentials: credentials{o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider},
		dialTimeout: o.DialTimeout, readTimeout: o.ReadTimeout, writeTimeout: o.WriteTimeout,
	}.option()
}

// FromFailover returns the option for the primary that Sentinels watch. The package's documentation
// lists the fields that are left out.
//
// It fails with [rlock.ErrInvalidConfig] if o is nil, has no MasterName or SentinelAddrs, or has
// ReplicaOnly, RouteByLatency, RouteRandomly, OnConnect or a provider of credentials.
func FromFailover(o *redis.FailoverOptions) (rueidis.ClientOption, error) {
	switch {
	case o == nil:
		return refuse("the options are nil")
	case o.MasterName == "" || len(o.SentinelAddrs) == 0:
		return refuse("MasterName or SentinelAddrs is empty: give the name of the primary and the addresses of the Sentinels")
	case o.RouteByLatency || o.RouteRandomly:
		return refuse("RouteByLatency or RouteRandomly is set, and replicas have no locks: %s", without)
	case o.ReplicaOnly:
		return refuse("ReplicaOnly (ReadOnly of the UniversalOptions) is set, and replicas have no locks: %s", without)
	case o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil:
		return refuse("a provider of credentials is set, and rueidis would log in to the Sentinels with its credentials, too: use Username and Password, or make the rueidis.Client yourself and share it with Config.Client")
	}
	option, err := common{
		addrs: o.SentinelAddrs, network: "tcp", db: o.DB,
		dialer: o.Dialer, tls: o.TLSConfig, onConnect: o.OnConnect,
		protocol: o.Protocol, clientName: o.ClientName, noIdentity: o.DisableIdentity || o.DisableIndentity,
		credentials: credentials{username: o.Username, password: o.Password},
		dialTimeout: o.DialTimeout, readTimeout: o.ReadTimeout, writeTimeout: o.WriteTimeout,
	}.option()
	if err != nil {
		return option, err
	}
	sentinels := credentials{username: o.SentinelUsername, password: o.SentinelPassword}
	option.Sentinel = rueidis.SentinelOption{
		MasterSet: o.MasterName, Dialer: option.Dialer, TLSConfig: option.TLSConfig, ClientName: option.ClientName,
	}
	option.Sentinel.Username, option.Sentinel.Password = sentinels.fixed()
	return option, nil
}

// FromUniversal returns the option for what NewUniversalClient would connect to with o: the primary
// that Sentinels watch if MasterName is set, a Cluster if there are several addresses or
// IsClusterMode is set, and a single server otherwise. The package's documentation lists the fields
// that are left out.
//
// It fails where [FromFailover], [FromCluster] and [FromOptions] fail.
func FromUniversal(o *redis.UniversalOptions) (rueidis.ClientOption, error) {
	if o == nil {
		return refuse("the options are nil")
	}
	copied := *o // Failover and Cluster fill in Addrs
	switch {
	case o.MasterName != "":
		return FromFailover(copied.Failover())
	case len(o.Addrs) > 1 || o.IsClusterMode:
		return FromCluster(copied.Cluster())
	default:
		return FromOptions(copied.Simple())
	}
}

// without says what to do about a field that is refused, and that a lock does not need.
const without = "call this function with a copy of the options in which it is not set"

func refuse(format string, args ...any) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, fmt.Errorf("goredis: %w: "+format, append([]any{rlock.ErrInvalidConfig}, args...)...)
}
