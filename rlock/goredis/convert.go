package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// FromClient returns the option for the servers of a client in use, which stays as it is. The
// package's documentation lists the fields that are converted.
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

// FromOptions returns the option for a single server, which may be a node of a Cluster.
//
// It fails with [rlock.ErrInvalidConfig] if o is nil or has a field that cannot be converted.
func FromOptions(o *redis.Options) (rueidis.ClientOption, error) {
	if o == nil {
		return refuse("the options are nil")
	}
	addr := o.Addr
	if addr == "" {
		addr = "localhost:6379"
	}
	network := o.Network
	if network == "" && strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	option, err := convert(o, network, addr)
	if err != nil {
		return option, err
	}
	option.ForceSingleClient = true
	return option, nil
}

// FromCluster returns the option for a Cluster.
//
// It fails with [rlock.ErrInvalidConfig] if o is nil, has no Addrs, or has a field that cannot be
// converted.
func FromCluster(o *redis.ClusterOptions) (rueidis.ClientOption, error) {
	switch {
	case o == nil:
		return refuse("the options are nil")
	case o.ClusterSlots != nil:
		return refuse("ClusterSlots is set, and rueidis asks the servers for their slots. For a client from NewFailoverClusterClient, which sets it, call FromFailover with the FailoverOptions; otherwise call FromOptions for one server")
	case len(o.Addrs) == 0:
		return refuse("Addrs is empty: give the address of a node of the Cluster")
	}
	return convert(o, "", o.Addrs...)
}

// FromFailover returns the option for the primary that Sentinels watch.
//
// It fails with [rlock.ErrInvalidConfig] if o is nil, has no MasterName or SentinelAddrs, has a
// provider of credentials, or has another field that cannot be converted.
func FromFailover(o *redis.FailoverOptions) (rueidis.ClientOption, error) {
	switch {
	case o == nil:
		return refuse("the options are nil")
	case o.MasterName == "" || len(o.SentinelAddrs) == 0:
		return refuse("MasterName or SentinelAddrs is empty: give the name of the primary and the addresses of the Sentinels")
	case o.CredentialsProvider != nil || o.CredentialsProviderContext != nil:
		return refuse("CredentialsProvider or CredentialsProviderContext is set, and rueidis would log in to the Sentinels with its credentials, too: use Username and Password, or make the rueidis.Client yourself and share it with Config.Client")
	}
	option, err := convert(o, "", o.SentinelAddrs...)
	if err != nil {
		return option, err
	}
	option.Sentinel = rueidis.SentinelOption{
		MasterSet: o.MasterName, Dialer: option.Dialer, TLSConfig: option.TLSConfig, ClientName: option.ClientName,
	}
	option.Sentinel.Username, option.Sentinel.Password = login(o.SentinelUsername, o.SentinelPassword)
	return option, nil
}

// FromUniversal returns the option for what NewUniversalClient would connect to with o: the primary
// that Sentinels watch if MasterName is set, a Cluster if there are several addresses or
// IsClusterMode is set, and a single server otherwise.
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

// converted names the fields that have a counterpart, and tuning those that rlock does without. A
// client in use has set some of the latter.
var (
	converted = strings.Fields(`Addr Addrs SentinelAddrs MasterName Network DB TLSConfig Protocol ClientName DisableIdentity DisableIndentity
		Username Password SentinelUsername SentinelPassword CredentialsProvider CredentialsProviderContext Dialer DialTimeout ReadTimeout WriteTimeout`)
	tuning = strings.Fields(`PoolSize PoolFIFO PoolTimeout MinIdleConns MaxIdleConns MaxActiveConns MaxConcurrentDials
		ConnMaxIdleTime ConnMaxLifetime ConnMaxLifetimeJitter ReadBufferSize WriteBufferSize
		MaxRetries MinRetryBackoff MaxRetryBackoff MaxRedirects DialerRetries DialerRetryTimeout ContextTimeoutEnabled
		IdentitySuffix UnstableResp3 PushNotificationProcessor MaintNotificationsConfig FailingTimeoutSeconds NewClient`)
)

