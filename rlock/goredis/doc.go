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
// # Fields that are converted
//
// Addr, Addrs, SentinelAddrs, MasterName, IsClusterMode and Network; DB, TLSConfig, Protocol and
// DisableIdentity. With a ClientName, which is converted as well, package inspect does not know the
// processes of this client.
//
// Username, Password, SentinelUsername and SentinelPassword. CredentialsProviderContext, else
// CredentialsProvider, is asked for each new connection, and has five seconds.
//
// Dialer. As in go-redis it does the TLS handshake itself, and TLSConfig is not used.
//
// DialTimeout, ReadTimeout and WriteTimeout, if they differ from the defaults of go-redis.
// Otherwise, and if a timeout is switched off, the defaults of [rlock.Config.Redis] apply.
// ConnWriteTimeout is the larger of ReadTimeout and WriteTimeout.
//
// # Other fields
//
// Fields about the pool of connections, buffers, retries, maintenance notifications, and
// ContextTimeoutEnabled are left out: they do not change which server is used or who logs in, and
// rlock has connections, retries and deadlines of its own.
//
// A conversion fails with [rlock.ErrInvalidConfig] if any other field is set, and names it: such as
// ReadOnly, since replicas have no locks, and OnConnect, since rueidis runs no code on a new
// connection. Hooks (AddHook) are not options: commands of rlock do not pass through them. Use
// [rlock.Config.Observer], or the package rlockotel.
package goredis
