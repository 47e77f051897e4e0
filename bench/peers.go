package main

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"

	pool "github.com/go-redsync/redsync/v4/redis"
)

// The contenders with a library, one function for each library.

// defaultLease is the lease of contenders that have none of their own.
const defaultLease = 30 * time.Second

func rlockAs(name, kind, about string) contender {
	return contender{
		name: name, kind: kind, about: about, wakes: "queue, pub/sub", reentrant: true, renews: true,
		// INFO comes once a direct connection, SCRIPT EXISTS every two seconds while clients
		// contend. The EXISTS that tracks the key of a hold of more than 50 ms is left out: scripts
		// call EXISTS for each section.
		sends: []string{"evalsha", "eval", "subscribe", "info", "script|exists"},
		open: func(c config) (*client, error) {
			var clients []*rlock.Client
			closeAll := func() (err error) {
				for _, client := range clients {
					err = errors.Join(err, client.Close())
				}
				return err
			}
			if kind != majority {
				c.addrs = c.addrs[:1]
			}
			for _, addr := range c.addrs {
				client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Lease: c.lease})
				if err != nil {
					return nil, errors.Join(err, closeAll())
				}
				clients = append(clients, client)
			}
			handle := func(l *rlock.Lock) mutex {
				return mutex{l.Lock, func() error { return l.Unlock(context.Background()) }}
			}
			opened := &client{close: closeAll}
			switch kind {
			case fair:
				opened.mutex = func(name string) mutex { return handle(clients[0].NewFairLock(name)) }
			case readWrite:
				opened.mutex = func(name string) mutex { return handle(clients[0].NewReadWriteLock(name).Write()) }
				opened.reader = func(name string) mutex { return handle(clients[0].NewReadWriteLock(name).Read()) }
			case majority:
				opened.mutex = func(name string) mutex { return handle(rlock.NewRedLock(clients, name)) }
			default:
				opened.mutex = func(name string) mutex { return handle(clients[0].NewLock(name)) }
			}
			return opened, nil
		},
	}
}

// rueidislockAs is rueidislock with the options that its name stands for. It supports one server or a
// Cluster, and no independent servers. In place of a majority it gets five keys on the server in the
// middle: the other contenders have to wait for a server at that distance.
func rueidislockAs(name, kind, about string) contender {
	return contender{
		name: name, kind: kind, about: about, wakes: "client tracking", renews: true,
		sends: []string{"evalsha", "eval", "script|load"},
		key:   "rueidislock:0:",
		open: func(c config) (*client, error) {
			addr, option := c.addrs[0], rueidislock.LockerOption{KeyValidity: c.lease}
			switch {
			case kind == majority:
				addr, option.KeyMajority = c.addrs[len(c.addrs)/2], 3
			case name == "rueidislock-1":
				option.KeyMajority, option.NoLoopTracking = 1, true
			}
			option.ClientOption = rueidis.ClientOption{InitAddress: []string{addr}}
			locker, err := rueidislock.NewLocker(option)
			if err != nil {
				return nil, err
			}
			return &client{
				mutex: func(name string) mutex {
					var held context.Context // ends when the lock is lost
					var release context.CancelFunc
					return mutex{func(ctx context.Context) (err error) {
						held, release, err = locker.WithContext(ctx, name)
						return err
					}, func() error {
						lost := held.Err()
						release()
						return lost
					}}
				},
				close: func() error { locker.Close(); return nil },
			}, nil
		},
	}
}

// redsyncAs is redsync with all defaults. After 32 tries, 50 to 250 ms apart, its Lock fails by its
// own rules.
func redsyncAs(name, kind, about string) contender {
	return contender{
		name: name, kind: kind, about: about, wakes: "sleep, random", sends: []string{"set", "evalsha", "eval"},
		open: func(c config) (*client, error) {
			if kind != majority {
				c.addrs = c.addrs[:1]
			}
			var clients []*redis.Client
			var pools []pool.Pool
			for _, addr := range c.addrs {
				clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
				pools = append(pools, goredis.NewPool(clients[len(clients)-1]))
			}
			sync := redsync.New(pools...)
			var options []redsync.Option
			if c.lease > 0 {
				options = append(options, redsync.WithExpiry(c.lease))
			}
			return &client{
				mutex: func(name string) mutex {
					m := sync.NewMutex(name, options...)
					return mutex{m.LockContext, func() error {
						ok, err := m.Unlock()
						if err == nil && !ok {
							return errors.New("redsync: Unlock returned false")
						}
						return err
					}}
				},
				close: func() (err error) {
					for _, client := range clients {
						err = errors.Join(err, client.Close())
					}
					return err
				},
			}, nil
		},
	}
}

// redislockAs is bsm/redislock with the retries that its name stands for, and without its limit of
// three retries, which would make most waiters fail. A strategy counts its tries: there is one for
// each Lock.
func redislockAs(name, about string) contender {
	return contender{
		name: name, about: about, wakes: "sleep", sends: []string{"evalsha", "eval"},
		open: func(c config) (*client, error) {
			opened := redis.NewClient(&redis.Options{Addr: c.addrs[0]})
			locker, lease := redislock.New(opened), cmp.Or(c.lease, defaultLease)
			strategy := map[string]func() redislock.RetryStrategy{
				"redislock-linear": func() redislock.RetryStrategy { return redislock.LinearBackoff(100 * time.Millisecond) },
				"redislock-5ms":    func() redislock.RetryStrategy { return redislock.LinearBackoff(5 * time.Millisecond) },
				"redislock-exp": func() redislock.RetryStrategy {
					return redislock.ExponentialBackoff(16*time.Millisecond, 512*time.Millisecond)
				},
			}[name]
			return &client{
				mutex: func(name string) mutex {
					var lock *redislock.Lock
					return mutex{func(ctx context.Context) (err error) {
						lock, err = locker.Obtain(ctx, name, lease, &redislock.Options{RetryStrategy: strategy()})
						return err
					}, func() error { return lock.Release(context.Background()) }}
				},
				close: opened.Close,
			}, nil
		},
	}
}

// redissonAs is the real one, in Java. Its workers are JVMs, which take and free locks thousands of
// times before they are first measured.
func redissonAs(name, kind, what string) contender {
	c := contender{
		name: name, kind: kind, about: what + "Redisson " + string(redisson.V4) + " (Java), all defaults; its JVMs are warmed up",
		wakes: "pub/sub", reentrant: true, renews: true,
		// It sends a DEL of the unlock latch, but so does its script; that sets the latch once for
		// each of them, and the client sends no SET.
		sends: []string{"evalsha", "eval", "script|load", "subscribe", "unsubscribe", "set"},
		java: func() (*exec.Cmd, error) {
			return redisson.Command(redisson.V4, "rlock.Bench", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
		},
	}
	if kind == readWrite { // the script of the read lock sends a SET of its own, which hides them
		c.sends = slices.DeleteFunc(c.sends, func(command string) bool { return command == "set" })
	}
	return c
}
