package contender

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// RLock is the library that this repository is about, with its defaults.
func RLock() Contender {
	return Contender{
		Name:      "rlock",
		About:     "this library, all defaults: lease 30 s, HandoffLimit 16, HandoffTime 10 ms",
		Wakes:     "queue, pub/sub",
		Reentrant: true,
		Renews:    true,
		Sends:     []string{"evalsha", "eval", "subscribe", "unsubscribe"},
		Key:       plain,
		Open: func(c Config) (Client, error) {
			client, err := rlock.New(rlock.Config{
				Redis: rueidis.ClientOption{InitAddress: []string{c.Addr}},
				Lease: c.Lease,
			})
			if err != nil {
				return nil, err
			}
			return rlockClient{client}, nil
		},
	}
}

type rlockClient struct{ *rlock.Client }

func (c rlockClient) Mutex(name string) Mutex { return rlockMutex{c.NewLock(name)} }

type rlockMutex struct{ lock *rlock.Lock }

func (m rlockMutex) Lock(ctx context.Context) error { return m.lock.Lock(ctx) }
func (m rlockMutex) Unlock() error                  { return m.lock.Unlock(context.Background()) }

func (m rlockMutex) TryLock(ctx context.Context) (bool, error) { return m.lock.TryLock(ctx) }
