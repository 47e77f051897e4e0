package servers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// A replica answers what only reads, from data that may be old: no call takes that for the truth
// about a lock. "free" is a name that no one holds, Key one that is held.
func TestNoCallBelievesAReplica(t *testing.T) {
	primary, replica := own(t), own(t)
	held := primary.NewLock()
	require.NoError(t, held.Lock(primary.Ctx))
	t.Cleanup(func() { assert.NoError(t, held.Unlock(primary.Ctx)) })
	follow(t, replica, primary.Addr())

	calls := func(client *rlock.Client) map[string]func(context.Context) error {
		free, lock, shared := client.NewLock("free"), client.NewLock(testbed.Key), redisson.New(client)
		semaphore, latch, permits := shared.Semaphore("free"), shared.CountDownLatch("free"), shared.PermitSemaphore("free")
		group, candidate := once.New(client, once.Options{}), elect.New(client, "free")
		return map[string]func(context.Context) error{
			"Lock":                        free.Lock,
			"Lock of a held lock":         lock.Lock,
			"Acquire":                     fails(func(ctx context.Context) (*rlock.Hold, error) { return free.Acquire(ctx) }),
			"TryLock":                     fails(free.TryLock),
			"TryLockFor":                  fails(func(ctx context.Context) (bool, error) { return free.TryLockFor(ctx, time.Minute, time.Minute) }),
			"IsLocked":                    fails(free.IsLocked),
			"IsLocked of a held lock":     fails(lock.IsLocked),
			"TTL":                         fails(free.TTL),
			"TTL of a held lock":          fails(lock.TTL),
			"ForceUnlock":                 fails(free.ForceUnlock),
			"ForceUnlock of a held lock":  fails(lock.ForceUnlock),
			"fair":                        client.NewFairLock("free").Lock,
			"fenced":                      client.NewFencedLock("free").Lock,
			"read":                        client.NewReadWriteLock("free").Read().Lock,
			"IsLocked of a reader":        fails(client.NewReadWriteLock("free").Read().IsLocked),
			"ForceUnlock of a writer":     fails(client.NewReadWriteLock("free").Write().ForceUnlock),
			"semaphore":                   client.NewSemaphore("free", 2).Lock,
			"IsLocked of a semaphore":     fails(client.NewSemaphore("free", 2).IsLocked),
			"ForceUnlock of a semaphore":  fails(client.NewSemaphore("free", 2).ForceUnlock),
			"TTL of a semaphore":          fails(client.NewSemaphore("free", 2).TTL),
			"multi":                       rlock.NewMultiLock(free, client.NewLock("free2")).Lock,
			"ForceUnlock of a multi-lock": fails(rlock.NewMultiLock(free, client.NewLock("free2")).ForceUnlock),
			"IsLocked of a multi-lock":    fails(rlock.NewMultiLock(free, client.NewLock("free2")).IsLocked),
			"inspect.Lock":                fails(func(ctx context.Context) (inspect.Lock, error) { return inspect.Of(client).Lock(ctx, "free") }),
			"inspect.Locks":               func(ctx context.Context) error { return last(inspect.Of(client).Locks(ctx, "nothing*")) },
			"once.Do": fails(func(ctx context.Context) (bool, error) {
				_, shared, err := group.Do(ctx, "k", func(context.Context) ([]byte, error) { return nil, nil })
				return shared, err
			}),
			"once.Forget":                      func(ctx context.Context) error { return group.Forget(ctx, "k") },
			"elect.Leader":                     fails(candidate.Leader),
			"Semaphore.Acquire":                func(ctx context.Context) error { return semaphore.Acquire(ctx, 1) },
			"Semaphore.AvailablePermits":       fails(semaphore.AvailablePermits),
			"CountDownLatch.Count":             fails(latch.Count),
			"CountDownLatch.Await":             latch.Await,
			"PermitSemaphore.AvailablePermits": fails(permits.AvailablePermits),
			"PermitSemaphore.Permits":          fails(permits.Permits),
			"PermitSemaphore.AcquiredPermits":  fails(permits.AcquiredPermits),
			"PermitSemaphore.Lease":            fails(func(ctx context.Context) (time.Duration, error) { return permits.Lease(ctx, "0a") }),
			"redisson.Names":                   fails(func(ctx context.Context) ([]string, error) { return shared.Names(ctx, "") }),
			"redisson.Inspect":                 fails(func(ctx context.Context) (redisson.State, error) { return shared.Inspect(ctx, "free") }),
		}
	}
	var names []string
	for name := range calls(primary.NewClient()) {
		names = append(names, name)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := rlock.New(rlock.Config{Redis: replica.Options()})
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			ctx, cancel := context.WithTimeout(replica.Ctx, 500*time.Millisecond)
			defer cancel()
			err = calls(client)[name](ctx)
			require.Error(t, err)
			assert.True(t, strings.Contains(err.Error(), "READONLY") || strings.Contains(err.Error(), context.DeadlineExceeded.Error()), err)
		})
	}
}

// fails leaves out the result of a call.
func fails[T any](call func(context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx)
		return err
	}
}

// last returns the last error of a list.
func last(list func(func(string, error) bool)) (failed error) {
	for _, err := range list {
		failed = err
	}
	return failed
}
