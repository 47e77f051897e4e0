package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// A Lock is a reentrant lock that clients on many machines contend for, known by
// its name. It holds no state of any call: it may be shared, copied and thrown
// away, and all its methods may be called concurrently.
//
// The methods that take a lock without returning a handle (Lock, TryLock and
// their kin) take it in the name of an [Owner]: the goroutine that calls, or the
// owner in the context. The owner may lock again without waiting, as often as it
// likes, and must unlock as often.
//
// Levels may ask for different leases. The lock is kept for the longest that any
// level still open asks for; the watchdog counts as without end. So a nested
// LockFor neither shortens what is held nor stops the watchdog of an outer level.
type Lock struct{ lock }

// lock has the methods of all kinds of lock that live in one key.
type lock struct {
	client *Client
	name   *name
	shared bool // whether it is the read lock of its name
}

// Name returns the name that the lock was made with.
func (l *lock) Name() string { return l.name.key }

// Lock waits until the caller holds the lock, or ctx ends. The watchdog keeps
// the lock until Unlock. Within a process waiters are served first come, first
// served; processes that keep waiting take turns (see the package comment).
//
// An error means that the caller holds nothing more than before. If ctx ended,
// the error is ctx's, and carries what Redis said last if that was an error:
// transient errors are retried. Errors that waiting cannot cure are
// returned at once: [ErrWrongType], [ErrNoPermission], [ErrUnsupported],
// [ErrInvalidName], [ErrClosed]. If the caller's hold was lost before its time and
// is not unlocked yet, Lock fails with [ErrLost], which says for how long.
//
// Redisson's lock() and lockInterruptibly().
func (l *lock) Lock(ctx context.Context) error {
	return l.client.acquire(ctx, l.name, request{owner: ownerOf(ctx), shared: l.shared, wait: forever})
}

// LockFor is Lock without the watchdog: the lock is the caller's for the lease,
// or until Unlock, whichever comes first. When the lease ends before, the hold
// is lost, and Unlock returns [ErrLost]. A lease too short to keep is refused
// with [ErrInvalidLease]; 0 is Lock.
//
// Nothing needs to be unlocked once the lease is over, and the caller may lock the
// lock again. For the Unlock that may come, a client remembers up to 10 000 owners
// whose fixed leases are over; when there are more it forgets the first to end, and
// from then on an Unlock by an owner that it knows nothing of returns both
// [ErrNotHeld] and ErrLost.
//
// Redisson's lock(lease, unit).
func (l *lock) LockFor(ctx context.Context, lease time.Duration) error {
	return l.client.acquire(ctx, l.name, request{owner: ownerOf(ctx), shared: l.shared, lease: lease, wait: forever})
}

// TryLock takes the lock if it is the caller's, or is free and nobody waits for it, and
// reports whether it did. It makes one attempt, and none at all, without a command to
// Redis, when somebody in this process holds the lock or waits for it. If Redis has yet
// to answer this process about the lock, since a Lock was cancelled or an Unlock is under
// way, the attempt comes after the answer. The watchdog keeps the lock. Any fault is
// returned at once.
//
// Redisson's tryLock().
func (l *lock) TryLock(ctx context.Context) (bool, error) {
	return outcome(l.client.acquire(ctx, l.name, request{owner: ownerOf(ctx), shared: l.shared}))
}

// TryLockFor waits for the lock at most for the time given by wait, and reports
// whether the caller holds it: false without an error means that another owner
// held it for all of that time. A fault that lasts as long is an error. A wait of
// 0 or less is one attempt. The wait is for the time between attempts: one that
// is under way when it ends is waited for, if ctx lasts. The lease is as for
// LockFor; 0 means the watchdog.
//
// Redisson's tryLock(wait, unit) and tryLock(wait, lease, unit).
func (l *lock) TryLockFor(ctx context.Context, wait, lease time.Duration) (bool, error) {
	return outcome(l.client.acquire(ctx, l.name, request{owner: ownerOf(ctx), shared: l.shared, lease: lease, wait: max(wait, 0)}))
}

func outcome(err error) (bool, error) {
	if errors.Is(err, ErrNotAcquired) {
		return false, nil
	}
	return err == nil, err
}

// Unlock takes back one Lock of the caller. Unless that was the last it returns
// at once, and so it does if another goroutine of the process waits and may have
// the lock next; else it is released in Redis, which grants it to the first client in
// its queue.
//
// It returns [ErrNotHeld] if the caller does not hold the lock, [ErrLost] if it
// held it and lost it, and [ErrUnconfirmed] if Redis did not confirm it. After it,
// whatever it returns, the caller holds one level less, and after the last level
// nothing renews the lock: no command that does is sent any more.
//
// Unlock does not end with ctx, of which it uses nothing but the owner: a lock
// must be freed also by a request that was cancelled. It waits for Redis for
// about three seconds at most, or longer if [Config].Redis.ConnWriteTimeout is.
//
// Redisson's unlock().
func (l *lock) Unlock(ctx context.Context) error {
	return l.client.unlock(l.name, ownerOf(ctx), l.shared, nil)
}

