package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/composite"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// A Lock is a reentrant lock, known by its name, that clients on many machines contend for. It has
// no state of any call: it may be shared and thrown away, and its methods may be called
// concurrently. Two Locks of one kind, name and client are the same lock. The methods of a nil Lock
// panic, the methods of a zero Lock return [ErrInvalidConfig].
//
// An owner (see the package comment) must unlock as often as it has locked. The lock is kept for
// the longest lease that any open level asks for; the watchdog counts as endless. docs/redisson.md
// has the methods of Redisson's RLock beside these.
type Lock struct {
	made   form
	client *Client // the client; nil for a multi or red lock
}

// A form is the implementation of a Lock: a lock of one key ([driver.NamedLock]), or a multi or red
// lock.
type form interface {
	Title() string
	Take(ctx context.Context, req driver.Request) error
	Hold(ctx, parent context.Context, req driver.Request) (driver.Handle, error)
	Unlock(ctx context.Context, o contract.Owner) error
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	Depth(o contract.Owner) int
	Token(o contract.Owner) (uint64, error)
}

// NoExpiry is the [Lock.TTL] of a key without an expiry, which no client of rlock makes.
const NoExpiry time.Duration = -1

// A Kind is the sort of a lock.
type Kind = contract.Kind

// The kinds of locks.
const (
	KindPlain     Kind = "plain"
	KindFenced    Kind = "fenced"
	KindFair      Kind = "fair"
	KindRead      Kind = "read"  // of a ReadWriteLock
	KindWrite     Kind = "write" // of a ReadWriteLock
	KindSemaphore Kind = "semaphore"
	KindMulti     Kind = "multi" // made of other locks, see NewMultiLock
	KindRed       Kind = "red"   // made of locks on several servers, see NewRedLock
)

// NewLock returns the lock of that name, which one owner at a time holds. Like every constructor of
// a lock it sends no command, and nothing needs to be closed. If the name is invalid, the lock's
// methods return [ErrInvalidName].
//
// The name, behind Config.Prefix, is the lock's key in Redis, and the key of Redisson's lock of the
// same name. Give locks names that no data has: "lock:orders:42" for the order in "orders:42", or
// "lock:{orders:42}" where a Cluster must keep both in one slot, as for [Hold.Write]. A key with
// other data is refused ([ErrWrongType]) and left as it is.
func (c *Client) NewLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, driver.PlainKind, c.inRedis(name)))
}

// lockOf returns the Lock of a lock of one key, in one allocation.
func lockOf(c *Client, one driver.NamedLock) *Lock {
	l := &struct {
		lock Lock
		one  driver.NamedLock
	}{lock: Lock{client: c}, one: one}
	l.lock.made = &l.one
	return &l.lock
}

// zeroForm is the form of a lock that no constructor has made.
var zeroForm = over{composite.Refusing("",
	fmt.Errorf("rlock: %w: a lock is a zero value: use the methods of a Client, NewMultiLock or NewRedLock", ErrInvalidConfig))}

// form returns the implementation of the lock.
func (l *Lock) form() form {
	if l.made == nil {
		return zeroForm
	}
	return l.made
}

// Name returns the name that the lock was made with. The name of a multi-lock is its parts' names
// with commas between them, each name once.
func (l *Lock) Name() string {
	title := l.form().Title()
	if l.client == nil {
		return title
	}
	return l.client.named(title)
}

// Lock waits until the caller holds the lock, or ctx ends. The watchdog renews the lock until
// Unlock. Within a process waiters are served first come, first served; processes take turns.
//
// If Lock returns an error, the caller holds nothing more than before. If ctx ended, the error
// wraps ctx's and the last one of Redis: transient errors are retried. Returned at once are
// [ErrWrongType], [ErrNoPermission], [ErrUnsupported], [ErrInvalidName], [ErrInvalidConfig],
// [ErrClosed], [ErrUpgrade] for the write lock of an owner that reads, and [ErrLost] while a lost
// hold of the caller is not unlocked; that error says for how long.
func (l *Lock) Lock(ctx context.Context) error { return l.take(ctx, 0, contract.Forever) }

// LockFor is Lock without the watchdog: the caller holds the lock for the lease, or until Unlock if
// that is sooner. After the end of the lease Unlock returns [ErrLost], but need not be called, and
// the caller may lock again. A lease that is too short to keep is [ErrInvalidLease]; 0 makes it
// Lock. A client remembers 10 000 owners whose fixed leases have ended; for one that it has
// forgotten, the error is [ErrNotHeld] as well.
func (l *Lock) LockFor(ctx context.Context, lease time.Duration) error {
	return l.take(ctx, lease, contract.Forever)
}

// TryLock makes one attempt, and reports whether the caller has the lock: it held the lock already,
// or the lock was free and no other call waits for it. It sends no command while another goroutine
// of this process holds the lock or waits for it; if that goroutine's command is in flight, TryLock
// waits for the answer and returns its error. The watchdog renews the lock.
func (l *Lock) TryLock(ctx context.Context) (bool, error) { return outcome(l.take(ctx, 0, 0)) }

// TryLockFor waits for the lock at most as long as wait, and reports whether the caller holds it:
// false without an error means that other owners held it or came first. A wait of 0 or less is one
// attempt. An attempt in flight is waited for, some seconds at most, or until ctx ends; if Redis
// could not be reached all the time, the error says so. The lease is as for LockFor.
func (l *Lock) TryLockFor(ctx context.Context, wait, lease time.Duration) (bool, error) {
	return outcome(l.take(ctx, lease, max(wait, 0)))
}

