package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// What Redis is asked about a lock, apart from the commands of tenures.

// questions are what Redis is asked about a lock of a kind.
type questions struct {
	// holders asks for the owners whose tenures an unlock by force has to release.
	holders func(ctx context.Context, l *Lock) ([]string, error)
	// locked asks whether the lock is held, and ttl for how long.
	locked func(ctx context.Context, l *Lock) (bool, error)
	ttl    func(ctx context.Context, l *Lock) (time.Duration, error)
}

// IsLocked asks Redis, unless this client holds the lock in a way that Redis may not show yet: a writer that
// reads, too, or one that only reads now. Until Redis has confirmed that no other client can hold the lock otherwise.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	if locked, known := l.knownHere(); known {
		return locked, nil
	}
	if err := l.awaits(ctx); err != nil {
		return false, err
	}
	return kinds[l.Name.KindID].asks.locked(ctx, l)
}

// TTL asks Redis for how long the lock is held, if no lease is renewed: 0 if it is free, -1 without an end.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	if err := l.awaits(ctx); err != nil {
		return 0, err
	}
	return kinds[l.Name.KindID].asks.ttl(ctx, l)
}

// awaits waits for the first connection of the client.
func (l *Lock) awaits(ctx context.Context) error {
	if err := l.driver.Redis.Await(ctx, &l.Name.Keys); err != nil {
		return fmt.Errorf("rlock: look at %q: %w", l.Name.Key, wire.Explain(err))
	}
	return nil
}

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
	err = l.survey(ctx, func(replies []rueidis.RedisResult) (err error) {
		reply, err = decode(replies[0])
		return err
	}, l.driver.Redis.Arbitrary(l.Name.Key, command...))
	return reply, err
}

// survey sends commands that change nothing about the lock, and reads their replies.
func (l *Lock) survey(ctx context.Context, read func([]rueidis.RedisResult) error, commands ...rueidis.Completed) error {
	n := l.Name
	if n.Err != nil {
		return n.Err
	}
	replies, err := l.driver.Redis.Survey(ctx, n.Slot, commands...)
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

// A read-write lock is a hash of the mode, the readers and the writer.

const (
	modeField   = "mode"
	writeSuffix = ":write"
)

// readersOrWriters returns the readers only while there is no writer, as Redisson's
// forceUnlockAsync.
func readersOrWriters(ctx context.Context, l *Lock) ([]string, error) {
	fields, err := fields(ctx, l)
	if l.Shared && len(ownersAmong(fields, false)) > 0 {
		return nil, nil
	}
	return ownersAmong(fields, l.Shared), err
}

func readOrWritten(ctx context.Context, l *Lock) (bool, error) {
	fields, err := fields(ctx, l)
	return len(ownersAmong(fields, l.Shared)) > 0, err
}

// ownersAmong returns those that the fields show to read, or to write.
func ownersAmong(fields []string, read bool) (owners []string) {
	for _, field := range fields {
		owner, writes := strings.CutSuffix(field, writeSuffix)
		if field != modeField && writes != read {
			owners = append(owners, owner)
		}
	}
	return owners
}

// A semaphore is a sorted set of the owners and the ends of their leases.

// permitHolders are the owners in Redis, those included whose leases are over.
func permitHolders(ctx context.Context, l *Lock) ([]string, error) {
	return look(ctx, l, owners, "ZRANGEBYSCORE", "0", "+inf")
}

func allPermitsHeld(ctx context.Context, l *Lock) (bool, error) {
	held, err := l.permitsHeld(ctx)
	return sumOf(held) >= l.Name.Permits, err
}

func firstPermitEnds(ctx context.Context, l *Lock) (time.Duration, error) {
	held, err := l.permitsHeld(ctx)
	if err != nil || sumOf(held) < l.Name.Permits {
		return 0, err
	}
	return slices.MinFunc(held, func(a, b wire.Permit) int { return cmp.Compare(a.Left, b.Left) }).Left, nil
}

// sumOf returns how many permits the owners hold.
func sumOf(held []wire.Permit) (n int) {
	for _, p := range held {
		n += p.Count
	}
	return n
}

// permitsHeld returns the permits that are held, by the clock of the server that has the
// semaphore.
func (l *Lock) permitsHeld(ctx context.Context) (held []wire.Permit, err error) {
	r := l.driver.Redis
	err = l.survey(ctx, func(replies []rueidis.RedisResult) (err error) {
		held, err = wire.PermitsOf(replies[0], replies[1])
		return err
	}, r.Arbitrary(l.Name.Key, "ZRANGE", "0", "-1", "WITHSCORES"), r.Client.B().Time().Build())
	return held, err
}
