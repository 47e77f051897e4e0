package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/rlock"
)

// A form is one way to protect a value with one library.
type form struct{ library, text string }

// The forms, in the table's words.
const (
	bare    = "bare"
	synced  = "a replica waited for"
	obeyed  = "context obeyed"
	clock   = "clock looked at"
	asked   = "Redis asked"
	fencing = "token at the resource"
	guarded = "guarded in Redis"
)

// forms are all that there are. rueidislock has no token; redsync and redislock have one form
// beside the bare one.
var forms = []form{
	{"rlock", bare}, {"redsync", bare}, {"redislock", bare}, {"rueidislock", bare}, {"redisson", bare},
	{"rlock", synced},
	{"rlock", obeyed}, {"rueidislock", obeyed}, {"redsync", clock}, {"redislock", asked}, {"redisson", asked},
	{"rlock", fencing}, {"redisson", fencing},
	{"rlock", guarded},
}

// command returns the command of a worker: this program, or rlock.guardedset.Main in Java. It fails
// where that cannot be run.
func (f form) command() (*exec.Cmd, error) {
	if f.library == "redisson" {
		return redisson.Command(redisson.V4, "rlock.guardedset.Main",
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
	}
	return redistest.Self(role)
}

// A held is a lock that was taken.
type held struct {
	ctx     context.Context // ends with the hold, as far as the library and the form say
	valid   func() bool     // the look just before the write
	token   int64           // 0: the resource compares none
	exec    func(ctx context.Context, source string, args ...string) (rueidis.RedisMessage, error)
	release func()
}

// A taker takes the lock. The context lasts as long as the hold.
type taker func(ctx context.Context) (*held, error)

// takers open a client of a library, and return what takes the lock by it in a form.
var takers = map[string]func(at stage.Address, lease time.Duration, form string) (taker, error){
	"rlock": func(at stage.Address, lease time.Duration, form string) (taker, error) {
		config := rlock.Config{Redis: option(at), Lease: lease}
		if form == synced {
			config.SyncReplicas = 1
		}
		client, err := rlock.New(config)
		if err != nil {
			return nil, err
		}
		lock := client.NewLock(name)
		if form == fencing {
			lock = client.NewFencedLock(name)
		}
		return func(ctx context.Context) (*held, error) {
			hold, err := lock.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			h := &held{ctx: ctx, valid: always, release: func() { _ = hold.Release(context.Background()) }}
			switch form {
			case obeyed:
				h.ctx, h.valid = hold.With(ctx), hold.Valid
			case fencing:
				token, err := hold.Token()
				if err != nil {
					h.release()
					return nil, err
				}
				h.token = int64(token)
			case guarded:
				h.ctx = hold.With(ctx)
				h.exec = func(ctx context.Context, source string, args ...string) (rueidis.RedisMessage, error) {
					return hold.Exec(ctx, source, resource, args)
				}
			}
			return h, nil
		}, nil
	},
	"redsync": func(at stage.Address, lease time.Duration, form string) (taker, error) {
		sync := redsync.New(goredis.NewPool(universal(at)))
		return func(ctx context.Context) (*held, error) {
			mutex := sync.NewMutex(name, redsync.WithExpiry(lease))
			if err := mutex.LockContext(ctx); err != nil {
				return nil, err
			}
			h := &held{ctx: ctx, valid: always, release: func() { _, _ = mutex.Unlock() }}
			if form == clock {
				h.valid = func() bool { return time.Now().Before(mutex.Until()) }
			}
			return h, nil
		}, nil
	},
	"redislock": func(at stage.Address, lease time.Duration, form string) (taker, error) {
		locker := redislock.New(universal(at))
		return func(ctx context.Context) (*held, error) {
			lock, err := locker.Obtain(ctx, name, lease, &redislock.Options{RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, 512*time.Millisecond)})
			if err != nil {
				return nil, err
			}
			h := &held{ctx: ctx, valid: always, release: func() { _ = lock.Release(context.Background()) }}
			if form == asked {
				h.valid = func() bool {
					left, err := lock.TTL(ctx)
					return err == nil && left > 0
				}
			}
			return h, nil
		}, nil
	},
	"rueidislock": func(at stage.Address, lease time.Duration, form string) (taker, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option(at), KeyMajority: 1, NoLoopTracking: true, KeyValidity: lease})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (*held, error) {
			own, release, err := locker.WithContext(ctx, name)
			if err != nil {
				return nil, err
			}
			h := &held{ctx: ctx, valid: always, release: release}
			if form == obeyed {
				h.ctx, h.valid = own, func() bool { return own.Err() == nil }
			}
			return h, nil
		}, nil
	},
}

func always() bool { return true }

// option is how a rueidis client connects.
func option(at stage.Address) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: at.Init, Sentinel: rueidis.SentinelOption{MasterSet: at.MasterSet}}
}

// universal is a client of go-redis.
func universal(at stage.Address) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: at.Init, MasterName: at.MasterSet})
}
