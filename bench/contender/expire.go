package contender

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// The design of many blog posts from before SET NX EX (Redis 2.6.12): SETNX and
// EXPIRE in one script so that no crash can come between them, a unique value so
// that only the owner unlocks, and polling.
var setNXAndExpire = rueidis.NewLuaScript(`
if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then
	redis.call('expire', KEYS[1], ARGV[2])
	return 1
end
return 0`)

const (
	expirePoll  = 50 * time.Millisecond
	expireTries = 200
)

var errTries = errors.New("not acquired in 200 tries, 50 ms apart")

// ExpirePoll is SETNX and EXPIRE in one script with a unique value, polling at a
// fixed interval up to a count.
func ExpirePoll() Contender {
	return Contender{
		Name:  "setnx-expire",
		About: "SETNX and EXPIRE in one script, a unique value, up to 200 tries 50 ms apart",
		Wakes: "sleep",
		Sends: []string{"evalsha", "eval"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			e := new(expireClient)
			if err := e.join(c); err != nil {
				return nil, err
			}
			e.seconds = strconv.FormatInt(max(1, int64(e.lease/time.Second)), 10)
			return e, nil
		},
	}
}

type expireClient struct {
	party
	seconds string // of the lease
}

func (c *expireClient) Mutex(name string) Mutex {
	return &expireMutex{client: c, keys: []string{name}, args: []string{c.owner(), c.seconds}}
}

type expireMutex struct {
	client     *expireClient
	keys, args []string
}

func (m *expireMutex) Lock(ctx context.Context) error {
	for range expireTries {
		ok, err := m.TryLock(ctx)
		if ok || err != nil {
			return err
		}
		if err := sleep(ctx, expirePoll); err != nil {
			return err
		}
	}
	return errTries
}

func (m *expireMutex) TryLock(ctx context.Context) (bool, error) {
	return setNXAndExpire.Exec(ctx, m.client.redis, m.keys, m.args).AsBool()
}

func (m *expireMutex) Unlock() error {
	return unlocked(compareAndDelete.Exec(context.Background(), m.client.redis, m.keys, m.args[:1]))
}
