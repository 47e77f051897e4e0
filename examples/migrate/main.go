// Migrate goes through Redisson's RLock call by call: the Java in a comment, the
// Go that replaces it below, and what it did as output:
//
//	go run ./examples/migrate
//
// Both may hold the same locks, in the same Redis, at the same time: services can
// be moved one by one.
//
// There are three differences: a call takes a context, which stands for the thread's
// interruption; a failure is an error, not an exception; and the loss of a lock is
// reported (ErrLost) where Java would go on.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const name = "example:lock:orders:42"

func main() { embedded.Main("migrate", run) }

// A table prints what each call did, and keeps what it should not have done.
type table struct{ wrong error }

const columns = "%-40s %-47s %v\n"

// row compares what a call gave with what it must give: a value, or an error.
func (t *table) row(java, golang string, got, want any) {
	same := got == want
	if err, ok := got.(error); ok {
		target, _ := want.(error)
		if same = target != nil && errors.Is(err, target); same {
			got = target // without the lock's name and the owner
		}
	}
	if !same {
		t.wrong = errors.Join(t.wrong, fmt.Errorf("%s gave %v, not %v", golang, got, want))
	}
	if got == nil {
		got = "no error"
	}
	fmt.Printf(columns, java, golang, got)
}

// either returns the error if there is one, else the value.
func either[T any](value T, err error) any {
	if err != nil {
		return err
	}
	return value
}

