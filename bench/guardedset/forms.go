package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/go-rlock/rlock/rlock"
)

// A form is one way to protect a value with one library.
type form struct {
	Library string
	Form    string
	open    func(addr string, lease time.Duration) (taker, error)
}

// A taker takes the lock.
type taker func(ctx context.Context) (*held, error)

// A held is a lock that was taken.
type held struct {
	ctx     context.Context // ends with the hold, as far as the library and the form say
	valid   func() bool     // the look just before the write
	token   int64           // 0: the resource compares none
	exec    script          // executes what reads and writes the resource
	release func()
}

// A script executes a Lua script at the resource.
type script func(ctx context.Context, source string, args ...string) (rueidis.RedisMessage, error)

// The forms, in the table's words.
const (
	bare    = "bare"
	obeyed  = "context obeyed"
	clock   = "clock looked at"
	asked   = "Redis asked"
	fencing = "token at the resource"
	guarded = "guarded in Redis"
)

// forms are all that can be run. Redisson's workers would be JVMs: they are not run.
func forms() []form {
	return []form{
		{"rlock", bare, func(addr string, lease time.Duration) (taker, error) { return rlockAs(addr, lease, bare) }},
		{"redsync", bare, func(addr string, lease time.Duration) (taker, error) { return redsyncAs(addr, lease, false) }},
		{"redislock", bare, func(addr string, lease time.Duration) (taker, error) { return redislockAs(addr, lease, false) }},
		{"rueidislock", bare, func(addr string, lease time.Duration) (taker, error) { return rueidislockAs(addr, lease, false) }},
		{"rlock", obeyed, func(addr string, lease time.Duration) (taker, error) { return rlockAs(addr, lease, obeyed) }},
		{"rueidislock", obeyed, func(addr string, lease time.Duration) (taker, error) { return rueidislockAs(addr, lease, true) }},
		{"redsync", clock, func(addr string, lease time.Duration) (taker, error) { return redsyncAs(addr, lease, true) }},
		{"redislock", asked, func(addr string, lease time.Duration) (taker, error) { return redislockAs(addr, lease, true) }},
		{"rlock", fencing, func(addr string, lease time.Duration) (taker, error) { return rlockAs(addr, lease, fencing) }},
		{"rlock", guarded, func(addr string, lease time.Duration) (taker, error) { return rlockAs(addr, lease, guarded) }},
	}
}

// name is that of the lock in Redis.
const name = "lock:guarded-set"

func always() bool { return true }

func rlockAs(addr string, lease time.Duration, form string) (taker, error) {
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Lease: lease})
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
				return hold.Exec(ctx, source, []string{resource}, args)
			}
		}
		return h, nil
	}, nil
}

func redsyncAs(addr string, lease time.Duration, looks bool) (taker, error) {
	sync := redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: addr})))
	return func(ctx context.Context) (*held, error) {
		mutex := sync.NewMutex(name, redsync.WithExpiry(lease))
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		h := &held{ctx: ctx, valid: always, release: func() { _, _ = mutex.Unlock() }}
		if looks {
			h.valid = func() bool { return time.Now().Before(mutex.Until()) }
		}
		return h, nil
	}, nil
}

func redislockAs(addr string, lease time.Duration, looks bool) (taker, error) {
	locker := redislock.New(redis.NewClient(&redis.Options{Addr: addr}))
	return func(ctx context.Context) (*held, error) {
		lock, err := locker.Obtain(ctx, name, lease, &redislock.Options{RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, 512*time.Millisecond)})
		if err != nil {
			return nil, err
		}
		h := &held{ctx: ctx, valid: always, release: func() { _ = lock.Release(context.Background()) }}
		if looks {
			h.valid = func() bool {
				left, err := lock.TTL(ctx)
				return err == nil && left > 0
			}
		}
		return h, nil
	}, nil
}

func rueidislockAs(addr string, lease time.Duration, obeys bool) (taker, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: lease,
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
		if obeys {
			h.ctx, h.valid = own, func() bool { return own.Err() == nil }
		}
		return h, nil
	}, nil
}

var errUnknown = errors.New("guardedset: no such form")

func find(library, text string) (form, error) {
	for _, f := range forms() {
		if f.Library == library && f.Form == text {
			return f, nil
		}
	}
	return form{}, errUnknown
}
