package rlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
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

func acquireSemaphore(t *tenure) call {
	n := t.room.name
	return semaphoreAcquireScript.inline(2, n.key, n.queue,
		t.room.client.milliseconds(t.lease), t.text, strconv.Itoa(n.permits))
}

func mirrorSemaphore(_ *Client, part []sent) call {
	keys := make([]string, 0, len(part))
	args := make([]string, 0, 2*len(part))
	for _, s := range part {
		keys = append(keys, s.tenure.room.name.key)
		args = append(args, s.lease, s.owner)
	}
	return call{script: semaphoreMirrorScript, keys: keys, args: args}
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
	replies, err := c.survey(ctx, n, func() []rueidis.Completed {
		return []rueidis.Completed{c.redis.B().Arbitrary("ZRANGE").Keys(n.key).Args("0", "-1", "WITHSCORES").Build(), c.redis.B().Time().Build()}
	})
	var permits []permit
	if err == nil {
		permits, err = permitsOf(replies[0], replies[1])
	}
	if err != nil {
		_, err = diagnose(err)
		return nil, fmt.Errorf("rlock: look at %q: %w", n.key, err)
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
		if left := fromMilliseconds(int64(end.Score)) - now; left > 0 {
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
