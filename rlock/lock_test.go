package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		for range 3 {
			require.NoError(t, here.Lock(s.ctx))
			assert.False(t, s.isFree(here), "another goroutine of the client")
			assert.False(t, s.isFree(there), "another client")
			taken, err := there.rival.TryLock(s.ctx)
			require.NoError(t, err)
			assert.False(t, taken, "the same goroutine by another client")

			require.NoError(t, here.Unlock(s.ctx))
			assert.True(t, s.isFree(here))
			assert.True(t, s.isFree(there))
		}
	})
}

func TestTwoLocksOfOneNameAreTheSameLockAndOtherNamesAreNot(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		p := s.process()
		one, same, other := p.lock(key), p.lock(key), p.lock("orders:43")
		assert.Equal(t, one.Name(), same.Name())
		assert.NotEqual(t, one.Name(), other.Name())
		require.NoError(t, one.Lock(s.ctx))
		assert.Equal(t, 1, same.HoldCount(s.ctx))
		assert.True(t, s.isFree(other))
		require.NoError(t, same.Unlock(s.ctx))
		assert.True(t, s.isFree(one))
	})
}

// Redisson: testGetHoldCount, testReentrancy.
func TestTheOwnerLocksAgainWithoutWaitingAndUnlocksAsOften(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock, there := s.lock(), s.lock()
		assert.Equal(t, 0, lock.HoldCount(s.ctx))

		require.NoError(t, lock.Lock(s.ctx))
		assert.Equal(t, 1, lock.HoldCount(s.ctx))
		require.NoError(t, lock.Unlock(s.ctx))
		assert.Equal(t, 0, lock.HoldCount(s.ctx))

		require.NoError(t, lock.Lock(s.ctx))
		taken, err := lock.TryLock(s.ctx)
		require.NoError(t, err)
		assert.True(t, taken)
		assert.Equal(t, 2, lock.HoldCount(s.ctx))
		assert.False(t, s.isFree(lock))

		require.NoError(t, lock.Unlock(s.ctx))
		assert.Equal(t, 1, lock.HoldCount(s.ctx))
		assert.False(t, s.isFree(lock))
		assert.False(t, s.isFree(there))

		require.NoError(t, lock.Unlock(s.ctx))
		assert.Equal(t, 0, lock.HoldCount(s.ctx))
		assert.True(t, s.isFree(there))
	})
}

// Redisson: testIsLocked, testIsHeldByCurrentThread, both also OtherThread.
func TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.kind.lingers > 0 {
			t.Skip("a lock that lingers looks locked after Unlock")
		}
		here, there := s.lock(), s.lock()
		look := func(lock locker) (locked, held bool) {
			locked, err := lock.IsLocked(s.ctx)
			assert.NoError(t, err)
			return locked, lock.IsHeld(s.ctx)
		}
		expect := func(lock locker, locked, held bool) {
			t.Helper()
			isLocked, isHeld := look(lock)
			assert.Equal(t, locked, isLocked)
			assert.Equal(t, held, isHeld)
		}
		expect(here, false, false)
		require.NoError(t, here.Lock(s.ctx))
		expect(here, true, true)
		expect(there, true, false)
		elsewhere(func() { expect(here, true, false) })
		require.NoError(t, here.Unlock(s.ctx))
		expect(here, false, false)
		expect(there, false, false)
	})
}

// Redisson: testUnlockFail.
func TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld, "no owner holds the lock")

		require.NoError(t, here.Lock(s.ctx))
		elsewhere(func() { assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld) })
		assert.ErrorIs(t, there.Unlock(s.ctx), rlock.ErrNotHeld)
		assert.Equal(t, 1, here.HoldCount(s.ctx))
		assert.False(t, s.isFree(there))
		require.NoError(t, here.Unlock(s.ctx))
	})
}

func TestASecondUnlockIsErrNotHeldAndTakesNothingFromTheNextHolder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, there.Lock(s.ctx))
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld)
		assert.True(t, there.IsHeld(s.ctx))
		assert.False(t, s.isFree(here))
		require.NoError(t, there.Unlock(s.ctx), "the next holder's key is unchanged")
	})
}

