package contender

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Rueidislock is rueidislock as NewLocker makes it without options.
func Rueidislock() Contender {
	return rueidislockAs("rueidislock", Plain, "all defaults: KeyMajority 2, which is three keys a lock", rueidislock.LockerOption{})
}

// RueidislockOne is rueidislock as its README has it for a single Redis.
func RueidislockOne() Contender {
	return rueidislockAs("rueidislock-1", Plain, "as its README for one Redis: KeyMajority 1, NoLoopTracking",
		rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true})
}

// RueidislockMajority is rueidislock with a majority of three of five keys. It supports one
// server, or Cluster, and no independent ones: it gets the server in the middle, which is as
// far away as the slowest of the majority that others must wait for.
func RueidislockMajority() Contender {
	c := rueidislockAs("rueidislock-majority", Majority, "KeyMajority 3, five keys a lock, on one server: the middle one by distance",
		rueidislock.LockerOption{KeyMajority: 3})
	open := c.Open
	c.Open = func(config Config) (Client, error) {
		config.Addr = config.Addrs[len(config.Addrs)/2]
		return open(config)
	}
	return c
}

func rueidislockAs(name string, kind Kind, about string, option rueidislock.LockerOption) Contender {
	return Contender{
		Name:   name,
		Kind:   kind,
		About:  about,
		Wakes:  "client tracking",
		Renews: true,
		Sends:  []string{"evalsha", "eval", "script|load"},
		Key:    func(name string) string { return "rueidislock:0:" + name },
		Open: func(c Config) (Client, error) {
			option := option
			option.ClientOption = rueidis.ClientOption{InitAddress: []string{c.Addr}}
			option.KeyValidity = c.Lease
			locker, err := rueidislock.NewLocker(option)
			if err != nil {
				return nil, err
			}
			return rueidislockClient{locker}, nil
		},
	}
}

type rueidislockClient struct{ locker rueidislock.Locker }

func (c rueidislockClient) Mutex(name string) Mutex {
	return &rueidislockMutex{locker: c.locker, name: name}
}

func (c rueidislockClient) Close() error {
	c.locker.Close()
	return nil
}

type rueidislockMutex struct {
	locker  rueidislock.Locker
	name    string
	held    context.Context // ends when the lock is lost
	release context.CancelFunc
}

var errLost = errors.New("the lock was lost before it was released")

func (m *rueidislockMutex) Lock(ctx context.Context) (err error) {
	m.held, m.release, err = m.locker.WithContext(ctx, m.name)
	return err
}

func (m *rueidislockMutex) Unlock() error {
	lost := m.held.Err() != nil
	m.release()
	if lost {
		return errLost
	}
	return nil
}
