package contender

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// RedislockLinear is bsm/redislock with the backoff of its own example, without
// its limit of three retries, which would make most waiters fail.
func RedislockLinear() Contender {
	return redislockAs("redislock-linear", "LinearBackoff(100 ms) as in its example, without a limit of retries",
		func() redislock.RetryStrategy { return redislock.LinearBackoff(100 * time.Millisecond) })
}

// RedislockExponential is bsm/redislock with the smallest minimum that its documentation
// recommends, and half a second as the longest sleep.
func RedislockExponential() Contender {
	return redislockAs("redislock-exp", "ExponentialBackoff(16 ms, 512 ms): the minimum its docs recommend",
		func() redislock.RetryStrategy {
			return redislock.ExponentialBackoff(16*time.Millisecond, 512*time.Millisecond)
		})
}

// RedislockFast is bsm/redislock polling every 5 ms, as for a few processes with short
// sections. Hundreds of waiters would flood Redis.
func RedislockFast() Contender {
	c := redislockAs("redislock-5ms", "LinearBackoff(5 ms), without a limit of retries",
		func() redislock.RetryStrategy { return redislock.LinearBackoff(5 * time.Millisecond) })
	c.Only = "fleet"
	return c
}

func redislockAs(name, about string, strategy func() redislock.RetryStrategy) Contender {
	return Contender{
		Name:  name,
		About: about,
		Wakes: "sleep",
		Sends: []string{"evalsha", "eval"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			client := redis.NewClient(&redis.Options{Network: "tcp", Addr: c.Addr})
			lease := c.Lease
			if lease == 0 {
				lease = defaultLease
			}
			return redislockClient{client, redislock.New(client), lease, strategy}, nil
		},
	}
}

type redislockClient struct {
	*redis.Client
	locker   *redislock.Client
	lease    time.Duration
	strategy func() redislock.RetryStrategy // a strategy counts its tries: one for each Lock
}

func (c redislockClient) Mutex(name string) Mutex { return &redislockMutex{client: c, name: name} }

type redislockMutex struct {
	client redislockClient
	name   string
	lock   *redislock.Lock
}

func (m *redislockMutex) Lock(ctx context.Context) (err error) {
	m.lock, err = m.client.locker.Obtain(ctx, m.name, m.client.lease, &redislock.Options{RetryStrategy: m.client.strategy()})
	return err
}

func (m *redislockMutex) Unlock() error { return m.lock.Release(context.Background()) }
