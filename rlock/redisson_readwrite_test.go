package rlock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson's own tests of RReadWriteLock (4.7), in the form of those of RLock in
// redisson_lock_test.go. Tests that begin with eachKind run over both locks of the pair.
//
//	RedissonReadWriteLockTest
//	  testReadLockExpiration                      readers for 10 s and for 3 s: a writer enters after 10 s. Kept
//	    TestAWriterWaitsForTheLongestLeaseAmongTheReaders
//	  testReadLockIsLocked                        a writer alone does not lock the read lock. Kept
//	    TestEveryClientSeesReadersAndWriters
//	  testReadLockExpirationRenewal               50 readers read for longer than a lease. Kept
//	    TestFiftyReadersReadForLongerThanALease
//	  testName                                    a name with braces and colons. Kept
//	    TestANameWithABraceIsUsedAsItIsForKeysAndChannel
//	  testWriteLockExpiration                     lock(10 s), nested lock(1 s): no other owner is early. Better: Redisson adds the
//	                                              leases, here the longest counts
//	    TestNestedWriteLeasesAreNotAdded
//	  testInCluster                               both locks in a Cluster. Kept
//	    every test that begins with everywhere or eachKind
//	  testReadLockLeaseTimeoutDiffThreadsWRR,     waiters enter when leases end, in any mixture. Kept
//	  testReadLockLeaseTimeoutDiffThreadsRRW,
//	  testReadLockLeaseTimeout
//	    TestReadersEnterTogetherWhenAWritersLeaseEnds, TestAWriterWaitsForTheLongestLeaseAmongTheReaders,
//	    TestTheFixedLeaseOfOneReaderEndsForItAlone
//	  testWR                                      a read lock that is unlocked within the write lock leaves that. Kept
//	    TestTheWriterMayReadAndBothLocksNest
//	  testWriteRead                               20 readers enter together after a writer. Kept
//	    TestReadersOfAllClientsEnterTogetherAfterAWriter
//	  testWriteReadReentrancy                     a downgrade keeps writers out. Better: waiting readers are notified
//	    TestADowngradeLetsWaitingReadersInEverywhereAtOnce
//	  testWriteLock, testMultiRead                holders and refusals in both modes. Kept
//	    TestReadersOfAllClientsReadAtOnceAndKeepWritersOut, TestAWriterExcludesReadersAndWriters
//	  testForceUnlock                             each only in its own mode. Kept
//	    TestEachOfTheTwoLocksIsFreedByForceOnlyByItself
//	  testReadWriteTTL                            both are renewed, and the read lock goes on alone. Kept
//	    TestAReadersKeyIsRenewedWithTheHash
//	  testExpireRead, testExpireWrite             another enters when the lease ends; the late unlock() throws. Kept: ErrLost
//	    TestALeaseThatEndsFreesTheLockAndIsTheHoldersLoss, TestTheEndOfAFixedLeaseFreesTheLock
//	  testAutoExpire                              a client that is shut down leaves its lock for 30 s. Better: Close releases it
//	    TestCloseReleasesTheReadersAndTheirWaitersAreWoken, TestALockThatCloseReleasesIsGrantedAtOnce
//	  testHoldCount, testReentrancy               Kept
//	    TestTheOwnerLocksAgainWithoutWaitingAndUnlocksAsOften
//	  testIsHeld*, testIsLocked*                  Kept
//	    TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld, TestEveryClientSeesReadersAndWriters
//	  testUnlockFail, testLockUnlock              Kept
//	    TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing, TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked
//	  testConcurrency_*                           Kept
//	    TestTheSectionsOfOneClientNeverOverlap and its like, TestNoWriterOverlapsReadersOrWriters
//	  testMultiInstanceReadLockZombieCleanup      a dead client's read hold ends though others renew theirs. Kept
//	    TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews
//
//	RedissonLockExpirationRenewalTest
//	  testReadLockAfterTimeout, testWriteLockAfterTimeout  after a loss the next lock is renewed. Kept
//	    TestAfterALossTheNextReaderAndWriterAreRenewed

