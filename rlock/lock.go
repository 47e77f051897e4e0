package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/quorum"
)

// A Lock is a reentrant lock that clients on many machines contend for, known by
// its name. All kinds of lock are of this type; what a kind promises beyond this page is
// said at its constructor: [Client.NewLock], [Client.NewFairLock],
// [Client.NewFencedLock], [Client.NewReadWriteLock], [Client.NewSemaphore], [NewMultiLock],
// [NewRedLock].
//
// A Lock holds no state of any call: it may be shared and thrown away, two of one kind,
// name and client are the same lock, and all its methods may be called concurrently. Those
// of a nil or zero Lock panic or return [ErrInvalidConfig].
//
// The methods that take a lock without returning a handle (Lock, TryLock and
// their kin) take it in the name of an [Owner]: the goroutine that calls, or the
// owner in the context. The owner may lock again without waiting, as often as it
// likes, and must unlock as often.
//
// Levels may ask for different leases. The lock is kept for the longest that any
// level still open asks for; the watchdog counts as without end. So a nested
// LockFor neither shortens what is held nor stops the watchdog of an outer level.
type Lock struct{ made engine.Form }

// NewLock returns the lock of that name, which one owner at a time holds. It asks Redis
// nothing, and costs nothing to keep or to throw away. A name that no lock can have makes
// every method return [ErrInvalidName]. Names of a Lock and of Redisson's lock are the same.
//
// Redisson's getLock(name).
func (c *Client) NewLock(key string) *Lock {
	return lockOf(engine.NewLock(c.engine, engine.PlainKind, key))
}

// lockOf returns the lock that is made of one, at one allocation.
func lockOf(one engine.Lock) *Lock {
	l := &struct {
		lock Lock
		one  engine.Lock
	}{one: one}
	l.lock.made = &l.one
	return &l.lock
}

// errZero is the fault of a lock that no constructor has made, and zeroForm its form.
var (
	errZero  = fmt.Errorf("rlock: %w: a lock is a zero value: use the methods of a Client, NewMultiLock or NewRedLock", ErrInvalidConfig)
	zeroForm = quorum.Refusing("", errZero)
)

// form returns what the lock is made of.
func (l *Lock) form() engine.Form {
	if l.made == nil {
		return zeroForm
	}
	return l.made
}

// Name returns the name that the lock was made with; of a multi-lock those of its parts
// with commas between them, each name once.
func (l *Lock) Name() string { return l.form().Title() }

// Lock waits until the caller holds the lock, or ctx ends. The watchdog keeps
// the lock until Unlock. Within a process waiters are served first come, first
// served; processes that keep waiting take turns (see the package comment).
//
// An error means that the caller holds nothing more than before. If ctx ended,
// the error is ctx's, and carries what Redis said last if that was an error:
// transient errors are retried. Errors that waiting cannot cure are
// returned at once: [ErrWrongType], [ErrNoPermission], [ErrUnsupported],
// [ErrInvalidName], [ErrInvalidConfig], [ErrClosed], and [ErrUpgrade] for the write lock of
// an owner that reads. If the caller's hold was lost before its time and is not unlocked
// yet, Lock fails with [ErrLost], which says for how long.
//
// Redisson's lock() and lockInterruptibly().
func (l *Lock) Lock(ctx context.Context) error { return l.take(ctx, 0, engine.Forever) }

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
func (l *Lock) LockFor(ctx context.Context, lease time.Duration) error {
	return l.take(ctx, lease, engine.Forever)
}

// TryLock takes the lock if it is the caller's, or is free and nobody waits for it, and
// reports whether it did. It makes one attempt, and none at all, without a command to
// Redis, when somebody in this process holds the lock or waits for it. If Redis has yet
// to answer this process about the lock, since a Lock was cancelled or an Unlock is under
// way, the attempt comes after the answer. The watchdog keeps the lock. Any fault is
// returned at once.
//
// Redisson's tryLock().
func (l *Lock) TryLock(ctx context.Context) (bool, error) { return outcome(l.take(ctx, 0, 0)) }

// TryLockFor waits for the lock at most for the time given by wait, and reports
// whether the caller holds it: false without an error means that another owner
// held it for all of that time. A fault that lasts as long is an error. A wait of
// 0 or less is one attempt. The wait is for the time between attempts: one that
// is under way when it ends is waited for, if ctx lasts. The lease is as for
// LockFor; 0 means the watchdog.
//
// Redisson's tryLock(wait, unit) and tryLock(wait, lease, unit).
func (l *Lock) TryLockFor(ctx context.Context, wait, lease time.Duration) (bool, error) {
	return outcome(l.take(ctx, lease, max(wait, 0)))
}

