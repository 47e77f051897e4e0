package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A semaphore is a sorted set of the owners and the ends of their leases.

// NewSemaphore returns the lock of one permit of so many.
func NewSemaphore(c *Client, key string, permits int) Lock {
	l := NewLock(c, SemaphoreKind, key)
	l.Name.Permits = permits
	if permits < 1 && l.Name.Err == nil {
		l.Name.Err = fmt.Errorf("rlock: semaphore %q: %w: %d permits: use at least 1", key, wire.ErrInvalidConfig, permits)
	}
	return l
}

// permitHolders are the owners in Redis, those included whose leases are over.
func permitHolders(ctx context.Context, l *Lock) ([]string, error) {
	return look(ctx, l, owners, "ZRANGE", "0", "-1")
}

func allPermitsHeld(ctx context.Context, l *Lock) (bool, error) {
	held, err := l.permitsHeld(ctx)
	return len(held) >= l.Name.Permits, err
}

func firstPermitEnds(ctx context.Context, l *Lock) (time.Duration, error) {
	held, err := l.permitsHeld(ctx)
	if err != nil || len(held) < l.Name.Permits {
		return 0, err
	}
	return slices.MinFunc(held, func(a, b wire.Permit) int { return cmp.Compare(a.Left, b.Left) }).Left, nil
}

// permitsHeld returns the permits that are held, by the clock of the server that has the
// semaphore.
func (l *Lock) permitsHeld(ctx context.Context) (held []wire.Permit, err error) {
	err = l.survey(ctx, func(r *wire.Redis) []rueidis.Completed {
		return []rueidis.Completed{r.Arbitrary(l.Name.Key, "ZRANGE", "0", "-1", "WITHSCORES"), r.Client.B().Time().Build()}
	}, func(replies []rueidis.RedisResult) (err error) {
		held, err = wire.PermitsOf(replies[0], replies[1])
		return err
	})
	return held, err
}