func TestAnUnlockWorksWithAContextThatHasEnded(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		ctx, cancel := context.WithCancel(s.ctx)
		require.NoError(t, here.Lock(ctx))
		cancel()
		assert.Equal(t, 1, here.HoldCount(ctx), "the hold does not depend on the context")
		require.NoError(t, here.Unlock(ctx))
		assert.True(t, s.isFree(there))
	})
}

func TestTTLIsTheLeaseWhileHeldAndZeroWhenFree(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.kind.lingers > 0 {
			t.Skip("the key of a lock that lingers stays after Unlock")
		}
		here, there := s.lock(withLease(time.Hour)), s.lock()
		ttl := func(lock locker) time.Duration {
			d, err := lock.TTL(s.ctx)
			require.NoError(t, err)
			return d
		}
		assert.Zero(t, ttl(here))
		require.NoError(t, here.Lock(s.ctx))
		for _, lock := range []locker{here, there} {
			assert.Greater(t, ttl(lock), time.Hour-hang)
			assert.LessOrEqual(t, ttl(lock), time.Hour)
		}
		require.NoError(t, here.Unlock(s.ctx))
		assert.Zero(t, ttl(there))
	})
}

func TestTTLOfAKeyThatDoesNotExpireIsNegative(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.lock()
		require.NoError(t, lock.Lock(s.ctx))
		// The first answer over a new connection has the client renew its leases, which may be after a PERSIST.
		assert.Eventually(t, func() bool {
			persisted := s.do("PERSIST", key).Error()
			ttl, err := lock.TTL(s.ctx)
			return persisted == nil && err == nil && ttl == -1
		}, hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// Redisson: testRemainTimeToLive2, with leases of an hour for ten seconds.
func TestNestedUnlocksLeaveTheLeaseOfTheLevelThatIsLeft(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.lock()
		for range 3 {
			require.NoError(t, lock.LockFor(s.ctx, time.Hour))
		}
		for range 2 {
			require.NoError(t, lock.Unlock(s.ctx))
		}
		require.Eventually(t, func() bool {
			count, err := s.do("HVALS", key).AsStrSlice()
			return err == nil && len(count) == 1 && count[0] == "1"
		}, hang, time.Millisecond, "the unlocks are mirrored")
		ttl, err := lock.TTL(s.ctx)
		require.NoError(t, err)
		assert.Greater(t, ttl, time.Hour-hang)
		assert.LessOrEqual(t, ttl, time.Hour)
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// Redisson: testRemainTimeToLive.
func TestALeaseDoesNotLeakIntoTheNextLock(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		require.NoError(t, lock.LockFor(s.ctx, time.Hour))
		ttl, err := lock.TTL(s.ctx)
		require.NoError(t, err)
		assert.Greater(t, ttl, time.Hour-hang)
		require.NoError(t, lock.Unlock(s.ctx))

		require.NoError(t, lock.Lock(s.ctx))
		ttl, err = lock.TTL(s.ctx)
		require.NoError(t, err)
		assert.Positive(t, ttl)
		assert.LessOrEqual(t, ttl, 30*time.Second, "the default lease of the watchdog")
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// Redisson: testExpire.
func TestALeaseThatEndsFreesTheLockAndIsTheHoldersLoss(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.LockFor(s.ctx, 100*time.Millisecond))
		require.NoError(t, there.rival.Lock(s.ctx), "Lock waits for the end of the lease")
		assert.False(t, here.IsHeld(s.ctx))
		assert.Zero(t, here.HoldCount(s.ctx))
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld, "a loss is reported once")
		require.NoError(t, there.rival.Unlock(s.ctx))
	})
}

func TestTryLockForGivesUpWhenItsTimeIsUp(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		for _, wait := range []time.Duration{-1, 0, 100 * time.Millisecond} {
			began := time.Now()
			local := background(func() error {
				taken, err := try(s.ctx, here.rival, wait, time.Hour)
				assert.False(t, taken)
				return err
			})
			taken, err := try(s.ctx, there.rival, wait, 0)
			require.NoError(t, err)
			assert.False(t, taken)
			require.NoError(t, s.await(local))
			assert.GreaterOrEqual(t, time.Since(began), wait)
		}
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, there.rival.Lock(s.ctx), "a caller that gave up holds nothing")
		require.NoError(t, there.rival.Unlock(s.ctx))
	})
}

