package contender

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// RLock is the library of this repository, with its defaults.
func RLock() Contender {
	return rlockAs("rlock", Plain, "this library, all defaults: lease 30 s, HandoffLimit 16, HandoffTime 10 ms", rlock.Config{},
		func(c *rlock.Client) Client {
			return rlockClient{c, func(name string) *rlock.Lock { return c.NewLock(name) }}
		})
}

// RLockFair is its fair lock.
func RLockFair() Contender {
	return rlockAs("rlock-fair", Fair, "this library's NewFairLock, all defaults: in the order of all waiters of all clients", rlock.Config{}, func(c *rlock.Client) Client {
		return rlockClient{c, func(name string) *rlock.Lock { return c.NewFairLock(name) }}
	})
}

// RLockReadWrite is its read-write lock.
func RLockReadWrite() Contender {
	return rlockAs("rlock-rw", ReadWrite, "this library's NewReadWriteLock, all defaults", rlock.Config{},
		func(c *rlock.Client) Client {
			return rlockSharer{rlockClient{c, func(name string) *rlock.Lock { return c.NewReadWriteLock(name).Write() }}}
		})
}

// RLockRedLock is its red lock: a client for each server.
func RLockRedLock() Contender {
	return Contender{
		Name:      "rlock-redlock",
		Kind:      Majority,
		About:     "this library's NewRedLock, a client for each of the servers, all defaults",
		Wakes:     "queue, pub/sub",
		Reentrant: true,
		Renews:    true,
		Sends:     RLock().Sends,
		Key:       plain,
		Open: func(c Config) (Client, error) {
			r := new(redLockClient)
			for _, addr := range c.Addrs {
				client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Lease: c.Lease})
				if err != nil {
					return nil, errors.Join(err, r.Close())
				}
				r.clients = append(r.clients, client)
			}
			return r, nil
		},
	}
}

type redLockClient struct{ clients []*rlock.Client }

func (c *redLockClient) Mutex(name string) Mutex {
	return rlockMutex{rlock.NewRedLock(c.clients, name)}
}

func (c *redLockClient) Close() (err error) {
	for _, client := range c.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

func rlockAs(name string, kind Kind, about string, config rlock.Config, locks func(*rlock.Client) Client) Contender {
	return Contender{
		Name:      name,
		Kind:      kind,
		About:     about,
		Wakes:     "queue, pub/sub",
		Reentrant: true,
		Renews:    true,
		// INFO comes once a direct connection, SCRIPT EXISTS every two seconds while clients contend.
		Sends: []string{"evalsha", "eval", "subscribe", "info", "script|exists"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			config := config
			config.Redis = rueidis.ClientOption{InitAddress: []string{c.Addr}}
			config.Lease = c.Lease
			client, err := rlock.New(config)
			if err != nil {
				return nil, err
			}
			return locks(client), nil
		},
	}
}

type rlockClient struct {
	*rlock.Client
	lock func(name string) *rlock.Lock
}

func (c rlockClient) Mutex(name string) Mutex { return rlockMutex{c.lock(name)} }

type rlockSharer struct{ rlockClient }

func (c rlockSharer) Reader(name string) Mutex {
	return rlockMutex{c.NewReadWriteLock(name).Read()}
}

type rlockMutex struct{ lock *rlock.Lock }

func (m rlockMutex) Lock(ctx context.Context) error { return m.lock.Lock(ctx) }
func (m rlockMutex) Unlock() error                  { return m.lock.Unlock(context.Background()) }

func (m rlockMutex) TryLock(ctx context.Context) (bool, error) { return m.lock.TryLock(ctx) }
