package contender

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// RLock is the library of this repository, with its defaults.
func RLock() Contender {
	return rlockAs("rlock", Plain, "this library, all defaults: lease 30 s, HandoffLimit 16, HandoffTime 10 ms",
		func(c []*rlock.Client, name string) *rlock.Lock { return c[0].NewLock(name) })
}

func rlockFair() Contender {
	return rlockAs("rlock-fair", Fair, "this library's NewFairLock, all defaults: in the order of all waiters of all clients",
		func(c []*rlock.Client, name string) *rlock.Lock { return c[0].NewFairLock(name) })
}

func rlockReadWrite() Contender {
	return rlockAs("rlock-rw", ReadWrite, "this library's NewReadWriteLock, all defaults",
		func(c []*rlock.Client, name string) *rlock.Lock { return c[0].NewReadWriteLock(name).Write() })
}

func rlockRedLock() Contender {
	return rlockAs("rlock-redlock", Majority, "this library's NewRedLock, a client for each of the servers, all defaults", rlock.NewRedLock)
}

func rlockAs(name string, kind Kind, about string, lock func(c []*rlock.Client, name string) *rlock.Lock) Contender {
	return Contender{
		Name:      name,
		Kind:      kind,
		About:     about,
		Wakes:     "queue, pub/sub",
		Reentrant: true,
		Renews:    true,
		// INFO comes once a direct connection, SCRIPT EXISTS every two seconds while clients
		// contend. The EXISTS that tracks the key of a hold of more than 50 ms is left out: scripts
		// call EXISTS for each section.
		Sends: []string{"evalsha", "eval", "subscribe", "info", "script|exists"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			addrs := []string{c.Addr}
			if kind == Majority {
				addrs = c.Addrs
			}
			opened := rlockClient{lock: lock}
			for _, addr := range addrs {
				client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Lease: c.Lease})
				if err != nil {
					return nil, errors.Join(err, opened.Close())
				}
				opened.clients = append(opened.clients, client)
			}
			if kind == ReadWrite {
				return rlockSharer{opened}, nil
			}
			return opened, nil
		},
	}
}

type rlockClient struct {
	clients []*rlock.Client // one for each server
	lock    func(c []*rlock.Client, name string) *rlock.Lock
}

func (c rlockClient) Mutex(name string) Mutex { return rlockMutex{c.lock(c.clients, name)} }

func (c rlockClient) Close() (err error) {
	for _, client := range c.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

type rlockSharer struct{ rlockClient }

func (c rlockSharer) Reader(name string) Mutex {
	return rlockMutex{c.clients[0].NewReadWriteLock(name).Read()}
}

type rlockMutex struct{ lock *rlock.Lock }

func (m rlockMutex) Lock(ctx context.Context) error { return m.lock.Lock(ctx) }
func (m rlockMutex) Unlock() error                  { return m.lock.Unlock(context.Background()) }