func TestTryLockForTakesTheLockWithinItsTime(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		ctx, queued := queueing(s.ctx)
		waiter := background(func() error {
			taken, err := there.rival.TryLockFor(ctx, hang, time.Hour)
			assert.True(t, taken)
			if err != nil {
				return err
			}
			// Redis shows the lease a moment later if the queue granted the lock, or if the
			// lock is compound.
			assert.Eventually(t, func() bool {
				ttl, err := there.rival.TTL(s.ctx)
				return err == nil && ttl > time.Hour-hang
			}, hang, time.Millisecond, "Redis shows the lease of the call")
			return there.rival.Unlock(s.ctx)
		})
		<-queued
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, s.await(waiter))

		taken, err := there.TryLockFor(s.ctx, 0, 0)
		require.NoError(t, err)
		assert.True(t, taken, "a free lock is taken at once")
		require.NoError(t, there.Unlock(s.ctx))
	})
}

// The wait bounds the waiting, not an attempt: a free lock is taken however short the wait
// is.
func TestTryLockForMakesOneAttemptHoweverShortTheWait(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock, me := s.lock(), rlock.WithOwner(s.ctx, rlock.NewOwner())
		for _, wait := range []time.Duration{-time.Second, 0, 1, time.Microsecond} {
			assert.Eventually(t, func() bool { // an abandoned ticket leaves the queue a moment later
				taken, err := try(me, lock, wait, 0)
				return err == nil && taken
			}, hang, time.Millisecond, wait)
			// On a busy machine a RedLock may take its servers for silent for a moment, and
			// returns another error.
			assert.Eventually(t, func() bool {
				hold, err := lock.rival.Acquire(rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithWait(wait))
				assert.Nil(t, hold)
				return errors.Is(err, rlock.ErrNotAcquired)
			}, hang, time.Millisecond, wait)
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestTryLockSendsNothingWhenItsClientHoldsTheLock(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		if s.kind.many {
			t.Skip("another permit may be free")
		}
		lock := s.lock()
		require.NoError(t, lock.Lock(s.ctx))
		for _, site := range s.sites { // a compound lock may have waited only for most of them
			require.Eventually(t, func() bool {
				n, err := site.do("EXISTS", key).AsInt64()
				return err == nil && n == 1
			}, hang, time.Millisecond)
		}
		assert.Eventually(t, func() bool { // a mirror may follow the first answer over a new connection
			return s.count(func() { assert.False(t, s.isFree(lock)) }, "evalsha", "eval") == 0
		}, hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// Redisson: testForceUnlock.
func TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		lock := s.lock()
		forced, err := lock.ForceUnlock(s.ctx)
		require.NoError(t, err)
		assert.False(t, forced, "no owner holds the lock")

		require.NoError(t, lock.Lock(s.ctx))
		require.NoError(t, lock.Lock(s.ctx))
		elsewhere(func() {
			forced, err := lock.ForceUnlock(s.ctx)
			assert.NoError(t, err)
			assert.True(t, forced)
		})
		locked, err := lock.IsLocked(s.ctx)
		require.NoError(t, err)
		assert.False(t, locked)
		assert.False(t, lock.IsHeld(s.ctx), "the holder of the same client knows at once")
		assert.ErrorIs(t, lock.Lock(s.ctx), rlock.ErrLost, "a nested Lock fails after a loss")
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrLost, "the loss is reported once for each level")
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrNotHeld)
		require.Eventually(t, func() bool { return s.isFree(lock) }, hang, time.Millisecond, "the other parts are released")
	})
}

func TestAForceUnlockByAnotherClientIsLearntAtTheNextRenewal(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		here, there := w.process(), w.process()
		within(t, 0, 10*time.Second+10*time.Millisecond, func() {
			learnsOfForce(w.caller(), t, here.lock(key), there.lock(key))
		})
	})
}