// ForceUnlock frees the lock, regardless of its holder and depth, and reports
// whether it did: false means that nobody held it, or that the holder unlocked it
// at the same moment. A holder in this client learns it at once, others when they
// renew next. Use it by hand, for what a dead process left behind: a holder that
// lives goes on until it learns. After an error it may have been freed, or may be
// yet; a later holder keeps it.
//
// Redisson's forceUnlock().
func (l *lock) ForceUnlock(ctx context.Context) (bool, error) {
	return l.client.forceUnlock(ctx, l.name, l.shared)
}

// IsLocked asks Redis whether anybody holds the lock. The answer may be out of
// date when it arrives.
//
// Redisson's isLocked().
func (l *lock) IsLocked(ctx context.Context) (bool, error) {
	n, err := l.number(ctx, "EXISTS")
	return n > 0, err
}

// TTL asks Redis how long the lock will be held if nobody renews it: 0 if it is
// free, -1 ns if somebody has made its key one that does not expire.
//
// Redisson's remainTimeToLive().
func (l *lock) TTL(ctx context.Context) (time.Duration, error) {
	ms, err := l.number(ctx, "PTTL")
	switch {
	case err != nil || ms == -2:
		return 0, err
	case ms == -1:
		return -1, nil
	}
	return fromMilliseconds(ms), nil
}

// look sends a command that changes nothing about the lock's key, and decodes the
// reply. It tries again for as long as a caller of Unlock would wait, unless Redis has
// answered, or ctx ends before.
func look[T any](ctx context.Context, c *Client, n *name, command string, decode func(rueidis.RedisResult) (T, error)) (reply T, err error) {
	switch {
	case n.err != nil:
		return reply, n.err
	case c.closed.Load():
		return reply, fmt.Errorf("rlock: look at %q: %w", n.key, ErrClosed)
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	var last error // of the attempts so far
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		if reply, err = decode(c.glance(ctx, n, command)); err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			err = timeUp(ctx, last)
			break
		}
		var f fault
		if f, err = diagnose(err); f == never || c.closed.Load() {
			break
		}
		last = err
		select {
		case <-time.After(jitter(retry)):
		case <-ctx.Done():
		}
	}
	return reply, fmt.Errorf("rlock: look at %q: %w", n.key, err)
}

// glance is one attempt of a look. It returns when ctx ends, but the command keeps its
// place until it has ended: rueidis keeps it in its ring for as long.
func (c *Client) glance(ctx context.Context, n *name, command string) rueidis.RedisResult {
	place, err := c.nodes.to(n.slot).asks.enter(ctx, nil)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	landed := make(chan rueidis.RedisResult, 1)
	started := c.background.start(func() {
		defer place.leave()
		// An arbitrary command, since rueidis repeats those that it knows to be
		// harmless until their context ends, each time with a place in the ring.
		landed <- c.redis.Do(c.deadline.context(time.Now()), c.redis.B().Arbitrary(command).Keys(n.key).Build())
	})
	if !started {
		place.leave()
		return rueidis.NewErrorResult(ErrClosed)
	}
	select {
	case result := <-landed:
		return result
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

func (l *lock) number(ctx context.Context, command string) (int64, error) {
	return look(ctx, l.client, l.name, command, rueidis.RedisResult.AsInt64)
}

// fields returns those of the lock's hash, none if nobody has it.
func (c *Client) fields(ctx context.Context, n *name) ([]string, error) {
	return look(ctx, c, n, "HKEYS", rueidis.RedisResult.AsStrSlice)
}

// IsHeld reports whether the caller holds the lock, judged without asking Redis,
// by the clock: true means that no other client can have been granted it yet. It
// is as good for what follows as the time left is long; see [Hold.ValidUntil].
//
// Redisson's isHeldByCurrentThread().
func (l *lock) IsHeld(ctx context.Context) bool { return l.HoldCount(ctx) > 0 }

// HoldCount returns how often the caller has to unlock the lock, 0 if it does
// not hold it, judged as by IsHeld.
//
// Redisson's getHoldCount().
func (l *lock) HoldCount(ctx context.Context) int {
	r := l.client.visitIfAny(l.name)
	if r == nil {
		return 0
	}
	defer r.exit()
	t := r.current(time.Now())
	if t == nil {
		return 0
	}
	return t.depth(ownerOf(ctx), l.shared)
}

// Do calls fn with the lock held, and unlocks it when fn returns, panics or ends
// its goroutine. The context given to fn is made from ctx, and ends also when
// the lock is lost, with cause [ErrLost]; fn must then stop, since another may
// hold the lock. Do nests: within fn the same owner may lock the lock again.
//
// Do returns what fn returns, joined with the error of the unlock if there is
// one: a nil error means that fn ran with the lock held from beginning to end.
// If the lock cannot be had, fn is not called.
func (l *lock) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	h, err := l.client.hold(ctx, ctx, l.name, request{owner: ownerOf(ctx), shared: l.shared, wait: forever})
	if err != nil {
		return err
	}
	return h.run(fn)
}
