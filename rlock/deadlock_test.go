package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
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
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withSites)
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		rw := p.NewReadWriteLock("pair")
		results := tangle(t, ctx,
			[2]*rlock.Lock{p.NewLock("plain"), p.NewFairLock("fair")},
			[2]*rlock.Lock{p.NewFairLock("fair"), rw.Write()},
			[2]*rlock.Lock{rw.Read(), p.NewFencedLock("fenced")},
			[2]*rlock.Lock{p.NewFencedLock("fenced"), p.NewLock("plain")},
		)
		bystander := start(func() error { return p.NewLock("plain").Lock(rlock.WithOwner(ctx, rlock.NewOwner())) })
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, p.logged(deadlockSaid))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, p.logged(deadlockSaid))
		for _, said := range []string{".lock=plain", ".lock=fair", ".lock=pair", ".lock=fenced", "4.holder_site=", "deadlock_test.go"} {
			assert.Equal(t, 1, p.logged(said), "%q is in the one line", said)
		}
		assert.Zero(t, p.logged("5.lock"), "no other owner is part of the deadlock")

		// A later search finds the same deadlock, and does not log it again.
		late := start(func() error { return p.NewLock("fair").Lock(rlock.WithOwner(ctx, rlock.NewOwner())) })
		later := start(func() error { _, err := p.NewLock("plain").TryLockFor(w.caller(), time.Minute, 0); return err })
		time.Sleep(2 * time.Minute)
		assert.Equal(t, 1, p.logged(deadlockSaid))
		cancel()
		for range 4 {
			<-results // an owner that gets its lock because another gave up has no error
		}
		<-bystander
		<-late
		require.NoError(t, <-later)

		// When the same owners deadlock again, that is a new deadlock.
		ctx, cancel = context.WithCancel(w.ctx)
		defer cancel()
		results = tangle(t, ctx, [2]*rlock.Lock{p.NewLock("a"), p.NewLock("b")}, [2]*rlock.Lock{p.NewLock("b"), p.NewLock("a")})
		time.Sleep(3 * time.Second)
		assert.Equal(t, 2, p.logged(deadlockSaid))
		cancel()
		<-results
		<-results
	})
}

// Each handle is an owner of its own; the goroutine is common to them.
func TestADeadlockOfGoroutinesThatHoldHandlesIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withSites)
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		var results []<-chan error
		begin := make(chan struct{})
		for _, pair := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}} {
			results = append(results, start(func() error {
				hold, err := p.NewLock(pair[0]).Acquire(ctx)
				if err != nil {
					return err
				}
				defer hold.Release(w.ctx)
				<-begin
				_, err = takenHere(ctx, p.NewLock(pair[1]))
				return err
			}))
		}
		synctest.Wait()
		close(begin)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(deadlockSaid))
		assert.Equal(t, 1, p.logged("takenHere"))
		cancel()
		for _, result := range results {
			<-result
		}
	})
}

// The parts of a compound lock are taken one after the other, and each excludes other owners.
func TestADeadlockWithAPartOfALockOverSeveralIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		mine := rlock.WithOwner(ctx, rlock.NewOwner())
		require.NoError(t, p.NewLock("b").Lock(mine))
		whole := start(func() error { return rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Do(w.ctx, nothing) })
		synctest.Wait()
		part := start(func() error { return p.NewLock("a").Lock(mine) })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(deadlockSaid))
		cancel()
		require.ErrorIs(t, <-part, context.Canceled)
		require.NoError(t, p.NewLock("b").Unlock(mine))
		require.NoError(t, <-whole)

		// A goroutine that holds the whole by a handle waits for ever for a part.
		hold, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.ctx)
		require.NoError(t, err)
		ok, err := p.NewLock("b").TryLockFor(w.ctx, 3*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		assert.Equal(t, 1, p.logged(ownSaid))
		require.NoError(t, hold.Release(w.ctx))
	})
}

// Owners that take locks in one order wait for long, but never for each other.
func TestNoDeadlockIsLoggedWhereThereIsNone(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		var results []<-chan error
		for i := range 20 {
			results = append(results, start(func() error {
				for round := range 10 {
					mine := w.caller()
					var held []*rlock.Lock
					for n := i % 3; n < 6; n += 1 + (i+round)%2 {
						lock := p.NewReadWriteLock(fmt.Sprint("lock", n)).Write()
						if (i+n)%2 == 0 {
							lock = p.NewReadWriteLock(fmt.Sprint("lock", n)).Read()
						}
						if err := lock.Lock(mine); err != nil {
							return err
						}
						held = append(held, lock)
						time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					}
					for _, lock := range held {
						if err := lock.Unlock(mine); err != nil {
							return err
						}
					}
				}
				return nil
			}))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
		// Nor do permits of a semaphore make a deadlock: any permit will do.
		me := w.caller()
		require.NoError(t, p.NewSemaphore("permits", 1).Lock(me))
		ok, err := p.NewSemaphore("permits", 1).TryLockFor(w.caller(), 3*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		require.Greater(t, p.Stats().WaitTime, time.Minute, "they waited")
		assert.Zero(t, p.logged(deadlockSaid))
		assert.Zero(t, p.logged(ownSaid))
	})
}

// A wait that was searched for deadlocks is still logged as a long one.
func TestAWaitInADeadlockIsLoggedAsALongOneToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(func(c *rlock.Config) { c.LongWait = 7 * time.Second })
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		results := tangle(t, ctx, [2]*rlock.Lock{p.NewLock("a"), p.NewLock("b")}, [2]*rlock.Lock{p.NewLock("b"), p.NewLock("a")})
		time.Sleep(7100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(deadlockSaid))
		assert.Equal(t, 2, p.logged("rlock: a call waits for a lock for a long time"))
		cancel()
		<-results
		<-results
	})
}

// Only the goroutine that has locked can unlock, so an Acquire by it waits for itself.
func TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withSites)
		lock := p.NewFairLock(key)
		require.NoError(t, lockedHere(w.ctx, lock))
		_, err := lock.Acquire(w.ctx, rlock.WithWait(10*time.Millisecond))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(ownSaid))
		assert.Equal(t, 1, p.logged("TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce"), "the site of the call")
		assert.Equal(t, 1, p.logged("lockedHere"), "the site of the holder")

		_, err = lock.Acquire(w.ctx, rlock.WithWait(time.Minute))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		elsewhere := start(func() error {
			_, err := lock.Acquire(w.ctx, rlock.WithWait(10*time.Millisecond))
			return err
		})
		require.ErrorIs(t, <-elsewhere, rlock.ErrNotAcquired)
		synctest.Wait()
		assert.Equal(t, 2, p.logged(ownSaid), "once for each call, and not for another goroutine's")
		require.NoError(t, lock.Unlock(w.ctx))
	})
}

func lockedHere(ctx context.Context, lock *rlock.Lock) error { return lock.Lock(ctx) }