// On each server all kinds run at the same time: they wait for their renewals.
func TestAForceUnlockByAnotherClientIsLearntWhateverTheServer(t *testing.T) {
	redistest.Over(t, everyServer[1:], func(t *testing.T, server *redistest.Server) {
		s := &subject{site: at(t, server)}
		s.sites = []*site{s.site}
		s.leavesNothing()
		var all sync.WaitGroup
		for _, k := range kinds {
			if k.servers > 1 {
				continue
			}
			s.kind = k
			here, there := s.process(withLease(3*time.Second)), s.process()
			all.Go(func() {
				t.Run(k.name, func(t *testing.T) {
					learnsOfForce(s.ctx, t, here.lock(k.name), there.lock(k.name))
				})
			})
		}
		all.Wait()
	})
}

// In learnsOfForce one client takes the lock and another unlocks it by force; it returns when
// the former holder knows.
func learnsOfForce(ctx context.Context, t *testing.T, here, there *trial) {
	hold, err := here.Acquire(ctx)
	require.NoError(t, err)
	forced, err := there.ForceUnlock(ctx)
	require.NoError(t, err)
	assert.True(t, forced)
	require.NoError(t, there.rival.Lock(ctx), "the lock is free")
	select {
	case <-hold.Context().Done():
	case <-ctx.Done():
		require.FailNow(t, "the holder was not notified")
	}
	assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	assert.ErrorIs(t, hold.Release(ctx), rlock.ErrLost)
	assert.True(t, there.rival.IsHeld(ctx))
	require.NoError(t, there.rival.Unlock(ctx), "the next holder's lock is unchanged")
}

func TestAForceUnlockByAnotherClientIsLearntByUnlock(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.kind.lingers > 0 {
			t.Skip("Unlock does not ask Redis")
		}
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(s.ctx))
		_, err := there.ForceUnlock(s.ctx)
		require.NoError(t, err)
		require.NoError(t, there.rival.Lock(s.ctx))
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrLost)
		assert.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrNotHeld)
		assert.True(t, there.rival.IsHeld(s.ctx))
		require.NoError(t, there.rival.Unlock(s.ctx), "the next holder's lock is unchanged")
	})
}

func TestACancelledLockReturnsTheContextsErrorAndHoldsNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.lock(), s.lock()
		ended, cancel := context.WithCancel(s.ctx)
		cancel()
		assert.ErrorIs(t, here.Lock(ended), context.Canceled, "a free lock must not be taken with a context that has ended")

		require.NoError(t, here.Lock(s.ctx))
		for what, lock := range map[string]locker{"behind a goroutine": here.rival, "behind a client": there.rival} {
			ctx, cancel := context.WithCancel(s.ctx)
			ctx, queued := queueing(ctx)
			waiter := background(func() error { return lock.Lock(ctx) })
			<-queued
			cancel()
			assert.ErrorIs(t, s.await(waiter), context.Canceled, what)

			ctx, cancel = context.WithTimeout(s.ctx, 10*time.Millisecond)
			elsewhere(func() { assert.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded, what) })
			cancel()
		}
		assert.True(t, here.IsHeld(s.ctx))
		require.NoError(t, here.Unlock(s.ctx))
		for _, lock := range []locker{here.rival, there.rival} {
			require.NoError(t, lock.Lock(s.ctx))
			require.NoError(t, lock.Unlock(s.ctx))
		}
	})
}

