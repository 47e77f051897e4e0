package contender

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

var (
	// The minimum that keeps Redisson's format: a hash of owner and count with a lease, and a
	// message at the release.
	floorAcquire = rueidis.NewLuaScript(`
if redis.call('exists', KEYS[1]) == 0 then
	redis.call('hset', KEYS[1], ARGV[2], '1')
	redis.call('pexpire', KEYS[1], ARGV[1])
	return nil
end
return redis.call('pttl', KEYS[1])`)
	floorRelease = rueidis.NewLuaScript(`
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
	return 0
end
redis.call('publish', KEYS[2], '0')
return 1`)
	floorRenew = rueidis.NewLuaScript(`
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
	return 0
end
return redis.call('pexpire', KEYS[1], ARGV[1])`)

	compareAndDelete = rueidis.NewLuaScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then
	return redis.call('del', KEYS[1])
end
return 0`)
)

// FloorEvalsha is the lower bound of a lock in Redisson's format: two EVALSHA, sent through a
// pipelined rueidis client, and in the scenario of held locks their renewals in pipelines of
// 128. It does not wait for a held lock.
func FloorEvalsha() Contender {
	return Contender{
		Name:   "floor-evalsha",
		About:  "two raw EVALSHA through a pipelined rueidis, no waiting; renewals in pipelines of 128",
		Renews: true,
		Sends:  []string{"evalsha", "eval", "script|load"},
		Key:    plain,
		Open: func(c Config) (Client, error) {
			f := &floorClient{held: make(map[*floorMutex]struct{})}
			if err := f.join(c); err != nil {
				return nil, err
			}
			if c.Lease > 0 {
				f.ctx, f.cancel = context.WithCancel(context.Background())
				f.running.Add(1)
				go f.renew()
			}
			return f, nil
		},
	}
}

type floorClient struct {
	party

	ctx     context.Context // nil: nothing is renewed
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	held map[*floorMutex]struct{}
}

func (c *floorClient) Mutex(name string) Mutex {
	return &floorMutex{client: c, keys: []string{name, "redisson_lock__channel:{" + name + "}"}, args: []string{c.milliseconds, c.owner()}}
}

func (c *floorClient) Close() error {
	if c.ctx != nil {
		c.cancel()
		c.running.Wait()
	}
	return c.party.Close()
}

// renew sends every lock's renewal once in a third of the lease.
func (c *floorClient) renew() {
	defer c.running.Done()
	for sleep(c.ctx, c.lease/3) == nil {
		c.mu.Lock()
		held := make([]rueidis.LuaExec, 0, len(c.held))
		for m := range c.held {
			held = append(held, rueidis.LuaExec{Keys: m.keys[:1], Args: m.args})
		}
		c.mu.Unlock()
		for len(held) > 0 {
			n := min(len(held), 128)
			floorRenew.ExecMulti(c.ctx, c.redis, held[:n]...)
			held = held[n:]
		}
	}
}

type floorMutex struct {
	client     *floorClient
	keys, args []string
}

func (m *floorMutex) Lock(ctx context.Context) error {
	err := floorAcquire.Exec(ctx, m.client.redis, m.keys[:1], m.args).Error()
	if !rueidis.IsRedisNil(err) {
		return errors.Join(errTaken, err)
	}
	if m.client.ctx != nil {
		m.client.mu.Lock()
		m.client.held[m] = struct{}{}
		m.client.mu.Unlock()
	}
	return nil
}

func (m *floorMutex) Unlock() error {
	if m.client.ctx != nil {
		m.client.mu.Lock()
		delete(m.client.held, m)
		m.client.mu.Unlock()
	}
	return unlocked(floorRelease.Exec(context.Background(), m.client.redis, m.keys, m.args[1:]))
}

// FloorSetNX is the simplest lock there is: SET NX PX with a unique value, and a
// script that deletes the key if it still has that value.
func FloorSetNX() Contender {
	return Contender{
		Name:  "floor-setnx",
		About: "SET NX PX and compare-and-delete through the same rueidis, no waiting",
		Sends: []string{"set", "evalsha", "eval"},
		Key:   plain,
		Open: func(c Config) (Client, error) {
			s := new(setNXClient)
			if err := s.join(c); err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

type setNXClient struct{ party }

func (c *setNXClient) Mutex(name string) Mutex {
	return &setNXMutex{client: c, keys: []string{name}, args: []string{c.owner()}}
}

type setNXMutex struct {
	client     *setNXClient
	keys, args []string
}

func (m *setNXMutex) Lock(ctx context.Context) error {
	redis := m.client.redis
	err := redis.Do(ctx, redis.B().Set().Key(m.keys[0]).Value(m.args[0]).Nx().PxMilliseconds(m.client.lease.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return errTaken
	}
	return err
}

func (m *setNXMutex) Unlock() error {
	return unlocked(compareAndDelete.Exec(context.Background(), m.client.redis, m.keys, m.args))
}

// defaultLease is that of the designs written here.
const defaultLease = 30 * time.Second

// connect opens the rueidis client of the floor and of the designs written here, with the settings
// of rlock's pipelined connection: no client-side cache, buffers of 64 KiB. The remaining
// differences to rlock are the lock, and the direct connection that rlock has for a lone caller.
func connect(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress:         []string{addr},
		ForceSingleClient:   true,
		DisableCache:        true,
		PipelineMultiplex:   -1,
		AlwaysPipelining:    true,
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
	})
}

// A party is a Client of the floor or of a design written here, to embed: its
// connection to Redis, its lease, and the names of its owners.
type party struct {
	redis        rueidis.Client
	lease        time.Duration
	milliseconds string // of the lease
	uuid         string
	owners       atomic.Uint64
}

// join connects p.
func (p *party) join(c Config) (err error) {
	p.lease = c.Lease
	if p.lease == 0 {
		p.lease = defaultLease
	}
	p.milliseconds = strconv.FormatInt(p.lease.Milliseconds(), 10)
	p.uuid = uuid.NewString()
	p.redis, err = connect(c.Addr)
	return err
}

// owner returns a new owner in the format of Redisson.
func (p *party) owner() string { return p.uuid + ":" + strconv.FormatUint(p.owners.Add(1), 10) }

// Close implements Client.
func (p *party) Close() error {
	p.redis.Close()
	return nil
}

var (
	errTaken   = errors.New("taken, and the floor does not wait")
	errNotOurs = errors.New("the key was not ours any more at unlock")
)

// unlocked returns Unlock's error for the reply of a script that deletes the owner's key.
func unlocked(reply rueidis.RedisResult) error {
	deleted, err := reply.AsInt64()
	if err == nil && deleted == 0 {
		return errNotOurs
	}
	return err
}
