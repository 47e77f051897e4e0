package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Questions to Redis about a lock, apart from the commands of tenures.

// questions are the questions to Redis about locks of one kind.
type questions struct {
	// holders returns the owners that an unlock by force has to release.
	holders func(ctx context.Context, l *NamedLock) ([]wire.OwnerText, error)
	// locked reports whether the lock is held, and ttl for how long.
	locked func(ctx context.Context, l *NamedLock) (bool, error)
	ttl    func(ctx context.Context, l *NamedLock) (time.Duration, error)
}

// IsLocked asks Redis, unless this client holds the lock in a way that Redis may not show yet: by a
// writer that reads as well, or reads only by now. Until Redis confirms that, no other client can
// hold the lock in another way.
func (l *NamedLock) IsLocked(ctx context.Context) (bool, error) {
	if locked, known := l.knownHere(); known {
		return locked, nil
	}
	if err := l.awaitConnection(ctx); err != nil {
		return false, err
	}
	return kinds[l.Name.KindID].asks.locked(ctx, l)
}

// TTL asks Redis for how long the lock is held if no lease is renewed: 0 if it is free, -1 if its
// key does not expire.
func (l *NamedLock) TTL(ctx context.Context) (time.Duration, error) {
	if err := l.awaitConnection(ctx); err != nil {
		return 0, err
	}
	return kinds[l.Name.KindID].asks.ttl(ctx, l)
}

// awaitConnection waits for the first connection of the client.
func (l *NamedLock) awaitConnection(ctx context.Context) error {
	if err := l.driver.Redis.AwaitConnection(ctx, &l.Name.Keys); err != nil {
		return fmt.Errorf("rlock: look at %q: %w", l.Name.Key, wire.Explain(err))
	}
	return nil
}

// Check returns nil if a lock whose name begins with prefix could be taken now, else the error of
// an attempt: see package rlock.
func (c *Client) Check(ctx context.Context, prefix string) error {
	err := wire.Over(ctx)
	switch {
	case c.Closed.Load():
		err = wire.ErrClosed
	case err == nil:
		err = c.Redis.CheckLocks(ctx, prefix, c.ID)
	}
	if err != nil {
		return fmt.Errorf("rlock: check: %w", err)
	}
	return nil
}

// fields returns the owners in the lock's hash: none if the lock is free.
func fields(ctx context.Context, l *NamedLock) ([]wire.OwnerText, error) {
	return ask(ctx, l, owners, "HKEYS")
}

// owners decodes the fields of a hash, or the members of a sorted set.
func owners(reply rueidis.RedisResult) (texts []wire.OwnerText, err error) {
	all, err := reply.AsStrSlice()
	for _, owner := range all {
		if !wire.MayOwn(owner) && (owner != modeField || len(all) == 1) {
			return nil, wire.NotALock(owner)
		}
		texts = append(texts, wire.OwnerText(owner))
	}
	return texts, err
}

// ask sends a command that reads the lock's key, and decodes the reply.
func ask[T any](ctx context.Context, l *NamedLock, decode func(rueidis.RedisResult) (T, error), command ...string) (reply T, err error) {
	err = l.survey(ctx, func(replies []rueidis.RedisResult) (err error) {
		reply, err = decode(replies[0])
		return err
	}, l.driver.Redis.Arbitrary(l.Name.Key, command...))
	return reply, err
}

// survey sends commands that read the lock, and has their replies decoded.
func (l *NamedLock) survey(ctx context.Context, read func([]rueidis.RedisResult) error, commands ...rueidis.Completed) error {
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

// keyTTL returns the TTL of the lock's key.
func keyTTL(ctx context.Context, l *NamedLock) (time.Duration, error) {
	ms, err := ask(ctx, l, rueidis.RedisResult.AsInt64, "PTTL")
	switch {
	case err != nil || ms == -2:
		return 0, err
	case ms == -1:
		return -1, nil
	}
	return wire.Milliseconds(ms), nil
}

// keyExists reports whether the lock's key is there.
func keyExists(ctx context.Context, l *NamedLock) (bool, error) {
	n, err := ask(ctx, l, rueidis.RedisResult.AsInt64, "EXISTS")
	return n > 0, err
}

// A read-write lock is a hash of the mode, the readers and the writer.

const modeField = "mode"

// readersOrWriters returns the readers only while there is no writer, as Redisson's
// forceUnlockAsync.
func readersOrWriters(ctx context.Context, l *NamedLock) ([]wire.OwnerText, error) {
	fields, err := fields(ctx, l)
	if l.Shared && len(ownersAmong(fields, false)) > 0 {
		return nil, nil
	}
	return ownersAmong(fields, l.Shared), err
}

func readOrWritten(ctx context.Context, l *NamedLock) (bool, error) {
	fields, err := fields(ctx, l)
	return len(ownersAmong(fields, l.Shared)) > 0, err
}

// ownersAmong returns the owners that read, or write, by the fields.
func ownersAmong(fields []wire.OwnerText, read bool) (owners []wire.OwnerText) {
	for _, field := range fields {
		owner, writes := field.CutWrite()
		if field != modeField && writes != read {
			owners = append(owners, owner)
		}
	}
	return owners
}

// A semaphore is a sorted set of the owners and the ends of their leases.

// permitHolders returns the owners in Redis, with those whose leases have ended.
func permitHolders(ctx context.Context, l *NamedLock) ([]wire.OwnerText, error) {
	return ask(ctx, l, owners, "ZRANGEBYSCORE", "0", "+inf")
}

func allPermitsHeld(ctx context.Context, l *NamedLock) (bool, error) {
	held, err := l.permitsHeld(ctx)
	return err == nil && sumOf(held) >= l.Name.Permits, err
}

func firstPermitEnds(ctx context.Context, l *NamedLock) (time.Duration, error) {
	held, err := l.permitsHeld(ctx)
	if err != nil || sumOf(held) < l.Name.Permits {
		return 0, err
	}
	return slices.MinFunc(held, func(a, b wire.Permit) int { return cmp.Compare(a.Left, b.Left) }).Left, nil
}

// sumOf returns the number of permits that the owners hold.
func sumOf(held []wire.Permit) (n int) {
	for _, p := range held {
		n += p.Count
	}
	return n
}

// permitsHeld returns the permits that are held, by the clock of the server.
func (l *NamedLock) permitsHeld(ctx context.Context) (held []wire.Permit, err error) {
	r := l.driver.Redis
	err = l.survey(ctx, func(replies []rueidis.RedisResult) (err error) {
		held, err = wire.PermitsOf(replies[0], replies[1])
		return err
	}, r.Arbitrary(l.Name.Key, "ZRANGE", "0", "-1", "WITHSCORES"), r.Client.B().Time().Build())
	return held, err
}
