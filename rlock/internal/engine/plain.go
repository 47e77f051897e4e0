package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A plain lock is a hash of one owner and its count, as Redisson's RLock.
var plain = kind{
	public:  KindPlain,
	step:    wire.PlainStep,
	acquire: acquirePlain,
	mirror:  mirrorPlain,
	holders: fields,
	locked:  keyExists,
	ttl:     keyTTL,
	layout:  wire.Layout{Channel: "redisson_lock__channel:", Fair: true},
	foreign: true,
}

// A fair lock is a plain lock in Redis, with a ticket for each waiter and no hand-offs.
var fair = plain.but(func(k *kind) {
	k.public = KindFair
	k.strict = true
})

func acquirePlain(t *tenure) wire.Call {
	n := t.room.name
	return wire.Acquire.Call(2, n.Key, n.Queue, t.room.client.milliseconds(t.lease), t.text)
}

func mirrorPlain(c *Client, part []sent) wire.Call {
	keys := make([]string, 0, len(part))
	args := make([]string, 0, 1+5*len(part))
	args = append(args, c.Redis.Family())
	var more []string // keys, of those that ask
	for _, s := range part {
		keys = append(keys, s.tenure.room.name.Key)
		asks := s.asks(c)
		more = append(more, asks.Keys...)
		args = append(args, s.lease, s.owner, s.count, asks.How, asks.Channel)
	}
	keys = append(keys, more...)
	return wire.Call{Script: wire.Mirror, Keys: keys, Args: args}
}

// fields returns those of the lock's hash, none if nobody has it.
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

// survey sends commands that change nothing about the lock, and has their replies read.
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
