package insight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	deadlockSaid = "rlock: deadlock: calls of this process wait for each other's locks"
	ownSaid      = "rlock: a call waits for a lock that its own goroutine holds"
)

// tangle has one owner for each step: it takes the first lock, and once every owner has its
// first lock it waits for the second until ctx ends. It returns when all wait, with the
// channel of the results.
func tangle(t *testing.T, ctx context.Context, steps ...[2]*rlock.Lock) <-chan error {
	t.Helper()
	var owners []context.Context
	for _, step := range steps {
		mine := rlock.WithOwner(ctx, rlock.NewOwner())
		require.NoError(t, step[0].Lock(mine))
		owners = append(owners, mine)
	}
	results := make(chan error, len(steps))
	for i, step := range steps {
		go func() {
			err := step[1].Lock(owners[i])
			if err == nil {
				_ = step[1].Unlock(owners[i])
			}
			_ = step[0].Unlock(owners[i])
			results <- err
		}()
	}
	synctest.Wait()
	return results
}

func TestADeadlockInsideAProcessIsLoggedOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		ctx, cancel := context.WithCancel(w.Ctx)
		defer cancel()
		rw := p.NewReadWriteLock("pair")
		results := tangle(t, ctx,
			[2]*rlock.Lock{p.NewLock("plain"), p.NewFairLock("fair")},
			[2]*rlock.Lock{p.NewFairLock("fair"), rw.Write()},
			[2]*rlock.Lock{rw.Read(), p.NewFencedLock("fenced")},
			[2]*rlock.Lock{p.NewFencedLock("fenced"), p.NewLock("plain")},
		)
		bystander := testbed.Start(func() error { return p.NewLock("plain").Lock(rlock.WithOwner(ctx, rlock.NewOwner())) })
		time.Sleep(900 * time.Millisecond)
		assert.Zero(t, p.Logged(deadlockSaid))
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, 1, p.Logged(deadlockSaid))
		for _, said := range []string{".lock=plain", ".lock=fair", ".lock=pair", ".lock=fenced", "4.holder_site=", "deadlock_test.go"} {
			assert.Equal(t, 1, p.Logged(said), "%q is in the one line", said)
		}
		assert.Zero(t, p.Logged("5.lock"), "no other owner is part of the deadlock")
		ok, err := p.NewLock("plain").TryLockFor(w.Caller(), time.Minute, 0) // a later search finds the same deadlock
		require.NoError(t, err)
		require.False(t, ok)
		assert.Equal(t, 1, p.Logged(deadlockSaid))
		cancel()
		for range 4 {
			<-results // an owner that gets its lock because another gave up has no error
		}
		<-bystander
	})
}

// The parts of a compound lock are taken one after the other, and each excludes other owners.
func TestADeadlockWithAPartOfALockOverSeveralIsLogged(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		ctx, cancel := context.WithCancel(w.Ctx)
		defer cancel()
		mine := rlock.WithOwner(ctx, rlock.NewOwner())
		require.NoError(t, p.NewLock("b").Lock(mine))
		whole := testbed.Start(func() error { return rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Do(w.Ctx, testbed.Nothing) })
		synctest.Wait()
		part := testbed.Start(func() error { return p.NewLock("a").Lock(mine) })
		time.Sleep(3 * time.Second)
		assert.Equal(t, 1, p.Logged(deadlockSaid))
		cancel()
		require.ErrorIs(t, <-part, context.Canceled)
		require.NoError(t, p.NewLock("b").Unlock(mine))
		require.NoError(t, <-whole)

		// A goroutine that holds the whole by a handle waits for ever for a part.
		hold := testbed.Take(t, w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		require.False(t, testbed.TriesFor(t, w.Ctx, p.NewLock("b"), 3*time.Second))
		assert.Equal(t, 1, p.Logged(ownSaid))
		require.NoError(t, hold.Release(w.Ctx))
	})
}

// Only the goroutine that has locked can unlock, so an Acquire by it waits for itself.
func TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		lock := p.NewFairLock(testbed.Key)
		require.NoError(t, lockedHere(w.Ctx, lock))
		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(10*time.Millisecond))), rlock.ErrNotAcquired)
		assert.Equal(t, 1, p.Logged(ownSaid))
		assert.Equal(t, 1, p.Logged("TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce"), "the site of the call")
		assert.Equal(t, 1, p.Logged("lockedHere"), "the site of the holder")

		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(time.Minute))), rlock.ErrNotAcquired)
		elsewhere := testbed.Start(func() error {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(10*time.Millisecond))
			return err
		})
		require.ErrorIs(t, <-elsewhere, rlock.ErrNotAcquired)
		assert.Equal(t, 2, p.Logged(ownSaid), "once for each call, and not for another goroutine's")
		require.NoError(t, lock.Unlock(w.Ctx))
	})
}

func lockedHere(ctx context.Context, lock *rlock.Lock) error { return lock.Lock(ctx) }
