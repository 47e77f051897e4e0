package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/go-rlock/rlock/rlock"
)

// name is that of the lock in Redis.
const name = "lock:guarded-set"

func always() bool { return true }

func rlockAs(p place, lease time.Duration, form string) (taker, error) {
	config := rlock.Config{Redis: p.rueidis(), Lease: lease}
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
}

func redsyncAs(p place, lease time.Duration, form string) (taker, error) {
	sync := redsync.New(goredis.NewPool(p.goredis()))
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
}

func redislockAs(p place, lease time.Duration, form string) (taker, error) {
	locker := redislock.New(p.goredis())
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
}

func rueidislockAs(p place, lease time.Duration, form string) (taker, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: p.rueidis(), KeyMajority: 1, NoLoopTracking: true, KeyValidity: lease,
	})
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
}
