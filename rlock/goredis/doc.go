// Package goredis connects rlock to the Redis of a program that uses go-redis: it converts the
// options of go-redis v9 to those of rueidis, which rlock uses.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//
//	option, err := goredis.FromClient(rdb)
//	if err != nil {
//		return err
//	}
//	client, err := rlock.New(rlock.Config{Redis: option})
//
// The connections are rlock's own, a few to each server: see [rlock.Config.Redis].
//
// A conversion is exact, or fails with [rlock.ErrInvalidConfig] and says what to do.
//
// # Fields that are converted
//
// Addr, Addrs, SentinelAddrs, MasterName, IsClusterMode and Network, which may be "unix" or "tcp6".
//
// Username, Password, SentinelUsername and SentinelPassword; CredentialsProvider,
// CredentialsProviderContext and StreamingCredentialsProvider, of which the last that is set
// applies, as in go-redis. A provider is asked for each new connection. A streaming provider is
// subscribed to once for all connections of the option and never unsubscribed; connections log in
// again with the credentials of the last half minute.
//
// DB, TLSConfig, Protocol, ClientName and DisableIdentity (DisableIndentity). With a ClientName,
// package inspect does not know the processes of this client.
//
// Dialer. As in go-redis it does the TLS handshake itself, and TLSConfig is not used.
//
// DialTimeout, ReadTimeout and WriteTimeout, if they differ from the defaults of go-redis.
// Otherwise, and if a timeout is switched off, the defaults of [rlock.Config.Redis] apply.
// ConnWriteTimeout is the larger of ReadTimeout and WriteTimeout.
//
// # Fields that are refused
//
// ReadOnly, ReplicaOnly, RouteByLatency and RouteRandomly: rueidis would send commands to replicas,
// which have no locks. ClusterSlots: rueidis asks the servers. OnConnect: rueidis runs no code on a
// new connection. A provider of credentials with Sentinels: rueidis would log in to the Sentinels
// with the same credentials. A [redis.Ring] is refused as well, since the same lock would be on
// several servers, and so is the client of NewFailoverClient or NewFailoverClusterClient, whose
// options do not say where the Sentinels are.
//
// # Fields and features without a counterpart
//
// They do not change which server is used or who logs in, and are left out:
//
//   - Hooks (AddHook) and Limiter: commands of rlock do not pass through them. Use
//     [rlock.Config.Observer], or the package rlockotel.
//   - PoolSize, PoolFIFO, PoolTimeout, MinIdleConns, MaxIdleConns, MaxActiveConns,
//     MaxConcurrentDials, PipelinePoolSize: there is no pool.
//   - ReadBufferSize, WriteBufferSize, PipelineReadBufferSize, PipelineWriteBufferSize,
//     AutoPipelineOptions.
//   - ConnMaxIdleTime, ConnMaxLifetime, ConnMaxLifetimeJitter: a connection lasts until it fails.
//   - MaxRetries, MinRetryBackoff, MaxRetryBackoff, MaxRedirects, DialerRetries,
//     DialerRetryTimeout, DialerRetryBackoff: rlock retries by rules of its own.
//   - ContextTimeoutEnabled: the context of a call always counts.
//   - IdentitySuffix, UnstableResp3, PushNotificationProcessor, MaintNotificationsConfig.
//   - ClientSideCache and the fields that begin with it: no command of rlock can be cached.
//   - NewClient, NodeAddress, FailingTimeoutSeconds, ClusterStateReloadInterval, ShardPicker,
//     DisableRoutingPolicies, RouteByLatencyTolerance, UseDisconnectedReplicas.
package goredis
