package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A single is a lock of one key.
type single struct {
	client *Client
	name   *name
	shared bool // whether it is the read lock of its name
}

var _ form = (*single)(nil)

// newSingle returns the lock of that kind and name. It asks Redis nothing.
func newSingle(c *Client, id kindID, key string) single {
	return single{client: c, name: c.newName(id, key)}
}

// forReaders returns the read lock beside a write lock.
func (l *single) forReaders() single { return single{client: l.client, name: l.name, shared: true} }

func (l *single) title() string { return l.name.Key }

func (l *single) beneath() []*single { return []*single{l} }

func (l *single) unusable() error { return l.name.err }

// same reports whether both are the same lock.
func (l *single) same(other *single) bool { return l.sameName(other) && l.shared == other.shared }

// sameName reports whether both are the same lock, or a reader's and a writer's.
func (l *single) sameName(other *single) bool {
	return l.client == other.client && l.name.id == other.name.id && l.name.Key == other.name.Key
}

func (l *single) take(ctx context.Context, req request) error {
	req.shared = l.shared
	return l.client.acquire(ctx, l.client.nameFor(l.name, req.owner), req)
}

func (l *single) hold(ctx, parent context.Context, req request) (handle, error) {
	req.shared = l.shared
	n := l.client.nameFor(l.name, req.owner)
	h := &hold{client: l.client, name: n, owner: req.owner, shared: l.shared, whole: req.whole}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	req.hold = h
	err := l.client.acquire(ctx, n, req)
	if errors.Is(err, ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", l.name.Key, err)
	}
	if err != nil {
		h.cancel(err)
		return nil, err
	}
	return h, nil
}

func (l *single) unlock(ctx context.Context, o Owner) error {
	return l.client.unlock(ctx, l.client.nameFor(l.name, o), o, l.shared, nil)
}

func (l *single) forceUnlock(ctx context.Context) (bool, error) {
	return l.client.forceUnlock(ctx, l.name, l.shared)
}

func (l *single) isLocked(ctx context.Context) (bool, error) { return l.name.kind().locked(ctx, l) }

func (l *single) ttl(ctx context.Context) (time.Duration, error) { return l.name.kind().ttl(ctx, l) }

// keyTTL returns how long the lock's key lives.
func keyTTL(ctx context.Context, l *single) (time.Duration, error) {
	ms, err := l.number(ctx, "PTTL")
	switch {
	case err != nil || ms == -2:
		return 0, err
	case ms == -1:
		return -1, nil
	}
	return wire.Milliseconds(ms), nil
}

func (l *single) depth(o Owner) int {
	r := l.client.enterIfAny(l.client.nameFor(l.name, o))
	if r == nil {
		return 0
	}
	defer r.exit()
	t := r.current(time.Now())
	if t == nil {
		return 0
	}
	return t.depth(o, l.shared)
}

func (l *single) token(o Owner) (uint64, error) {
	if l.name.err != nil {
		return 0, l.name.err
	}
	if !l.name.kind().fenced {
		return 0, errNoToken(l.name.Key)
	}
	if r := l.client.enterIfAny(l.name); r != nil {
		defer r.exit()
		if t := r.current(time.Now()); t != nil && t.holds(o) {
			return t.tokens.current, nil
		}
	}
	if cause := l.client.losses.find(lossKey{l.name.id, l.name.Key, o}); cause != nil {
		return 0, cause
	}
	return 0, fmt.Errorf("rlock: token of %q: owner %s: %w", l.name.Key, o, l.client.losses.notHeld())
}

// keyExists reports whether the lock's key is there.
func keyExists(ctx context.Context, l *single) (bool, error) {
	n, err := l.number(ctx, "EXISTS")
	return n > 0, err
}

func (l *single) number(ctx context.Context, command string) (int64, error) {
	return look(ctx, l.client, l.name, rueidis.RedisResult.AsInt64, command)
}

// here reports whether another owner of this process has the lock or waits for it,
// and whether this client is about to free it. Where the server is silent nobody waits.
func (l *single) here(o Owner) (taken, freeing bool) {
	r := l.client.enterIfAny(l.name)
	if r == nil {
		return false, false
	}
	defer r.exit()
	now := time.Now()
	if t := r.current(now); t != nil {
		return !t.holds(o), false
	}
	head := r.queue.Head()
	live := head != nil && !head.Value.over() // or it is on its way out
	return live && head.Value.wait > 0 && !l.isSilent(), !live && (head != nil || r.inFlight > 0)
}

// isSilent reports whether the server is taken for dead: it leaves commands for this or any
// other name unanswered.
func (l *single) isSilent() bool { return l.unanswered(silence) }

// unanswered reports whether the server has answered nothing for at least so long.
func (l *single) unanswered(least time.Duration) bool {
	return l.client.redis.Limits(l.name.Slot).Asks.Unanswered(least)
}