func TestAWriterWaitsForTheLongestLeaseAmongTheReaders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, leases := range [][]time.Duration{{10 * time.Second, 3 * time.Second}, {3 * time.Second, 10 * time.Second}} {
			for _, clients := range []int{1, 2} {
				l, there := w.rwClient(), w.rwClient()
				second := l
				if clients == 2 {
					second = w.rwClient()
				}
				require.NoError(t, l.read.LockFor(w.caller(), leases[0]))
				require.NoError(t, second.read.LockFor(w.caller(), leases[1]))
				within(t, 9*time.Second, 10*time.Second+50*time.Millisecond, func() {
					require.NoError(t, there.write.Do(w.caller(), nothing))
				})
			}
		}
	})
}

func TestFiftyReadersReadForLongerThanALease(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		there := w.rwClient()
		var all sync.WaitGroup
		for range 5 {
			l := w.rwClient()
			for range 10 {
				reader := w.caller()
				all.Go(func() {
					assert.NoError(t, l.read.Lock(reader))
					time.Sleep(5 * time.Minute)
					assert.NoError(t, l.read.Unlock(reader))
				})
			}
		}
		time.Sleep(time.Minute)
		writer := start(func() error { return there.write.Do(w.caller(), nothing) })
		for range 200 {
			time.Sleep(time.Second)
			require.True(t, pending(writer))
		}
		all.Wait()
		require.NoError(t, <-writer)
		assert.Empty(t, w.Keys())
	})
}

func TestNestedWriteLeasesAreNotAdded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, l.write.LockFor(me, 10*time.Second))
		require.NoError(t, l.write.LockFor(me, time.Second))
		within(t, 9*time.Second, 10*time.Second+50*time.Millisecond, func() {
			require.NoError(t, there.write.Do(w.caller(), nothing))
		})
		for range 2 {
			require.ErrorIs(t, l.write.Unlock(me), rlock.ErrLost)
		}
	})
}

func TestReadersEnterTogetherWhenAWritersLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there := w.rwClient(), w.rwClient()
		require.NoError(t, l.write.LockFor(w.caller(), 3*time.Second))
		var all sync.WaitGroup
		for range 10 {
			for _, x := range []rwClient{l, there} {
				reader := w.caller()
				all.Go(func() {
					within(t, 2900*time.Millisecond, 3050*time.Millisecond, func() { assert.NoError(t, x.read.Lock(reader)) })
					time.Sleep(time.Minute)
					assert.NoError(t, x.read.Unlock(reader))
				})
			}
		}
		all.Wait()
		assert.Empty(t, w.Keys())
	})
}

func TestReadersOfAllClientsEnterTogetherAfterAWriter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, l.write.Lock(me))
		entered := make(chan time.Time, 20)
		var all sync.WaitGroup
		for i := range 20 {
			reader, x := w.caller(), l
			if i%4 > 0 {
				x = w.rwClient()
			}
			all.Go(func() {
				assert.NoError(t, x.read.Lock(reader))
				entered <- time.Now()
				time.Sleep(time.Minute)
				assert.NoError(t, x.read.Unlock(reader))
			})
		}
		synctest.Wait()
		require.Empty(t, entered)
		unlocked := time.Now()
		require.NoError(t, l.write.Unlock(me))
		for range 20 {
			assert.Zero(t, (<-entered).Sub(unlocked))
		}
		all.Wait()
		assert.Empty(t, w.Keys())
	})
}

func TestAfterALossTheNextReaderAndWriterAreRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		for _, lock := range []locker{l.read, l.write} {
			require.NoError(t, lock.Lock(me))
			w.FlushAll() // a server without persistence restarts
			time.Sleep(time.Minute)
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			require.NoError(t, lock.Lock(me))
			time.Sleep(5 * time.Minute)
			for _, k := range w.Keys() {
				assert.GreaterOrEqual(t, w.ttl(k), 19*time.Second)
			}
			require.NoError(t, lock.Unlock(me))
			assert.Empty(t, w.Keys())
		}
	})
}