// take acquires the lock in the name of the caller.
func (l *Lock) take(ctx context.Context, lease, wait time.Duration) error {
	f := l.form()
	req := driver.Request{AcquireOptions: acquireOptions{Lease: lease, Wait: wait}}
	for s := scopeOf(ctx).about(l); ; s = s.outer.about(l) {
		began := s.setOwner(&req, theGoroutine)
		if err := f.Take(ctx, req); !noteOutlived(err, &req, began) {
			return err
		}
	}
}

func outcome(err error) (bool, error) {
	if errors.Is(err, ErrNotAcquired) {
		return false, nil
	}
	return err == nil, err
}

// Unlock undoes one Lock of the caller. It returns at once if the caller holds other levels, or if
// the lock is handed off to another goroutine of the process. Otherwise Redis releases the lock and
// grants it to the first client in its queue.
//
// The error is [ErrNotHeld] if the caller does not hold the lock, [ErrLost] if it has lost it, and
// [ErrUnconfirmed] if Redis did not confirm the release within four seconds, or within
// Config.Redis.ConnWriteTimeout and two more if that is longer. After an error, too, the caller
// holds one level less, and after the last level no command renews the lock. Unlock uses ctx only
// for the owner in it, and completes even if ctx has ended.
func (l *Lock) Unlock(ctx context.Context) error {
	f, s := l.form(), scopeOf(ctx)
	err := f.Unlock(ctx, s.about(l).caller(theGoroutine))
	if s == nil || !errors.Is(err, ErrNotHeld) {
		return err
	}
	for o := range s.others(l) {
		if of := f.Unlock(ctx, o); !errors.Is(of, ErrNotHeld) {
			return of
		}
	}
	return err
}

// ForceUnlock frees the lock, regardless of its holder and depth, and reports whether it did: for
// an operator who frees the lock of a dead process; see also package inspect. Each part of a
// multi-lock is freed, and of a red lock the parts of its holder. docs/guarantees.md says how soon
// a holder learns of it. After an error the lock may have been freed, or may be freed later, but
// not from a later holder.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) { return l.form().ForceUnlock(ctx) }

// IsLocked asks Redis whether the lock has a holder. A writer that also reads holds the read lock
// as well. A lock over several is locked if no other owner can acquire enough parts. The answer may
// be out of date: a holder of this client counts until Redis denies it. Other data at the key count
// as a holder, or are [ErrWrongType].
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.form().IsLocked(ctx) }

// TTL asks Redis for the time until the lock, or enough of its parts, is free unless it is renewed:
// 0 if it is free, or [NoExpiry].
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) { return l.form().TTL(ctx) }

// IsHeld reports whether the caller holds the lock, judged by the clock without asking Redis. If
// so, no other client can have been granted the lock yet, nor will be before [Hold.ValidUntil].
func (l *Lock) IsHeld(ctx context.Context) bool { return l.HoldCount(ctx) > 0 }

// HoldCount returns how often the caller has to unlock the lock, judged as by IsHeld. For a lock
// over several it is the least count of its parts, with levels that were locked through the part
// alone.
func (l *Lock) HoldCount(ctx context.Context) int {
	f := l.form()
	return f.Depth(scopeOf(ctx).about(l).caller(theGoroutine))
}

// Token returns the fencing token of the caller's hold without asking Redis. The error is
// [ErrNotHeld] if the caller holds nothing, [ErrLost] if it has lost the lock and not unlocked it
// yet, and [ErrNoToken] if the lock is not from [Client.NewFencedLock]. A handle has [Hold.Token].
func (l *Lock) Token(ctx context.Context) (uint64, error) {
	f := l.form()
	return f.Token(scopeOf(ctx).about(l).caller(theGoroutine))
}

// Acquire waits until it has the lock, as Lock does, and returns a handle to it. The hold nests in
// the holds of the owner in ctx ([WithOwner]), or in a [Hold] of this lock from which ctx comes and
// which is still held. Otherwise the handle has an owner of its own: while it is held, a Lock, Do
// or Acquire of the same lock waits, in the same goroutine as well, unless its context is made from
// [Hold.Context]; such a wait is logged after one or two seconds.
//
// After an error the Hold is nil and nothing is held. It returns the errors of Lock and of the
// options. If Redis fails for the whole wait, its error is returned.
func (l *Lock) Acquire(ctx context.Context, options ...AcquireOption) (*Hold, error) {
	// The time to wait for a lock is not the time to hold it.
	h, err := acquire(ctx, context.WithoutCancel(ctx), l, anOwnerOfItsOwn, options)
	if err != nil {
		return nil, err
	}
	return h.handle(), nil
}

// Do calls fn with the lock held, and unlocks it when fn returns, panics or calls runtime.Goexit.
// It waits as Acquire does; if the lock is not acquired, fn is not called, and Do returns the error
// of Acquire. fn's context is made from ctx, and ends also when the lock is lost, with cause
// [ErrLost]; fn must then stop, since another owner may hold the lock.
//
// Within fn the caller's goroutine, and every goroutine with fn's context, may lock the lock again;
// an Unlock without such a Lock is [ErrNotHeld]. Once the lock is unlocked or lost, that context
// gives no more rights than ctx, also after [context.WithoutCancel].
//
// Do returns fn's error, joined with the error of the unlock. If it is nil, or an [ErrUnconfirmed]
// that is not ErrLost, fn ran with the lock held from beginning to end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error, options ...AcquireOption) error {
	h, err := acquire(ctx, ctx, l, theGoroutine, options)
	if err != nil {
		return err
	}
	return h.run(fn)
}
