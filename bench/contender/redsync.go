package contender

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync is redsync as its README has it: go-redis, one pool, all defaults.
// After 32 tries, 50 to 250 ms apart, its Lock fails by its own rules.
func Redsync() Contender {
	return Contender{
		Name:  "redsync",
		Peer:  true,
		About: "as its README: go-redis, one pool, expiry 8 s, 32 tries 50 to 250 ms apart",
		Wakes: "sleep, random",
		Sends: []string{"set", "evalsha", "eval"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			client := redis.NewClient(&redis.Options{Addr: c.Addr})
			sync := redsync.New(goredis.NewPool(client))
			var options []redsync.Option
			if c.Lease > 0 {
				options = append(options, redsync.WithExpiry(c.Lease))
			}
			return redsyncClient{client, sync, options}, nil
		},
	}
}

type redsyncClient struct {
	*redis.Client
	sync    *redsync.Redsync
	options []redsync.Option
}

func (c redsyncClient) Mutex(name string) Mutex {
	return redsyncMutex{c.sync.NewMutex(name, c.options...)}
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

func (m redsyncMutex) TryLock(ctx context.Context) (bool, error) {
	err := m.mutex.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return false, nil
	}
	return err == nil, err
}
