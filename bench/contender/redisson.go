package contender

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// The wait of Redisson's RLock (RedissonLock.lock, tryLockInnerAsync, unlockInnerAsync): try;
// if the lock is held, subscribe to its channel, once a process; try again; then sleep until
// a permit or the end of the holder's lease. A message gives one permit a process, so that
// one of its waiters wakes and tries. Two parts are left out in its favour: the unlock latch
// (one more command) and unsubscribing when there are no waiters for a moment. The watchdog
// is left out since no scenario lasts as long as a lease.
var (
	redissonAcquire = rueidis.NewLuaScript(`
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
	redis.call('hincrby', KEYS[1], ARGV[2], 1)
	redis.call('pexpire', KEYS[1], ARGV[1])
	return nil
end
return redis.call('pttl', KEYS[1])`)
	redissonRelease = rueidis.NewLuaScript(`
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
	return nil
end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
	redis.call('pexpire', KEYS[1], ARGV[1])
	return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1`)
)

// RedissonStyle is Redisson's wait in Go.
func RedissonStyle() Contender {
	return Contender{
		Name:      "redisson-style",
		About:     "Redisson's scripts and its wait (subscribe, one wake a process), written in Go on rueidis",
		Wakes:     "pub/sub",
		Reentrant: true,
		Sends:     []string{"evalsha", "eval", "subscribe"},
		Key:       plain,
		Open: func(c Config) (Client, error) {
			r := &redissonClient{latches: make(map[string]*latch)}
			if err := r.join(c); err != nil {
				return nil, err
			}
			r.ctx, r.cancel = context.WithCancel(context.Background())
			return r, nil
		},
	}
}

type redissonClient struct {
	party

	ctx     context.Context // that of the subscriptions
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // protects following
	latches map[string]*latch
}

// A latch wakes the waiters of one lock in one process.
type latch struct {
	confirmed chan struct{} // closed when the subscription is confirmed
	permits   chan struct{} // one for each message
}

func (c *redissonClient) Mutex(name string) Mutex {
	return &redissonMutex{client: c, keys: []string{name, "redisson_lock__channel:{" + name + "}"}, args: []string{c.milliseconds, c.owner()}}
}

func (c *redissonClient) Close() error {
	c.cancel()
	c.redis.Close()
	c.running.Wait()
	return nil
}

func (c *redissonClient) latch(channel string) *latch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.latches[channel]; l != nil {
		return l
	}
	l := &latch{confirmed: make(chan struct{}), permits: make(chan struct{}, 1<<10)}
	c.latches[channel] = l
	var once sync.Once
	ctx := rueidis.WithOnSubscriptionHook(c.ctx, func(rueidis.PubSubSubscription) {
		once.Do(func() { close(l.confirmed) })
	})
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		_ = c.redis.Receive(ctx, c.redis.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {
			select {
			case l.permits <- struct{}{}:
			default:
			}
		})
	}()
	return l
}

type redissonMutex struct {
	client     *redissonClient
	keys, args []string
}

func (m *redissonMutex) Lock(ctx context.Context) error {
	ttl, err := m.try(ctx)
	if err != nil || ttl == acquired {
		return err
	}
	l := m.client.latch(m.keys[1])
	select {
	case <-l.confirmed:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		ttl, err := m.try(ctx)
		if err != nil || ttl == acquired {
			return err
		}
		timer := time.NewTimer(ttl)
		select {
		case <-l.permits:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

func (m *redissonMutex) TryLock(ctx context.Context) (bool, error) {
	ttl, err := m.try(ctx)
	return err == nil && ttl == acquired, err
}

// acquired is the answer of try for a granted lock; other answers are the time left to a
// lease.
const acquired time.Duration = -1

func (m *redissonMutex) try(ctx context.Context) (time.Duration, error) {
	ms, err := redissonAcquire.Exec(ctx, m.client.redis, m.keys[:1], m.args).AsInt64()
	if rueidis.IsRedisNil(err) {
		return acquired, nil
	}
	return max(0, time.Duration(ms)*time.Millisecond), err
}

func (m *redissonMutex) Unlock() error {
	err := redissonRelease.Exec(context.Background(), m.client.redis, m.keys, m.args).Error()
	if rueidis.IsRedisNil(err) {
		return errNotOurs // 0 is one level less
	}
	return err
}
