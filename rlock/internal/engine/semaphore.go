package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A semaphore is a sorted set of the owners and the ends of their leases.
var semaphore = kind{
	public:  KindSemaphore,
	step:    wire.SemaphoreStep,
	acquire: acquireSemaphore,
	mirror:  mirrorSemaphore,
	holders: permitHolders,
	locked:  allPermitsHeld,
	ttl:     firstPermitEnds,
	number:  permitsOfLock,
	layout:  wire.Layout{Channel: "rlock_turn:semaphore:", Suffix: "sem"},
	many:    true,
	strict:  true,
}

// NewSemaphore returns the lock of one permit of so many.
func NewSemaphore(c *Client, key string, permits int) Lock {
	l := NewLock(c, SemaphoreKind, key)
	l.Name.permits = permits
	if permits < 1 && l.Name.Err == nil {
		l.Name.Err = fmt.Errorf("rlock: semaphore %q: %w: %d permits: use at least 1", key, wire.ErrInvalidConfig, permits)
	}
	return l
}

func acquireSemaphore(t *tenure) wire.Call {
	n := t.room.name
	return wire.SemaphoreAcquire.Call(2, n.Key, n.Queue,
		t.room.client.milliseconds(t.lease), t.text, strconv.Itoa(n.permits))
}

func permitsOfLock(n *Name, _ uint64) string { return strconv.Itoa(n.permits) }

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
func permitHolders(ctx context.Context, l *Lock) ([]string, error) {
	return look(ctx, l, owners, "ZRANGE", "0", "-1")
}

func allPermitsHeld(ctx context.Context, l *Lock) (bool, error) {
	held, err := l.permitsHeld(ctx)
	return len(held) >= l.Name.permits, err
}

func firstPermitEnds(ctx context.Context, l *Lock) (time.Duration, error) {
	held, err := l.permitsHeld(ctx)
	if err != nil || len(held) < l.Name.permits {
		return 0, err
	}
	return slices.MinFunc(held, func(a, b Permit) int { return cmp.Compare(a.Left, b.Left) }).Left, nil
}

// permitsHeld returns the permits that are held, by the clock of the server that has the
// semaphore.
func (l *Lock) permitsHeld(ctx context.Context) (held []Permit, err error) {
	err = l.survey(ctx, func(r *wire.Redis) []rueidis.Completed {
		return []rueidis.Completed{r.Arbitrary(l.Name.Key, "ZRANGE", "0", "-1", "WITHSCORES"), r.Client.B().Time().Build()}
	}, func(replies []rueidis.RedisResult) (err error) {
		held, err = PermitsOf(replies[0], replies[1])
		return err
	})
	return held, err
}

// A Permit is one that is held.
type Permit struct {
	Owner string
	Left  time.Duration
}

// PermitsOf reads the members of a semaphore's key, with their scores, and the server's time.
// Owners whose leases are over have no permit.
func PermitsOf(members, clock rueidis.RedisResult) (held []Permit, err error) {
	ends, err := members.AsZScores()
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	parts, err := clock.AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("TIME was answered with %d values, not 2", len(parts))
	}
	if err != nil {
		return nil, err
	}
	now := time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond // since 1970
	for _, end := range ends {
		if left := wire.Milliseconds(int64(end.Score)) - now; left > 0 {
			held = append(held, Permit{end.Member, left})
		}
	}
	return held, nil
}