// take acquires the lock in the name of the caller.
func (l *Lock) take(ctx context.Context, lease, wait time.Duration) error {
	f := l.form()
	return f.Take(ctx, engine.Request{Owner: ownerOf(ctx, f), Lease: lease, Wait: wait})
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
func (l *Lock) Unlock(ctx context.Context) error {
	f := l.form()
	return f.Unlock(ctx, ownerOf(ctx, f))
}

// ForceUnlock frees the lock, regardless of its holder and depth, and reports
// whether it did: false means that nobody held it, or that the holder unlocked it
// at the same moment. A holder in this client learns it at once, others when they
// renew next. Use it by hand, for what a dead process left behind: a holder that
// lives goes on until it learns. After an error it may have been freed, or may be
// yet; a later holder keeps it. Of a lock over several it frees all parts.
//
// Redisson's forceUnlock().
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) { return l.form().ForceUnlock(ctx) }

// IsLocked asks Redis whether anybody holds the lock: of a read lock whether anybody
// reads, a writer that has taken the read lock as well included; of a write lock whether
// anybody writes; of a lock over several whether so many are locked, by anybody, that
// nobody else can get enough of them. The answer may be out of date when it arrives.
//
// Redisson's isLocked().
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.form().IsLocked(ctx) }

// TTL asks Redis how long the lock, or enough of its parts, will be held if nobody renews
// it: 0 if it is free, -1 ns if somebody has made its key one that does not expire.
//
// Redisson's remainTimeToLive().
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) { return l.form().TTL(ctx) }

// IsHeld reports whether the caller holds the lock, judged without asking Redis,
// by the clock: true means that no other client can have been granted it yet. That holds
// for as long as the lease that is left; see [Hold.ValidUntil].
//
// Redisson's isHeldByCurrentThread().
func (l *Lock) IsHeld(ctx context.Context) bool { return l.HoldCount(ctx) > 0 }

// HoldCount returns how often the caller has to unlock the lock, 0 if it does
// not hold it, judged as by IsHeld. Of a lock over several, what the caller has taken of
// the parts by themselves counts as well, and the least that is certain is returned.
//
// Redisson's getHoldCount().
func (l *Lock) HoldCount(ctx context.Context) int {
	f := l.form()
	return f.Depth(ownerOf(ctx, f))
}

// Token returns the fencing token of what the caller holds, judged without asking
// Redis. It is [ErrNotHeld] if the caller holds nothing, and [ErrLost] if it has
// lost the lock and not unlocked it yet. With a handle, use [Hold.Token]. Only a lock from
// [Client.NewFencedLock] has tokens: for any other Token returns [ErrNoToken].
//
// Redisson's lockAndGetToken() returns the same. Its getToken() does not: it
// returns the counter, which is somebody else's token if the caller holds nothing.
func (l *Lock) Token(ctx context.Context) (uint64, error) {
	f := l.form()
	return f.Token(ownerOf(ctx, f))
}

// Acquire waits until it has the lock, as Lock does, and returns a handle
// to it. No goroutine's identity is involved: if ctx carries an owner
// ([WithOwner]), or comes from a [Hold] of this lock, the new hold nests in what that owner
// holds; else it belongs to the handle alone, and an Acquire while it is held waits, also in
// the same goroutine. Such a wait is logged after a second.
//
// On an error the Hold is nil and nothing is held. The errors are those of Lock,
// and [ErrNotAcquired] when the time of [WithWait] was up.
func (l *Lock) Acquire(ctx context.Context, options ...AcquireOption) (*Hold, error) {
	f := l.form()
	o, ok := ownerIn(ctx, f)
	if !ok {
		o = engine.NewHandleOwner()
	}
	// The time to wait for a lock is not the time to hold it.
	return acquire(ctx, context.WithoutCancel(ctx), f, newRequest(o, options))
}

// TryAcquire is Acquire with one attempt, unless [WithWait] gives it more time:
// [ErrNotAcquired] says that another owner holds the lock, and one attempt returns
// any fault at once.
func (l *Lock) TryAcquire(ctx context.Context, options ...AcquireOption) (*Hold, error) {
	return l.Acquire(ctx, append([]AcquireOption{WithWait(0)}, options...)...) // a wait of the caller's comes last, and counts
}

// Do calls fn with the lock held, and unlocks it when fn returns, panics or ends
// its goroutine. The context given to fn is made from ctx, and ends also when
// the lock is lost, with cause [ErrLost]; fn must then stop, since another may
// hold the lock. Do waits as Lock does, or for as long as [WithWait] says: WithWait(0) is
// one attempt. [WithLease] takes the lock for a fixed time.
//
// Do nests: within fn the caller's goroutine may lock the lock again, and so may every
// goroutine that has the context given to fn.
//
// Do returns what fn returns, joined with the error of the unlock if there is
// one: a nil error means that fn ran with the lock held from beginning to end.
// If the lock cannot be had, fn is not called, and the error is that of Acquire.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error, options ...AcquireOption) error {
	f := l.form()
	h, err := acquire(ctx, ctx, f, newRequest(ownerOf(ctx, f), options))
	if err != nil {
		return err
	}
	return h.run(fn)
}
