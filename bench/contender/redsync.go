package contender

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync is redsync as its README has it: go-redis, one pool, all defaults.
// After 32 tries, 50 to 250 ms apart, its Lock fails by its own rules.
func Redsync() Contender {
	return redsyncAs("redsync", Plain, "as its README: go-redis, one pool, expiry 8 s, 32 tries 50 to 250 ms apart",
		func(c Config) []string { return []string{c.Addr} })
}

// RedsyncMajority is redsync over several servers: a pool for each.
func RedsyncMajority() Contender {
	return redsyncAs("redsync-majority", Majority, "redsync, a pool for each of the servers, all defaults",
		func(c Config) []string { return c.Addrs })
}

func redsyncAs(name string, kind Kind, about string, addrs func(Config) []string) Contender {
	return Contender{
		Name:  name,
		Kind:  kind,
		About: about,
		Wakes: "sleep, random",
		Sends: []string{"set", "evalsha", "eval"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			var clients []*redis.Client
			var pools []pool.Pool
			for _, addr := range addrs(c) {
				clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
				pools = append(pools, goredis.NewPool(clients[len(clients)-1]))
			}
			sync := redsync.New(pools...)
			var options []redsync.Option
			if c.Lease > 0 {
				options = append(options, redsync.WithExpiry(c.Lease))
			}
			return redsyncClient{clients, sync, options}, nil
		},
	}
}

type redsyncClient struct {
	clients []*redis.Client
	sync    *redsync.Redsync
	options []redsync.Option
}

func (c redsyncClient) Mutex(name string) Mutex {
	return redsyncMutex{c.sync.NewMutex(name, c.options...)}
}

func (c redsyncClient) Close() (err error) {
	for _, client := range c.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

type redsyncMutex struct{ mutex *redsync.Mutex }

func (m redsyncMutex) Lock(ctx context.Context) error { return m.mutex.LockContext(ctx) }

func (m redsyncMutex) Unlock() error {
	ok, err := m.mutex.Unlock()
	if err == nil && !ok {
		return errors.New("redsync: Unlock returned false")
	}
	return err
}
