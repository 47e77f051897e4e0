package losses_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// many is more than the number of losses of fixed leases that a client remembers.
const many = 10_000 + 1_000

// readers is the number of owners that read one lock: to Redis they are one reader.
const readers = 100

// multitude has many owners take read locks for the lease, 0 for the watchdog. It returns
// each lock with its owner.
func multitude(w *testbed.World, p *testbed.Client, lease time.Duration) (locks []*rlock.Lock, owners []context.Context) {
	w.T.Helper()
	for i := range many {
		locks = append(locks, p.NewReadWriteLock(fmt.Sprint("multitude:", i/readers)).Read())
		owners = append(owners, w.Caller())
		require.NoError(w.T, locks[i].LockFor(owners[i], lease))
	}
	return locks, owners
}

// unlogged discards the log of clients that lose many locks.
func unlogged(c *rlock.Config) { c.Logger = testbed.Quiet }

func TestAfterALossTheOwnerMustUnlockBeforeItMayLockAgain(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		w.Forget(testbed.Key)
		time.Sleep(11 * time.Second)
		for range 2 {
			require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
			_, err := lock.TryLock(me)
			require.ErrorIs(t, err, rlock.ErrLost)
			require.NoError(t, lock.Lock(w.Caller()), "others may")
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			w.Forget(testbed.Key)
			time.Sleep(11 * time.Second)
		}
		require.NoError(t, lock.Lock(me), "after all levels are unlocked")
		require.NoError(t, lock.Unlock(me))
	})
}

func TestALostSectionIsRefusedNestedLocksHoweverManyOthersWereLostSince(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(unlogged), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		w.Del(testbed.Key)
		time.Sleep(11 * time.Second)
		require.False(t, lock.IsHeld(me))

		locks, owners := multitude(w, p, 0)
		w.FlushAll()
		time.Sleep(11 * time.Second)
		synctest.Wait()

		require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
		for _, i := range []int{0, many / 2, many - 1} {
			require.ErrorIs(t, locks[i].Lock(owners[i]), rlock.ErrLost)
			require.ErrorIs(t, locks[i].Unlock(owners[i]), rlock.ErrLost)
			err := locks[i].Unlock(owners[i])
			require.ErrorIs(t, err, rlock.ErrNotHeld)
			require.NotErrorIs(t, err, rlock.ErrLost, "all losses are remembered")
		}
		err := lock.Unlock(me)
		require.ErrorIs(t, err, rlock.ErrLost)
		require.NotErrorIs(t, err, rlock.ErrNotHeld)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAnUnlockDoesNotDenyALossThatIsForgotten(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(unlogged)
		first, me := p.NewFencedLock(testbed.Key), w.Caller()
		require.NoError(t, first.LockFor(me, time.Second))
		time.Sleep(time.Second)
		_, err := first.Token(w.Caller())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "all losses are remembered")

		multitude(w, p, time.Second)
		last, lastOwner := p.NewLock("last"), w.Caller()
		require.NoError(t, last.LockFor(lastOwner, 2*time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		either := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, rlock.ErrNotHeld)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		either(first.Unlock(me))
		_, err = first.Token(me)
		either(err)
		either(last.Unlock(me))
		either(rlock.NewMultiLock(first, last).Unlock(me))

		err = last.Unlock(lastOwner)
		require.ErrorIs(t, err, rlock.ErrLost)
		require.NotErrorIs(t, err, rlock.ErrNotHeld, "the latest loss is remembered")

		hold, err := first.Acquire(w.Ctx)
		require.NoError(t, err)
		require.NoError(t, hold.Release(w.Ctx))
		err = hold.Release(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "a handle remembers its own loss")
	})
}

func TestALossIsRememberedUntilTheEndOfTheFixedLease(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(unlogged), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.LockFor(me, time.Hour))
		w.Del(testbed.Key)
		time.Sleep(11 * time.Second)
		multitude(w, p, time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
	})
}

func TestAFixedLeaseThatWasLostEarlyRefusesNestedLocksUntilItsEnd(t *testing.T) {
	for name, lose := range map[string]func(w *testbed.VirtualKind, p *testbed.Peer){
		"forgotten by Redis": func(w *testbed.VirtualKind, _ *testbed.Peer) {
			w.Forget(testbed.Key)
			time.Sleep(11 * time.Second)
		},
		"unlocked by force": func(w *testbed.VirtualKind, p *testbed.Peer) {
			freed, err := p.NewLock(testbed.Key).ForceUnlock(w.Ctx)
			require.NoError(w.T, err)
			require.True(w.T, freed)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
				const lease = time.Minute
				p, me := w.NewProcess(), w.Caller()
				lock, began := p.NewLock(testbed.Key), time.Now()
				require.NoError(t, lock.LockFor(me, lease))
				lose(w, p)
				assert.False(t, lock.IsHeld(me))
				require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
				_, err := lock.TryLockFor(me, 0, time.Second)
				require.ErrorIs(t, err, rlock.ErrLost)

				time.Sleep(time.Until(began.Add(lease)))
				require.NoError(t, lock.Lock(me), "the lease has ended: this is no nested lock")
				require.NoError(t, lock.Unlock(me))
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost, "the first")
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
			})
		})
	}
}

// A holder that waits for the end of its hold may take the lock again at that moment, which
// is shortly before the lease in Redis ends.
func TestAfterTheEndOfAHoldWithAFixedLeaseTheOwnerMayLockAgainAtOnce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		hold, err := lock.Acquire(me, rlock.WithLease(time.Second))
		require.NoError(t, err)
		<-hold.Context().Done()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
	})
}

func TestAfterAFixedLeaseHasEndedTheOwnerMayLockAgainAtOnce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.LockFor(me, time.Second))
		time.Sleep(time.Second)
		assert.False(t, lock.IsHeld(me))
		require.NoError(t, lock.LockFor(me, time.Second))
		require.NoError(t, lock.Unlock(me), "the second")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost, "the first")
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
	})
}