func TestAnInvalidNameOrLeaseIsRefusedWithoutACommand(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		p := s.process()
		sent := s.count(func() {
			nameless := p.lock("")
			assert.ErrorIs(t, nameless.Lock(s.ctx), rlock.ErrInvalidName)
			assert.ErrorIs(t, nameless.LockFor(s.ctx, time.Hour), rlock.ErrInvalidName)
			_, err := nameless.TryLock(s.ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.TryLockFor(s.ctx, time.Hour, 0)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			assert.ErrorIs(t, nameless.Unlock(s.ctx), rlock.ErrInvalidName)
			_, err = nameless.ForceUnlock(s.ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.IsLocked(s.ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.TTL(s.ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.Acquire(s.ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			assert.ErrorIs(t, nameless.Do(s.ctx, func(context.Context) error { panic("called") }), rlock.ErrInvalidName)
			assert.False(t, nameless.IsHeld(s.ctx))

			lock := p.lock(key)
			for _, lease := range []time.Duration{-time.Second, time.Nanosecond, time.Millisecond} {
				assert.ErrorIs(t, lock.LockFor(s.ctx, lease), rlock.ErrInvalidLease)
				_, err = lock.TryLockFor(s.ctx, time.Hour, lease)
				assert.ErrorIs(t, err, rlock.ErrInvalidLease)
				_, err = lock.Acquire(s.ctx, rlock.WithLease(lease))
				assert.ErrorIs(t, err, rlock.ErrInvalidLease)
			}
		}, "evalsha", "eval", "exists", "pttl")
		assert.Zero(t, sent)
	})
}

// The rueidis client of a program has rueidis' defaults: several connections, and commands
// that may overtake each other.
func TestClientsThatShareARueidisClientExcludeEachOtherAndLeaveItOpen(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		shared := make(map[*site]rueidis.Client)
		for _, site := range s.sites {
			client, err := rueidis.NewClient(site.Options())
			require.NoError(t, err)
			t.Cleanup(client.Close)
			shared[site] = client
		}
		sharing := func() *process {
			return s.with(func(site *site) *rlock.Client {
				return site.client(func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, shared[site] })
			})
		}

		processes := []*process{sharing(), sharing(), s.process()}
		r := new(record)
		for _, p := range processes {
			r.work(s.site, p.lock(key), 4, rounds(12))
		}
		r.check(t, 3*4*rounds(12))
		for _, p := range processes {
			for _, client := range p.clients {
				require.NoError(t, client.Close())
			}
		}
		for _, client := range shared {
			assert.NoError(t, client.Do(s.ctx, client.B().Exists().Key(key).Build()).Error(), "the client was closed")
		}
	})
}

// Errors name the holder of the lock, as far as the client knows it.

func TestARefusalNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		me := w.caller()
		owner, _ := rlock.OwnerFrom(me)
		refusal := func(p *testClient, wait time.Duration) string {
			_, err := p.NewLock(key).Acquire(w.ctx, rlock.WithWait(wait))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err.Error()
		}
		for _, wait := range []time.Duration{0, time.Second} {
			require.NoError(t, here.NewLock(key).Lock(me))
			assert.Contains(t, refusal(here, wait), "held by owner "+fmt.Sprint(owner)+" of this process")
			assert.Contains(t, refusal(there, wait), "held by "+here.ID())
			assert.Contains(t, refusal(there, wait), fmt.Sprint(owner)+" of another client")
			require.NoError(t, here.NewLock(key).Unlock(me))

			hold, err := here.NewLock(key).Acquire(w.ctx)
			require.NoError(t, err)
			assert.Contains(t, refusal(here, wait), "held by a Hold of this process")
			require.NoError(t, hold.Release(w.ctx))

			w.HSet(key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
			w.SetTTL(key, time.Hour)
			assert.Contains(t, refusal(here, wait), "held by 7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1, which is no client of rlock")
			w.Del(key)
			time.Sleep(3 * time.Second) // until the abandoned tickets are gone
		}
	})
}

func TestALockThatTimesOutNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		require.NoError(t, here.NewLock(key).Lock(w.ctx))
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		err := there.NewLock(key).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "held by "+here.ID())
		require.NoError(t, here.NewLock(key).Unlock(w.ctx))
	})
}

func TestAnUnlockInAnotherGoroutineSaysWhereToUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		require.NoError(t, lock.Lock(w.ctx))
		err := <-start(func() error { return lock.Unlock(w.ctx) })
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by goroutine ")
		require.ErrorContains(t, err, "unlock there, or use Acquire or WithOwner")
		require.NoError(t, lock.Unlock(w.ctx))
	})
}

func TestAnUnlockOfALockThatAHoldHasRefersToRelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		hold, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		err = lock.Unlock(w.ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorContains(t, err, "held by a Hold of this process: call its Release")
		require.NoError(t, hold.Release(w.ctx))
	})
}