func run(ctx context.Context, options rueidis.ClientOption) error {
	// Config config = new Config();
	// config.useSingleServer().setAddress("redis://127.0.0.1:6379");
	// config.setLockWatchdogTimeout(30000);
	// RedissonClient redisson = Redisson.create(config);
	client, err := rlock.New(rlock.Config{Redis: options, Lease: 30 * time.Second})
	if err != nil {
		return err
	}
	// redisson.shutdown();
	defer client.Close()
	// another service, to contend with
	other, err := rlock.New(rlock.Config{Redis: options})
	if err != nil {
		return err
	}
	defer other.Close()

	var t table
	fmt.Printf(columns, "Java", "Go", "gave")

	// RLock lock = redisson.getLock("lock:orders:42");
	lock, theirs := client.NewLock(name), other.NewLock(name)
	t.row("lock.getName()", "lock.Name()", lock.Name(), name)

	// lock.lockInterruptibly();  lock.lock(), if nothing may interrupt it
	t.row("lock.lockInterruptibly()", "lock.Lock(ctx)", lock.Lock(ctx), nil)
	t.row("lock.unlock()", "lock.Unlock(ctx)", lock.Unlock(ctx), nil)
	t.row("lock.lock()", "lock.Lock(context.Background())", lock.Lock(context.Background()), nil)
	t.row("lock.isLocked()", "lock.IsLocked(ctx)", either(lock.IsLocked(ctx)), true)
	t.row("theirs.isLocked()", "theirs.IsLocked(ctx)", either(theirs.IsLocked(ctx)), true)
	t.row("lock.isHeldByCurrentThread()", "lock.IsHeld(ctx)", lock.IsHeld(ctx), true)
	t.row("theirs.isHeldByCurrentThread()", "theirs.IsHeld(ctx)", theirs.IsHeld(ctx), false)
	t.row("lock.remainTimeToLive() > 0", "ttl, err := lock.TTL(ctx); ttl > 0", either(positive(lock.TTL(ctx))), true)

	// lock.lock();  once more, by the same thread
	t.row("lock.lock()", "lock.Lock(ctx)", lock.Lock(ctx), nil)
	t.row("lock.getHoldCount()", "lock.HoldCount(ctx)", lock.HoldCount(ctx), 2)

	// boolean got = theirs.tryLock();
	// boolean got = theirs.tryLock(100, TimeUnit.MILLISECONDS);
	// boolean got = theirs.tryLock(100, 5000, TimeUnit.MILLISECONDS);
	const wait, lease = 100 * time.Millisecond, 5 * time.Second
	t.row("theirs.tryLock()", "theirs.TryLock(ctx)", either(theirs.TryLock(ctx)), false)
	t.row("theirs.tryLock(100, MILLISECONDS)", "theirs.TryLockFor(ctx, wait, 0)", either(theirs.TryLockFor(ctx, wait, 0)), false)
	t.row("theirs.tryLock(100, 5000, MILLISECONDS)", "theirs.TryLockFor(ctx, wait, lease)", either(theirs.TryLockFor(ctx, wait, lease)), false)

	// thread.interrupt();  while it waits
	interrupted, interrupt := context.WithCancel(ctx)
	time.AfterFunc(wait, interrupt)
	t.row("theirs.lockInterruptibly()  // throws", "theirs.Lock(ctx)", theirs.Lock(interrupted), context.Canceled)

	// lock.unlock();  as often as it was locked; then IllegalMonitorStateException
	t.row("lock.unlock()", "lock.Unlock(ctx)", lock.Unlock(ctx), nil)
	t.row("lock.unlock()", "lock.Unlock(ctx)", lock.Unlock(ctx), nil)
	t.row("lock.unlock()  // throws", "lock.Unlock(ctx)", lock.Unlock(ctx), rlock.ErrNotHeld)
	// Their cancelled call may be leaving the queue still, so this one waits for that.
	t.row("theirs.tryLock(1, MINUTES)", "theirs.TryLockFor(ctx, time.Minute, 0)", either(theirs.TryLockFor(ctx, time.Minute, 0)), true)

	// boolean was = lock.forceUnlock();  of any holder
	t.row("lock.forceUnlock()", "lock.ForceUnlock(ctx)", either(lock.ForceUnlock(ctx)), true)
	t.row("theirs.unlock()  // throws", "theirs.Unlock(ctx)", theirs.Unlock(ctx), rlock.ErrLost)
	t.row("lock.isLocked()", "lock.IsLocked(ctx)", either(lock.IsLocked(ctx)), false)

	// lock.lock(); in a method called by a holder that has lost the lock: in Java it begins
	// anew, inside of a lock that is gone. Here the log warns as well.
	t.row("lock.lock()", "lock.Lock(ctx)", lock.Lock(ctx), nil)
	t.row("lock.forceUnlock()", "lock.ForceUnlock(ctx)", either(lock.ForceUnlock(ctx)), true)
	t.row("lock.lock()  // succeeds", "lock.Lock(ctx)", lock.Lock(ctx), rlock.ErrLost)
	t.row("lock.unlock()", "lock.Unlock(ctx)", lock.Unlock(ctx), rlock.ErrLost)

	// lock.lock(200, TimeUnit.MILLISECONDS);  no watchdog, and the work takes longer
	t.row("lock.lock(200, MILLISECONDS)", "lock.LockFor(ctx, 200*time.Millisecond)", lock.LockFor(ctx, 200*time.Millisecond), nil)
	t.row("theirs.lock()", "theirs.Lock(ctx)", theirs.Lock(ctx), nil)
	t.row("lock.unlock()  // throws", "lock.Unlock(ctx)", lock.Unlock(ctx), rlock.ErrLost)
	t.row("theirs.unlock()", "theirs.Unlock(ctx)", theirs.Unlock(ctx), nil)

	// lock.lock();
	// try { work(); } finally { lock.unlock(); }
	work := func(context.Context) error { return nil } // its context ends if the lock is lost
	t.row("try { work(); } finally { unlock(); }", "lock.Do(ctx, work)", lock.Do(ctx, work), nil)

	// lock.lockAsync(threadId);  lock.unlockAsync(threadId);
	//
	// An owner that is not the thread: every call with the context is by it,
	// from whatever goroutine.
	owned := rlock.WithOwner(ctx, rlock.NewOwner())
	t.row("lock.lockAsync(threadId)", "lock.Lock(rlock.WithOwner(ctx, owner))", lock.Lock(owned), nil)
	t.row("lock.isHeldByCurrentThread()", "lock.IsHeld(ctx)", lock.IsHeld(ctx), false)
	t.row("lock.isHeldByThread(threadId)", "lock.IsHeld(rlock.WithOwner(ctx, owner))", lock.IsHeld(owned), true)
	t.row("lock.unlockAsync(threadId)", "lock.Unlock(rlock.WithOwner(ctx, owner))", lock.Unlock(owned), nil)

	// What Java has no word for: a handle, which any goroutine may release, and
	// which says when the lock is lost.
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	t.row("", "hold, err := lock.Acquire(ctx); hold.Valid()", hold.Valid(), true)
	released := make(chan error)
	go func() { released <- hold.Release(ctx) }()
	t.row("", "go hold.Release(ctx)", <-released, nil)
	<-hold.Context().Done()
	t.row("", "<-hold.Context().Done(); context.Cause(hold.Context())", context.Cause(hold.Context()), rlock.ErrNotHeld)

	// redisson.shutdown(); in Java, held locks are left to expire
	t.row("theirs.lock()", "theirs.Lock(ctx)", theirs.Lock(ctx), nil)
	t.row("redisson.shutdown()", "other.Close()", other.Close(), nil)
	t.row("lock.isLocked()  // still true", "lock.IsLocked(ctx)", either(lock.IsLocked(ctx)), false)
	return t.wrong
}

func positive(ttl time.Duration, err error) (bool, error) { return ttl > 0, err }
