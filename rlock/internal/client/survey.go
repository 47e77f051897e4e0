package client

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// What Redis is asked about a lock, apart from its commands.

// fields returns those of the lock's hash, none if the lock is free.
func fields(ctx context.Context, l *Lock) ([]string, error) {
	return look(ctx, l, owners, "HKEYS")
}

// owners reads the fields of a hash, or the members of a sorted set, that holds a lock.
func owners(reply rueidis.RedisResult) ([]string, error) {
	all, err := reply.AsStrSlice()
	for _, owner := range all {
		if !wire.MayOwn(owner) && (owner != modeField || len(all) == 1) {
			return nil, wire.NotALock(owner)
		}
	}
	return all, err
}

// look sends a command that changes nothing about the lock's key, and decodes the reply.
func look[T any](ctx context.Context, l *Lock, decode func(rueidis.RedisResult) (T, error), command ...string) (reply T, err error) {
	err = l.survey(ctx, func(r *wire.Redis) []rueidis.Completed {
		return []rueidis.Completed{r.Arbitrary(l.Name.Key, command...)}
	}, func(replies []rueidis.RedisResult) (err error) {
		reply, err = decode(replies[0])
		return err
	})
	return reply, err
}

// survey sends commands that change nothing about the lock, and reads their replies.
func (l *Lock) survey(ctx context.Context, build func(*wire.Redis) []rueidis.Completed, read func([]rueidis.RedisResult) error) error {
	n, r := l.Name, l.Client.Redis
	if n.Err != nil {
		return n.Err
	}
	replies, err := r.Survey(ctx, n.Slot, func() []rueidis.Completed { return build(r) })
	if err == nil {
		err = wire.Explain(read(replies))
	}
	if err != nil {
		return fmt.Errorf("rlock: look at %q: %w", n.Key, err)
	}
	return nil
}

// keyTTL returns how long the lock's key lives.
func keyTTL(ctx context.Context, l *Lock) (time.Duration, error) {
	ms, err := look(ctx, l, rueidis.RedisResult.AsInt64, "PTTL")
	switch {
	case err != nil || ms == -2:
		return 0, err
	case ms == -1:
		return -1, nil
	}
	return wire.Milliseconds(ms), nil
}

// keyExists reports whether the lock's key is there.
func keyExists(ctx context.Context, l *Lock) (bool, error) {
	n, err := look(ctx, l, rueidis.RedisResult.AsInt64, "EXISTS")
	return n > 0, err
}