// convert returns the option with the fields that the options of go-redis share, and an error if
// one is set that is not known.
func convert(options any, network string, addrs ...string) (rueidis.ClientOption, error) {
	v := reflect.ValueOf(options).Elem()
	for field, value := range v.Fields() {
		if field.IsExported() && !value.IsZero() && !slices.Contains(converted, field.Name) && !slices.Contains(tuning, field.Name) {
			why := "which rlock has no counterpart of"
			if slices.Contains([]string{"ReadOnly", "ReplicaOnly", "RouteByLatency", "RouteRandomly"}, field.Name) {
				why = "and replicas have no locks"
			}
			return refuse("%s is set, %s: call this function with a copy of the options in which it is not set", field.Name, why)
		}
	}
	standard := defaults()
	option := rueidis.ClientOption{
		InitAddress: slices.Clone(addrs),
		SelectDB:    get[int](v, "DB"),
		TLSConfig:   get[*tls.Config](v, "TLSConfig"),
		AlwaysRESP2: get[int](v, "Protocol") == 2,
		ClientName:  get[string](v, "ClientName"),
		Dialer:      net.Dialer{Timeout: timeout(get[time.Duration](v, "DialTimeout"), standard.DialTimeout)},
		ConnWriteTimeout: max(timeout(get[time.Duration](v, "ReadTimeout"), standard.ReadTimeout),
			timeout(get[time.Duration](v, "WriteTimeout"), standard.WriteTimeout)),
		DialCtxFn:         dial(get[func(context.Context, string, string) (net.Conn, error)](v, "Dialer"), network),
		AuthCredentialsFn: provider(get[func() (string, string)](v, "CredentialsProvider"), get[func(context.Context) (string, string, error)](v, "CredentialsProviderContext")),
	}
	if option.AuthCredentialsFn == nil {
		option.Username, option.Password = login(get[string](v, "Username"), get[string](v, "Password"))
	}
	if get[bool](v, "DisableIdentity") || get[bool](v, "DisableIndentity") {
		option.ClientSetInfo = rueidis.DisableClientSetInfo
	}
	return option, nil
}

// get returns a field, or its zero value if these options do not have it.
func get[T any](v reflect.Value, name string) (value T) {
	if field := v.FieldByName(name); field.IsValid() {
		return field.Interface().(T)
	}
	return value
}

// dial returns the function that opens a connection, or nil if the function of rueidis does the
// same.
func dial(dialer func(ctx context.Context, network, addr string) (net.Conn, error), network string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	if dialer == nil && (network == "" || network == "tcp") {
		return nil
	}
	return func(ctx context.Context, addr string, standard *net.Dialer, config *tls.Config) (net.Conn, error) {
		switch {
		case dialer != nil:
			if standard.Timeout > 0 { // go-redis bounds a Dialer by its DialTimeout, too
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, standard.Timeout)
				defer cancel()
			}
			return dialer(ctx, cmp.Or(network, "tcp"), addr)
		case config != nil:
			return (&tls.Dialer{NetDialer: standard, Config: config}).DialContext(ctx, network, addr)
		default:
			return standard.DialContext(ctx, network, addr)
		}
	}
}

// provider returns the function that rueidis calls for each new connection, or nil if there is no
// provider.
func provider(plain func() (string, string), withContext func(context.Context) (string, string, error)) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	if plain == nil && withContext == nil {
		return nil
	}
	return func(rueidis.AuthCredentialsContext) (a rueidis.AuthCredentials, err error) {
		if withContext == nil {
			a.Username, a.Password = login(plain())
			return a, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // rueidis gives none
		defer cancel()
		username, password, err := withContext(ctx)
		a.Username, a.Password = login(username, password)
		return a, err
	}
}

// login returns the user name and the password. Without a password go-redis does not log in.
func login(username, password string) (string, string) {
	if password == "" {
		return "", ""
	}
	return username, password
}

// defaults returns the options of a client that was made without any. The options of a client in
// use have timeouts also if none were set: those of defaults count as not set.
var defaults = sync.OnceValue(func() *redis.Options {
	client := redis.NewClient(&redis.Options{})
	defer client.Close() // no connection is open
	return client.Options()
})

// timeout returns 0, for the default of rlock, if d is the default of go-redis or means that there
// is no timeout.
func timeout(d, standard time.Duration) time.Duration {
	if d <= 0 || d == standard {
		return 0
	}
	return d
}

func refuse(format string, args ...any) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, fmt.Errorf("goredis: %w: "+format, append([]any{rlock.ErrInvalidConfig}, args...)...)
}
