package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

// The minimum that keeps Redisson's format: a hash of owner and count with a lease, and a message
// at the release.
var (
	floorAcquire = rueidis.NewLuaScript(`
if redis.call('exists', KEYS[1]) == 0 then
	redis.call('hset', KEYS[1], ARGV[2], '1')
	redis.call('pexpire', KEYS[1], ARGV[1])
	return 1
end
return 0`)
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
)

// floor is the lower bound of a lock in Redisson's format: two EVALSHA, sent through a rueidis client
// with the settings of rlock's pipelined connection, and in the scenario of held locks their renewals
// in pipelines of 128. It does not wait for a held lock.
func floor() contender {
	return contender{
		name: "floor-evalsha", about: "two raw EVALSHA through a pipelined rueidis, no waiting; renewals in pipelines of 128",
		renews: true, sends: []string{"evalsha", "eval", "script|load"},
		open: func(c config) (*client, error) {
			redis, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: c.addrs[:1], ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
				ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
			})
			if err != nil {
				return nil, err
			}
			f := &floored{redis: redis, lease: cmp.Or(c.lease, defaultLease), uuid: uuid.NewString(), held: make(map[*rueidis.LuaExec]struct{})}
			ctx, cancel := context.WithCancel(context.Background())
			if f.renews = c.lease > 0; f.renews {
				f.running.Go(func() { f.renew(ctx) })
			}
			return &client{mutex: f.mutex, close: func() error {
				cancel()
				f.running.Wait()
				redis.Close()
				return nil
			}}, nil
		},
	}
}

type floored struct {
	redis   rueidis.Client
	lease   time.Duration
	uuid    string
	owners  atomic.Uint64
	renews  bool
	running sync.WaitGroup

	mu   sync.Mutex // guards the field below
	held map[*rueidis.LuaExec]struct{}
}

// renew sends every lock's renewal once in a third of the lease.
func (f *floored) renew(ctx context.Context) {
	tick := time.NewTicker(f.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		held := make([]rueidis.LuaExec, 0, len(f.held))
		for m := range f.held {
			held = append(held, *m)
		}
		f.mu.Unlock()
		for len(held) > 0 {
			n := min(len(held), 128)
			floorRenew.ExecMulti(ctx, f.redis, held[:n]...)
			held = held[n:]
		}
	}
}

func (f *floored) mutex(name string) mutex {
	owner := fmt.Sprintf("%s:%d", f.uuid, f.owners.Add(1)) // in the format of Redisson
	keys, args := []string{name, "redisson_lock__channel:{" + name + "}"}, []string{fmt.Sprint(f.lease.Milliseconds()), owner}
	m := &rueidis.LuaExec{Keys: keys[:1], Args: args}
	return mutex{func(ctx context.Context) error {
		if err := answer(floorAcquire.Exec(ctx, f.redis, m.Keys, m.Args), "taken, and the floor does not wait"); err != nil {
			return err
		}
		if f.renews {
			f.mu.Lock()
			f.held[m] = struct{}{}
			f.mu.Unlock()
		}
		return nil
	}, func() error {
		if f.renews {
			f.mu.Lock()
			delete(f.held, m)
			f.mu.Unlock()
		}
		return answer(floorRelease.Exec(context.Background(), f.redis, keys, args[1:]), "the key was not ours any more at unlock")
	}}
}

// answer returns the error of a script that returns 0 if something is wrong.
func answer(reply rueidis.RedisResult, wrong string) error {
	n, err := reply.AsInt64()
	if err == nil && n == 0 {
		return errors.New(wrong)
	}
	return err
}
