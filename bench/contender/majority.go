package contender

import (
	"context"
	"errors"
)

// FloorMajority is the lower bound of a lock over several servers: two EVALSHA, each sent to
// all servers at once and answered by a majority.
func FloorMajority() Contender {
	return Contender{
		Name:   "floor-majority",
		Kind:   Majority,
		About:  "two raw EVALSHA to each server at once, through a rueidis each, and the answers of a majority; no waiting",
		Renews: true,
		Sends:  []string{"evalsha", "eval", "script|load"},
		Key:    plain,
		Open: func(c Config) (Client, error) {
			m := new(majorityClient)
			for _, addr := range c.Addrs {
				client, err := FloorEvalsha().Open(Config{Addr: addr, Lease: c.Lease})
				if err != nil {
					return nil, errors.Join(err, m.Close())
				}
				m.servers = append(m.servers, client)
			}
			return m, nil
		},
	}
}

type majorityClient struct{ servers []Client }

func (c *majorityClient) Mutex(name string) Mutex {
	m := new(majorityMutex)
	for _, server := range c.servers {
		m.parts = append(m.parts, server.Mutex(name))
	}
	return m
}

func (c *majorityClient) Close() (err error) {
	for _, server := range c.servers {
		err = errors.Join(err, server.Close())
	}
	return err
}

type majorityMutex struct{ parts []Mutex }

// Lock leaves its parts if it fails: the floor has no competitors.
func (m *majorityMutex) Lock(ctx context.Context) error {
	return m.each(func(part Mutex) error { return part.Lock(ctx) })
}

func (m *majorityMutex) Unlock() error { return m.each(Mutex.Unlock) }

func (m *majorityMutex) TryLock(ctx context.Context) (bool, error) {
	err := m.Lock(ctx)
	if errors.Is(err, errTaken) {
		return false, nil
	}
	return err == nil, err
}

// each calls do for every part, and returns when a majority has succeeded, or no longer can.
func (m *majorityMutex) each(do func(Mutex) error) (err error) {
	answers := make(chan error, len(m.parts))
	for _, part := range m.parts {
		go func() { answers <- do(part) }()
	}
	majority := len(m.parts)/2 + 1
	for yes, no := 0, 0; yes < majority; {
		failed := <-answers
		if failed == nil {
			yes++
			continue
		}
		err = errors.Join(err, failed)
		if no++; no > len(m.parts)-majority {
			return err
		}
	}
	return nil
}
