package contender

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// The design that the documentation of SETNX describes ("Design pattern: locking with
// SETNX"), the common one before SET NX PX: the value is the time at which the lock ends, by
// the clock of the holder. A client that finds it past takes the lock by GETSET. It needs
// clocks that agree, a holder is not told that it was overtaken, and every late GETSET
// postpones the end.

// getSetSleep is how long GetSetSleep waits between two tries; the description
// says "sleep for a while".
const getSetSleep = 10 * time.Millisecond

// GetSetSleep is SETNX with a timestamp and GETSET, sleeping between tries.
func GetSetSleep() Contender {
	return getSetAs("getset-sleep", "SETNX with a timestamp and GETSET, 10 ms between tries", "sleep", getSetSleep)
}

// GetSetSpin is the same without a sleep: the tries follow each other.
func GetSetSpin() Contender {
	return getSetAs("getset-spin", "SETNX with a timestamp and GETSET, no sleep between tries", "no sleep", 0)
}

func getSetAs(name, about, wakes string, pause time.Duration) Contender {
	return Contender{
		Name:  name,
		About: about,
		Wakes: wakes,
		Sends: []string{"setnx", "get", "getset", "del"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			g := &getSetClient{pause: pause}
			if err := g.join(c); err != nil {
				return nil, err
			}
			return g, nil
		},
	}
}

type getSetClient struct {
	party
	pause time.Duration
}

func (c *getSetClient) Mutex(name string) Mutex { return &getSetMutex{client: c, name: name} }

type getSetMutex struct {
	client *getSetClient
	name   string
	end    time.Time
}

func (m *getSetMutex) Lock(ctx context.Context) error {
	for {
		ok, err := m.TryLock(ctx)
		if ok || err != nil {
			return err
		}
		if m.client.pause > 0 {
			err = sleep(ctx, m.client.pause)
		} else {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (m *getSetMutex) TryLock(ctx context.Context) (bool, error) {
	redis := m.client.redis
	m.end = time.Now().Add(m.client.lease)
	end := strconv.FormatInt(m.end.UnixMilli(), 10)
	set, err := redis.Do(ctx, redis.B().Setnx().Key(m.name).Value(end).Build()).AsBool()
	if err != nil || set {
		return set, err
	}
	seen, err := redis.Do(ctx, redis.B().Get().Key(m.name).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return false, nil // freed just now: the next try may have it
	}
	if err != nil || seen > time.Now().UnixMilli() {
		return false, err
	}
	former, err := redis.Do(ctx, redis.B().Getset().Key(m.name).Value(end).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return true, nil
	}
	return err == nil && former == seen, err
}

// Unlock deletes the key unless the lock's time is over: then it may belong to another owner.
func (m *getSetMutex) Unlock() error {
	if !time.Now().Before(m.end) {
		return errLost
	}
	redis := m.client.redis
	return redis.Do(context.Background(), redis.B().Del().Key(m.name).Build()).Error()
}
