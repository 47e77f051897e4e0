package rlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The kind of a semaphore: a sorted set of the owners and the ends of their leases.

// newSemaphore returns the lock of one permit of so many.
func newSemaphore(c *Client, key string, permits int) single {
	l := newSingle(c, semaphoreKind, key)
	l.name.permits = permits
	if permits < 1 && l.name.err == nil {
		l.name.err = fmt.Errorf("rlock: semaphore %q: %w: %d permits: use at least 1", key, ErrInvalidConfig, permits)
	}
	return l
}

func acquireSemaphore(t *tenure) wire.Call {
	n := t.room.name
	return wire.SemaphoreAcquire.Call(2, n.Key, n.Queue,
		t.room.client.milliseconds(t.lease), t.text, strconv.Itoa(n.permits))
}

func permitsOfLock(n *name, _ uint64) string { return strconv.Itoa(n.permits) }

func mirrorSemaphore(_ *Client, part []sent) wire.Call {
	keys := make([]string, 0, len(part))
	args := make([]string, 0, 2*len(part))
	for _, s := range part {
		keys = append(keys, s.tenure.room.name.Key)
		args = append(args, s.lease, s.owner)
	}
	return wire.Call{Script: wire.SemaphoreMirror, Keys: keys, Args: args}
}

// permitHolders are the owners in Redis, those included whose leases are over.
func permitHolders(ctx context.Context, c *Client, n *name) ([]string, error) {
	return look(ctx, c, n, rueidis.RedisResult.AsStrSlice, "ZRANGE", "0", "-1")
}

func allPermitsHeld(ctx context.Context, l *single) (bool, error) {
	ends, err := l.permitsHeld(ctx)
	return len(ends) >= l.name.permits, err
}

func firstPermitEnds(ctx context.Context, l *single) (time.Duration, error) {
	left, err := l.permitsHeld(ctx)
	if err != nil || len(left) < l.name.permits {
		return 0, err
	}
	return slices.Min(left), nil
}

// permitsHeld returns what is left of the lease of each holder, by the clock of the server
// that has the semaphore.
func (l *single) permitsHeld(ctx context.Context) (left []time.Duration, err error) {
	c, n := l.client, l.name
	if n.err != nil {
		return nil, n.err
	}
	replies, err := c.redis.Survey(ctx, n.Slot, func() []rueidis.Completed {
		return []rueidis.Completed{c.redis.Arbitrary(n.Key, "ZRANGE", "0", "-1", "WITHSCORES"), c.redis.Client.B().Time().Build()}
	})
	var permits []permit
	if err == nil {
		permits, err = permitsOf(replies[0], replies[1])
	}
	if err != nil {
		_, err = wire.Diagnose(err)
		return nil, fmt.Errorf("rlock: look at %q: %w", n.Key, err)
	}
	for _, p := range permits {
		left = append(left, p.left)
	}
	return left, nil
}

// A permit is one that is held.
type permit struct {
	owner string
	left  time.Duration
}

// permitsOf reads the members of a semaphore's key, with their scores, and the server's time.
// Owners whose leases are over have no permit.
func permitsOf(members, clock rueidis.RedisResult) (held []permit, err error) {
	ends, err := members.AsZScores()
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	now, err := serverTime(clock)
	if err != nil {
		return nil, err
	}
	for _, end := range ends {
		if left := wire.Milliseconds(int64(end.Score)) - now; left > 0 {
			held = append(held, permit{end.Member, left})
		}
	}
	return held, nil
}

// serverTime reads the answer to TIME, as the time since 1970.
func serverTime(result rueidis.RedisResult) (time.Duration, error) {
	parts, err := result.AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("TIME was answered with %d values, not 2", len(parts))
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond, nil
}
